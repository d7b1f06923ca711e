//! Which inspection results are used, and how long pods wait for them.

use std::time::Duration;

use rstest::rstest;

use super::{
    GateWait, InspectionAccess, NextInspection, final_result, next_inspection, retry_delay,
};
use crate::images::{Inspection, Uninspectable};

const TIMEOUT: Duration = Duration::from_secs(10);

fn failure(transient: bool) -> Result<Inspection, Uninspectable> {
    let message = "denied".to_owned();
    Err(Uninspectable { message, transient })
}

#[rstest]
#[case::verified(true, false, true)]
#[case::transient_errors_stay_unknown(true, true, false)]
#[case::unverified_callers_learn_no_errors(false, false, false)]
fn failed_inspection_is_used_only_if_it_is_final(
    #[case] verified: bool,
    #[case] transient: bool,
    #[case] used: bool,
) {
    let access = InspectionAccess::for_caller(verified);
    assert_eq!(access.usable(failure(transient)).is_some(), used);
    assert_eq!(access.may_use_outages(), verified);
    assert!(access.usable(Ok(Inspection::Anywhere)).is_some());
    assert_eq!(final_result(failure(transient)).is_some(), !transient);
}

#[rstest]
#[case::first(0, false, 0, NextInspection::Now(TIMEOUT))]
#[case::running(4, true, 0, NextInspection::Later(Duration::from_secs(6)))]
#[case::backing_off(4, false, 2, NextInspection::Later(Duration::from_secs(2)))]
#[case::backoff_ends_with_the_gate(9, false, 30, NextInspection::Later(Duration::from_secs(1)))]
#[case::timed_out(10, true, 0, NextInspection::TimedOut)]
fn pod_waits_no_longer_than_the_gate_timeout(
    #[case] waited: u64,
    #[case] inspecting: bool,
    #[case] backoff: u64,
    #[case] next: NextInspection,
) {
    let wait = GateWait {
        waited: Duration::from_secs(waited),
        inspecting,
        backoff: Duration::from_secs(backoff),
    };
    assert_eq!(next_inspection(wait, TIMEOUT), next);
}

#[test]
fn retries_back_off_and_respect_retry_after() {
    assert_eq!(retry_delay(0, Duration::ZERO), Duration::from_millis(500));
    assert_eq!(retry_delay(2, Duration::ZERO), Duration::from_secs(2));
    assert_eq!(retry_delay(40, Duration::ZERO), Duration::from_secs(30));
    assert_eq!(
        retry_delay(0, Duration::from_mins(1)),
        Duration::from_mins(1)
    );
}
