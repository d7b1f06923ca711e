//! Sizes of a Deployment's ReplicaSets.

use proptest::prelude::*;
use rstest::rstest;

use crate::workloads::deployment::sizes::{Share, Size, grow_new, shrink_old, spread};
use crate::workloads::deployment::wanted::{Strategy as Way, Wanted};

fn rolling(replicas: i32, surge: i32, unavailable: i32) -> Wanted {
    Wanted {
        replicas,
        strategy: Way::Rolling { surge, unavailable },
        min_ready_seconds: 0,
        deadline: None,
        history: None,
        paused: false,
    }
}

fn size(replicas: i32, available: i32) -> Size {
    Size {
        replicas,
        available,
    }
}

#[rstest]
#[case::room_for_the_surge(10, 2, 10, 0, 2)]
#[case::room_made_by_old_pods(10, 2, 8, 3, 7)]
#[case::no_room(10, 2, 12, 4, 4)]
#[case::never_more_than_wanted(10, 5, 10, 9, 10)]
#[case::too_many(10, 0, 14, 12, 10)]
fn new_set_grows_within_the_surge_limit(
    #[case] replicas: i32,
    #[case] surge: i32,
    #[case] total: i32,
    #[case] new: i32,
    #[case] expected: i32,
) {
    assert_eq!(grow_new(&rolling(replicas, surge, 0), total, new), expected);
}

#[rstest]
#[case::nothing_to_spare(rolling(10, 2, 0), size(2, 0), &[size(10, 10)], &[10])]
#[case::as_many_as_came(rolling(10, 2, 0), size(2, 2), &[size(10, 10)], &[8])]
#[case::unavailability_is_used(rolling(10, 0, 3), size(0, 0), &[size(10, 10)], &[7])]
#[case::broken_ones_first(rolling(10, 0, 2), size(0, 0), &[size(5, 4), size(5, 4)], &[4, 4])]
#[case::broken_ones_of_younger_sets_before_good_ones_of_older(
    rolling(10, 2, 0), size(2, 2), &[size(5, 5), size(5, 3)], &[5, 3]
)]
#[case::those_on_their_way_out_do_not_count(rolling(10, 2, 0), size(2, 2), &[size(8, 10)], &[8])]
fn old_sets_shrink_within_the_availability_limit(
    #[case] wanted: Wanted,
    #[case] new: Size,
    #[case] old: &[Size],
    #[case] expected: &[i32],
) {
    assert_eq!(shrink_old(&wanted, new, old), expected);
}

#[rstest]
#[case::up(rolling(12, 0, 0), &[(10, Some(10))], &[12])]
#[case::up_in_proportion(rolling(20, 0, 0), &[(5, Some(10)), (5, Some(10))], &[10, 10])]
#[case::the_rest_to_the_largest(rolling(12, 0, 0), &[(2, Some(10)), (8, Some(10))], &[2, 10])]
#[case::down_to_nothing(rolling(0, 3, 0), &[(5, Some(13)), (8, Some(13))], &[0, 0])]
#[case::the_surge_counts(rolling(10, 2, 0), &[(3, Some(6)), (3, Some(6))], &[6, 6])]
fn sets_scale_proportionally(
    #[case] wanted: Wanted,
    #[case] sets: &[(i32, Option<i32>)],
    #[case] expected: &[i32],
) {
    let sets: Vec<Share> = sets
        .iter()
        .map(|&(replicas, most_before)| Share {
            replicas,
            most_before,
        })
        .collect();
    assert_eq!(spread(&wanted, &sets, 0), expected);
}

proptest! {
    /// The sizes add up to what is allowed, and none is negative.
    #[test]
    fn proportional_sizes_add_up(
        sizes in prop::collection::vec(1i32..50, 1..6),
        replicas in 1i32..200,
        surge in 0i32..20,
    ) {
        let before: i32 = sizes.iter().sum();
        let sets: Vec<Share> = sizes
            .iter()
            .map(|&replicas| Share { replicas, most_before: Some(before) })
            .collect();
        let wanted = rolling(replicas, surge, 0);
        let spread = spread(&wanted, &sets, before);
        prop_assert_eq!(spread.iter().sum::<i32>(), replicas + surge);
        prop_assert!(spread.iter().all(|size| *size >= 0));
    }

    /// Scaling down never violates the availability limit.
    #[test]
    fn minimum_availability_is_kept(
        replicas in 0i32..30,
        unavailable in 0i32..10,
        new in (0i32..30, 0i32..30),
        old in prop::collection::vec((0i32..20, 0i32..20), 0..5),
    ) {
        let unavailable = unavailable.min(replicas);
        let wanted = rolling(replicas, 1, unavailable);
        let new = size(new.0, new.1.min(new.0));
        let old: Vec<Size> = old.into_iter().map(|(all, good)| size(all, good.min(all))).collect();
        let shrunk = shrink_old(&wanted, new, &old);
        // A set that shrinks removes its unavailable pods first, as ReplicaSets do.
        let left: i32 = old.iter().zip(&shrunk).map(|(size, now)| size.available.min(*now)).sum();
        let there: i32 = old.iter().map(|size| size.available).sum();
        let least = (there + new.available).min(replicas - unavailable);
        prop_assert!(left + new.available >= least, "{left} + {} < {least}", new.available);
        prop_assert!(old.iter().zip(&shrunk).all(|(size, now)| (0..=size.replicas).contains(now)));
    }
}
