//! Timeouts are Go durations, and expire.

use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use rstest::rstest;

use super::{TimeoutVerdict, parse, verdict};

#[rstest]
#[case("30m", 1800)]
#[case("2h", 7200)]
#[case("1h30m", 5400)]
#[case("24h", 86400)]
#[case("+90s", 90)]
fn go_durations_are_parsed(#[case] text: &str, #[case] seconds: i64) {
    assert_eq!(parse(text), Ok(SignedDuration::from_secs(seconds)));
}

#[rstest]
#[case("-1h")]
#[case("0")]
#[case("0s")]
#[case("")]
#[case("2 hours")]
#[case("1d")]
#[case("30")]
fn invalid_duration_is_rejected_with_accepted_form(#[case] text: &str) {
    let refused = parse(text).unwrap_err();
    assert!(refused.starts_with("spec.waitTimeout: "), "{refused}");
    assert!(refused.contains(&format!("\"{text}\"")), "{refused}");
    assert!(refused.contains("1h30m"), "{refused}");
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

#[test]
fn without_a_timeout_an_item_waits_forever() {
    assert_eq!(
        verdict(at(0), at(1_000_000), None, "busy"),
        TimeoutVerdict::Wait(None)
    );
}

#[test]
fn timeout_message_has_duration_and_health() {
    let now = at(3661) + SignedDuration::from_millis(250);
    let hour = Some(SignedDuration::from_hours(1));
    assert_eq!(
        verdict(at(0), now, hour, "MachineConfigPool 'worker' is updating"),
        TimeoutVerdict::Expired(
            "Timeout waiting for resource to become healthy (waited 1h1m1s, timeout 1h0m0s): \
             MachineConfigPool 'worker' is updating"
                .to_owned()
        )
    );
}

#[test]
fn clock_set_back_leaves_the_full_timeout() {
    let minute = SignedDuration::from_mins(1);
    assert_eq!(
        verdict(at(100), at(0), Some(minute), ""),
        TimeoutVerdict::Wait(Some(minute))
    );
}

proptest! {
    /// A check after the remaining time finds it expired, and one a moment earlier does not.
    #[test]
    fn expires_exactly_at_the_timeout(waited in 0_i64..10_000, timeout in 1_i64..10_000) {
        let limit = Some(SignedDuration::from_secs(timeout));
        match verdict(at(0), at(waited), limit, "x") {
            TimeoutVerdict::Expired(_) => prop_assert!(waited >= timeout),
            TimeoutVerdict::Wait(Some(left)) => {
                prop_assert!(waited < timeout);
                let then = at(waited) + left;
                prop_assert!(matches!(verdict(at(0), then, limit, "x"), TimeoutVerdict::Expired(_)));
                let before = then - SignedDuration::from_nanos(1);
                prop_assert!(matches!(verdict(at(0), before, limit, "x"), TimeoutVerdict::Wait(_)));
            }
            TimeoutVerdict::Wait(None) => prop_assert!(false, "there is a limit"),
        }
    }
}
