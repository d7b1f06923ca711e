//! Distribution of replicas over the ReplicaSets of a Deployment.

use std::cmp::Reverse;

use super::wanted::{Strategy, Wanted};

/// Desired and available replicas of a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) replicas: i32,
    pub(super) available: i32,
}

/// The size of the new set that the surge limit allows, given the total of all sets.
pub(super) fn grow_new(wanted: &Wanted, total: i32, new: i32) -> i32 {
    if new >= wanted.replicas || wanted.strategy == Strategy::Recreate {
        return wanted.replicas;
    }
    let room = wanted.most() - total;
    if room <= 0 {
        return new;
    }
    new + room.min(wanted.replicas - new)
}

/// The sizes of the old sets that the availability limit allows, oldest first.
///
/// Unavailable pods are removed first: they block the rollout and serve no traffic. Then as many as
/// the limit allows. Available pods beyond a set's size are being deleted already and do not count.
pub(super) fn shrink_old(wanted: &Wanted, new: Size, old: &[Size]) -> Vec<i32> {
    let available = |size: &Size| size.available.min(size.replicas);
    let mut sizes: Vec<i32> = old.iter().map(|size| size.replicas).collect();
    let total: i32 = sizes.iter().sum::<i32>() + new.replicas;
    // New pods that are not available yet count as unavailable already: otherwise old ones would be
    // removed for pods that never become ready.
    let waiting = new.replicas - available(&new);
    let most = total - wanted.min_available() - waiting;
    if most <= 0 {
        return sizes;
    }
    let mut gone = 0;
    for (size, now) in old.iter().zip(&mut sizes) {
        let unhealthy = (size.replicas - available(size)).min(most - gone);
        *now -= unhealthy;
        gone += unhealthy;
    }
    let there: i32 = old.iter().map(available).sum::<i32>() + available(&new);
    let mut spare = (there - wanted.min_available()).max(0);
    for now in &mut sizes {
        let less = spare.min(*now);
        *now -= less;
        spare -= less;
    }
    sizes
}

/// A set with pods, for proportional scaling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Share {
    pub(super) replicas: i32,
    /// Maximum replicas of the deployment when this set was scaled.
    pub(super) most_before: Option<i32>,
}

/// Sizes for proportional scaling in the middle of a rollout, oldest first. The rounding remainder
/// goes to the largest set, among equals to the newest when growing and the oldest when shrinking.
/// `reported` is the number of replicas in the status.
pub(super) fn spread(wanted: &Wanted, sets: &[Share], reported: i32) -> Vec<i32> {
    let allowed = if wanted.replicas > 0 {
        wanted.most()
    } else {
        0
    };
    let mut sizes: Vec<i32> = sets.iter().map(|set| set.replicas).collect();
    let add = allowed - sizes.iter().sum::<i32>();
    if add == 0 {
        return sizes;
    }
    let mut order: Vec<usize> = (0..sets.len()).collect();
    order.sort_by_key(|&index| Reverse(sets[index].replicas));
    if add > 0 {
        order.reverse();
        order.sort_by_key(|&index| Reverse(sets[index].replicas));
    }
    let mut added = 0;
    for &index in &order {
        let left = add - added;
        let fraction = fraction(wanted, sets[index], reported);
        let part = if add > 0 {
            fraction.min(left)
        } else {
            fraction.max(left)
        };
        sizes[index] += part;
        added += part;
    }
    if let Some(&first) = order.first() {
        sizes[first] = (sizes[first] + add - added).max(0);
    }
    sizes
}

/// The change of a set that keeps its proportion.
fn fraction(wanted: &Wanted, set: Share, reported: i32) -> i32 {
    if wanted.replicas == 0 {
        return -set.replicas;
    }
    let before = set.most_before.filter(|most| *most > 0).unwrap_or(reported);
    if before <= 0 {
        return 0;
    }
    let (size, before) = (i64::from(set.replicas), i64::from(before));
    let doubled = 2 * size * i64::from(wanted.most()) + before;
    let rounded = doubled.div_euclid(2 * before);
    i32::try_from(rounded - size).unwrap_or(i32::MAX)
}
