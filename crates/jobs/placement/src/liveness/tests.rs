//! What reads of the Lease prove.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::LeaseSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use proptest::prelude::*;

use super::{Controller, LeaseRead, LeaseTiming, ObservedLease};

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A Lease that its holder renewed at this time of its own clock, which may be any.
fn renewed(second: i64) -> LeaseSpec {
    LeaseSpec {
        holder_identity: Some("operator".to_owned()),
        lease_duration_seconds: Some(30),
        renew_time: Some(MicroTime(Timestamp::from_second(second).unwrap())),
        ..LeaseSpec::default()
    }
}

fn released(second: i64) -> LeaseSpec {
    LeaseSpec {
        holder_identity: Some(String::new()),
        ..renewed(second)
    }
}

/// A process that reads the Lease.
struct Reader(ObservedLease);

impl Reader {
    fn new() -> Self {
        Self(ObservedLease::new(LeaseTiming::default(), at(0)))
    }

    fn read(&mut self, second: u64, lease: Option<&LeaseSpec>) {
        let (begun, ended) = (at(second), at(second));
        self.0.observe(LeaseRead { begun, ended }, lease);
    }

    fn may_gate(&self, second: u64) -> bool {
        self.0.controller(at(second)) == Controller::Running
    }
}

/// The operator may have been gone for days when the webhook starts.
#[test]
fn lease_that_was_read_once_proves_nothing() {
    let mut reader = Reader::new();
    reader.read(0, Some(&renewed(1_000)));
    for second in 0..60 {
        reader.read(second, Some(&renewed(1_000)));
        assert!(!reader.may_gate(second), "{second}");
    }
}

#[test]
fn renewal_permits_gates_for_the_duration_of_the_lease() {
    let mut reader = Reader::new();
    reader.read(0, Some(&renewed(1_000)));
    reader.read(5, Some(&renewed(1_005)));
    assert!(reader.may_gate(5) && reader.may_gate(29));
    for second in (10..=35).step_by(5) {
        reader.read(second, Some(&renewed(1_005)));
    }
    // It was renewed between 0 and 5: perhaps at 0.
    assert!(!reader.may_gate(30));
    assert!(!reader.0.is_abandoned(at(30)) && !reader.0.is_abandoned(at(34)));
    assert!(reader.0.is_abandoned(at(35)));
    // A standby has taken over.
    reader.read(36, Some(&renewed(900)));
    assert!(reader.may_gate(36) && !reader.0.is_abandoned(at(36)));
}

#[test]
fn clocks_of_hosts_are_not_compared() {
    for (before, after) in [(0, 1), (4_000_000_000, 4_000_000_001), (900, 100)] {
        let mut reader = Reader::new();
        reader.read(0, Some(&renewed(before)));
        assert!(!reader.may_gate(0), "{before}");
        reader.read(5, Some(&renewed(after)));
        assert!(reader.may_gate(5), "{after}");
    }
}

#[test]
fn created_lease_is_a_renewal() {
    let mut reader = Reader::new();
    reader.read(0, None);
    assert!(reader.0.is_known(at(0)) && !reader.may_gate(0));
    reader.read(1, Some(&renewed(5)));
    assert!(reader.may_gate(1));
}

#[test]
fn released_or_deleted_lease_permits_no_gate() {
    for over in [None, Some(released(7))] {
        let mut reader = Reader::new();
        reader.read(0, Some(&renewed(5)));
        reader.read(5, Some(&renewed(6)));
        assert!(reader.may_gate(5));
        reader.read(10, over.as_ref());
        assert!(!reader.may_gate(10), "{over:?}");
        // Another replica may be about to take over.
        assert!(!reader.0.is_abandoned(at(39)));
        assert!(reader.0.is_abandoned(at(40)));
    }
}

/// Without any read, the webhook does not know, and neither gates nor releases.
#[test]
fn unreadable_lease_permits_nothing() {
    let reader = Reader::new();
    assert!(!reader.may_gate(1_000));
    assert!(!reader.0.is_abandoned(at(1_000)));
    assert!(!reader.0.is_known(at(1_000)));
}

#[test]
fn outage_of_the_api_server_is_not_held_against_the_controller() {
    let mut reader = Reader::new();
    reader.read(0, Some(&renewed(0)));
    reader.read(5, Some(&renewed(5)));
    // The next answer comes after ten minutes, when the controller has not renewed yet.
    reader.read(600, Some(&renewed(5)));
    assert!(!reader.may_gate(600) && !reader.0.is_abandoned(at(600)));
    // It renewed at some time in between: that need not be a moment ago.
    let mut other = Reader::new();
    other.read(0, Some(&renewed(0)));
    other.read(600, Some(&renewed(5)));
    assert!(!other.may_gate(600));
    other.read(605, Some(&renewed(10)));
    assert!(other.may_gate(605));
}

#[test]
fn stale_lease_is_known_to_be_stale_before_long() {
    let mut reader = Reader::new();
    reader.read(0, Some(&renewed(0)));
    assert!(!reader.0.is_known(at(9)));
    assert!(reader.0.is_known(at(10)));
}

/// One step of the world: seconds that pass, whether the controller renews and whether the webhook reads in each.
fn steps() -> impl Strategy<Value = Vec<(bool, bool)>> {
    proptest::collection::vec((any::<bool>(), any::<bool>()), 1..200)
}

proptest! {
    /// Whatever is renewed, read or lost, and in whatever order: no pod is gated when the last renewal is older than
    /// the Lease lasts, and a dead controller is found out.
    #[test]
    fn gates_need_a_renewal_that_is_recent(steps in steps()) {
        let mut reader = Reader::new();
        let (mut last, mut lease) = (None, None);
        let mut second = 0;
        for (renews, reads) in steps {
            second += 1;
            if renews {
                last = Some(second);
                lease = Some(renewed(i64::try_from(second).unwrap()));
            }
            if reads {
                reader.read(second, lease.as_ref());
            }
            if reader.may_gate(second) {
                let age = last.map(|last| second - last);
                prop_assert!(age.is_some_and(|age| age < 30), "gated {age:?} s after the last renewal");
                prop_assert!(!reader.0.is_abandoned(at(second)));
            }
        }
        // The controller is dead from here on.
        for _ in 0..70 {
            second += 1;
            reader.read(second, lease.as_ref());
        }
        prop_assert!(!reader.may_gate(second) && reader.0.is_abandoned(at(second)));
    }
}
