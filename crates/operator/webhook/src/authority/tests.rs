use rstest::rstest;
use serde_json::json;

use super::*;

fn at(hours: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_hours(1_000_000 + hours)
}

/// A CA by the hour of its creation.
fn made(hours: i64) -> Authority {
    made_at(at(hours))
}

fn made_at(now: Timestamp) -> Authority {
    let kept = json!({
        "certificate": format!("certificate of {now}\n"),
        "key": "secret",
        "made": now,
        "expires": now + CA_LIFETIME,
    });
    serde_json::from_value(kept).expect("what is kept in the Secret is read from there")
}

/// A year has 8760 hours; a third of it is 2928, counted in days.
#[rstest]
#[case::nothing_yet(&[], 0, &[], true)]
#[case::just_made(&[0], 0, &[0], false)]
#[case::in_its_prime(&[0], 5831, &[0], false)]
#[case::a_third_is_left(&[0], 5833, &[0], true)]
#[case::the_next_was_just_made(&[0, 5833], 5833, &[0, 5833], false)]
#[case::the_next_signs(&[0, 5833], 5834, &[0, 5833], false)]
#[case::the_former_is_not_needed_any_more(&[0, 5833], 5835, &[5833], false)]
#[case::order_does_not_matter(&[5833, 0], 5834, &[0, 5833], false)]
#[case::nobody_looked_for_years(&[0], 20_000, &[], true)]
#[case::two_were_made_at_once(&[0, 0], 3, &[0], false)]
#[case::a_clock_went_back(&[100], 0, &[100], false)]
fn cas_are_created_and_dropped_in_time(
    #[case] there: &[i64],
    #[case] now: i64,
    #[case] kept: &[i64],
    #[case] another: bool,
) {
    let there = there.iter().copied().map(made).collect();
    let kept = kept.iter().copied().map(made).collect();
    assert_eq!(
        rotation_step(there, at(now)),
        RotationStep { kept, another }
    );
}

#[rstest]
#[case::the_first_signs_at_once(&[0], 0, 0)]
#[case::nobody_has_heard_of_the_next(&[0, 5833], 5833, 0)]
#[case::everybody_has(&[0, 5833], 5834, 5833)]
fn newest_propagated_ca_signs(#[case] there: &[i64], #[case] now: i64, #[case] expected: i64) {
    let there: Vec<_> = there.iter().copied().map(made).collect();
    assert_eq!(signer(&there, at(now)), Some(&made(expected)));
}

/// Through ten years, checked every half hour: the signing CA is trusted, and has been for long enough.
#[test]
fn signing_ca_was_trusted_for_long_enough() {
    let mut all: Vec<Authority> = Vec::new();
    let mut signing: Option<Authority> = None;
    let mut followed = 0;
    for half_hours in 0..10 * 8760 * 2 {
        let now = at(0) + SignedDuration::from_mins(30 * half_hours);
        let before = all.clone();
        let RotationStep { kept, another } = rotation_step(all, now);
        all = kept;
        if another {
            all.push(made_at(now));
        }
        let next = signer(&all, now).cloned();
        assert!(next.as_ref().is_some_and(|it| it.expires > now));
        if next != signing {
            if let Some(former) = &signing {
                followed += 1;
                // Certificates of the previous CA are trusted until all replicas have new ones.
                assert!(all.contains(former), "{now}");
                assert!(before.contains(next.as_ref().unwrap_or(former)), "{now}");
            }
            signing = next;
        }
        assert!(all.len() <= 2, "{all:?}");
    }
    assert!(followed >= 10, "{followed}");
}

#[test]
fn private_keys_are_not_logged() {
    assert!(!format!("{:?}", made(0)).contains("secret"));
}
