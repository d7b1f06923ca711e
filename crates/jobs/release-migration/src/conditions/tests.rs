use rstest::rstest;

use super::*;
use crate::failure::Reason;

fn at(minutes: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_mins(minutes)
}

fn updating(names: &[&str]) -> Failure {
    let all = names
        .iter()
        .map(|name| Failure::of_operator(Reason::Updating, name, Effect::None));
    Failure::combine(all.collect()).unwrap()
}

fn of(reason: Reason, name: &str, effect: Effect) -> Failure {
    Failure::of_operator(reason, name, effect)
}

/// The conditions after waiting for `minutes`, as `status reason message`.
fn conditions_after(
    phase: Phase,
    failure: Option<&Failure>,
    done: usize,
    total: usize,
    minutes: i64,
) -> [String; 2] {
    let mut waits = OperatorWaits::default();
    for name in failure.into_iter().flat_map(Failure::names) {
        waits.0.insert(name.clone(), at(0));
    }
    let claims = claims(&ConditionInputs {
        phase,
        version: "4.18.0",
        image: "quay.io/r@sha256:bb",
        invalid: false,
        failure,
        done,
        total,
        waits: &waits,
        now: at(minutes),
    });
    let format_claim = |claim: &ConditionState| {
        format!("{} {} {}", claim.status, claim.reason, claim.message)
            .trim_end()
            .to_owned()
    };
    assert_eq!(claims.available.is_some(), phase == Phase::Reconciling);
    [
        format_claim(&claims.progressing),
        format_claim(&claims.failing),
    ]
}

/// Reference 2.5 for operators that are only waited for.
#[rstest]
#[case(&["a"], 0, 0, "True ClusterOperatorUpdating Working towards 4.18.0: waiting on a", "False")]
#[case(&["machine-config"], 761, 0, "True ClusterOperatorUpdating Working towards 4.18.0: 761 of 890 done (85% complete), waiting on machine-config", "False")]
#[case(&["b", "a"], 1, 30, "True ClusterOperatorsUpdating Working towards 4.18.0: 1 of 890 done (0% complete), waiting on a, b", "False")]
#[case(&["b", "a"], 889, 31, "True ClusterOperatorsUpdating Working towards 4.18.0: 889 of 890 done (99% complete), waiting on a, b over 30 minutes which is longer than expected", "Unknown SlowClusterOperator waiting on a, b over 30 minutes which is longer than expected")]
#[case(&["machine-config"], 0, 90, "True ClusterOperatorUpdating Working towards 4.18.0: waiting on machine-config", "False")]
#[case(&["machine-config"], 0, 91, "True ClusterOperatorUpdating Working towards 4.18.0: waiting on machine-config over 90 minutes which is longer than expected", "Unknown SlowClusterOperator waiting on machine-config over 90 minutes which is longer than expected")]
#[case(&["machine-config", "a", "b"], 0, 91, "True ClusterOperatorsUpdating Working towards 4.18.0: waiting on a, b over 30 minutes and machine-config over 90 minutes which is longer than expected", "Unknown SlowClusterOperator waiting on a, b over 30 minutes and machine-config over 90 minutes which is longer than expected")]
#[case(&["machine-config", "a"], 0, 31, "True ClusterOperatorsUpdating Working towards 4.18.0: waiting on a over 30 minutes which is longer than expected", "Unknown SlowClusterOperator waiting on a over 30 minutes which is longer than expected")]
fn operators_are_waited_for(
    #[case] names: &[&str],
    #[case] done: usize,
    #[case] minutes: i64,
    #[case] progressing: &str,
    #[case] failing: &str,
) {
    let failure = updating(names);
    let found = conditions_after(Phase::Updating, Some(&failure), done, 890, minutes);
    assert_eq!(found, [progressing, failing]);
}

#[test]
fn degraded_operators_have_forty_minutes() {
    let failure = of(Reason::Degraded, "a", Effect::FailAfterInterval);
    let working = "True ClusterOperatorDegraded Working towards 4.18.0: 5 of 9 done (55% complete), waiting up to 40 minutes on a";
    let found = conditions_after(Phase::Updating, Some(&failure), 5, 9, 40);
    assert_eq!(found, [working, "False"]);
    let found = conditions_after(Phase::Updating, Some(&failure), 5, 9, 41);
    assert_eq!(
        found,
        [
            "True ClusterOperatorDegraded Unable to apply 4.18.0: wait has exceeded 40 minutes for these operators: a",
            "True ClusterOperatorDegraded Cluster operator a is degraded",
        ]
    );
}

#[test]
fn unavailable_operators_fail_at_once() {
    let failure = of(Reason::NotAvailable, "a", Effect::Fail);
    let found = conditions_after(Phase::Updating, Some(&failure), 5, 9, 0);
    assert_eq!(
        found,
        [
            "True ClusterOperatorNotAvailable Unable to apply 4.18.0: the cluster operator a is not available",
            "True ClusterOperatorNotAvailable Cluster operator a is not available",
        ]
    );
}

#[test]
fn installation_reports_degraded_operators() {
    let failure = of(Reason::Degraded, "a", Effect::Report);
    let found = conditions_after(Phase::Initializing, Some(&failure), 5, 9, 0);
    assert_eq!(
        found,
        [
            "True ClusterOperatorDegraded Unable to apply 4.18.0: Cluster operator a is degraded",
            "True ClusterOperatorDegraded Cluster operator a is degraded",
        ]
    );
}

#[test]
fn only_failing_reasons_are_reported_as_failing() {
    let failure = Failure::combine(vec![
        of(Reason::Degraded, "a", Effect::FailAfterInterval),
        of(Reason::Updating, "b", Effect::None),
    ]);
    let found = conditions_after(Phase::Updating, failure.as_ref(), 5, 9, 0);
    assert_eq!(
        found,
        [
            "True MultipleErrors Unable to apply 4.18.0: an unknown error has occurred: MultipleErrors",
            "True ClusterOperatorDegraded Cluster operator a is degraded",
        ]
    );
}

#[test]
fn completed_release_is_reported() {
    let found = conditions_after(Phase::Updating, None, 9, 9, 0);
    let working = "True  Working towards 4.18.0: 9 of 9 done (100% complete)";
    assert_eq!(found, [working, "False"]);
    let found = conditions_after(Phase::Updating, None, 0, 9, 0);
    assert_eq!(found, ["True  Working towards 4.18.0", "False"]);
    let found = conditions_after(Phase::Reconciling, None, 9, 9, 0);
    assert_eq!(found, ["False  Cluster version is 4.18.0", "False"]);
}

#[test]
fn regressed_operator_is_an_error() {
    let failure = updating(&["machine-config"]);
    let found = conditions_after(Phase::Reconciling, Some(&failure), 9, 9, 0);
    assert_eq!(
        found,
        [
            "False ClusterOperatorUpdating Error while reconciling 4.18.0: machine-config has an unknown error: ClusterOperatorUpdating",
            "True ClusterOperatorUpdating Cluster operator machine-config is updating versions",
        ]
    );
}

#[test]
fn release_without_a_version_is_named_by_image() {
    let waits = OperatorWaits::default();
    for (version, image, expected) in [
        ("4.18.0", "i", "Cluster version is 4.18.0"),
        ("", "i", "Cluster version is i"),
        ("", "", "Cluster version is <unknown>"),
    ] {
        let claims = claims(&ConditionInputs {
            phase: Phase::Reconciling,
            version,
            image,
            invalid: false,
            failure: None,
            done: 0,
            total: 0,
            waits: &waits,
            now: at(0),
        });
        assert_eq!(claims.progressing.message, expected);
        let available = claims.available.unwrap();
        assert!(available.message.starts_with("Done applying "));
    }
}

#[test]
fn waits_start_when_reached_and_end_when_done() {
    use crate::evaluate::OperatorVerdict;
    let verdict = |name: &str, reached: bool, fails: bool| OperatorVerdict {
        name: name.to_owned(),
        reached,
        undone: Vec::new(),
        failure: fails.then(|| updating(&[name])),
    };
    let evaluation = |operators| Evaluation {
        operators,
        done: 0,
        total: 1,
        failure: None,
    };
    let mut waits = OperatorWaits::default();
    let first = vec![verdict("a", true, true), verdict("b", false, true)];
    waits.note(&evaluation(first.clone()), at(1));
    waits.note(&evaluation(first), at(2));
    assert_eq!((waits.since("a"), waits.since("b")), (Some(at(1)), None));
    let second = vec![verdict("a", true, false), verdict("b", true, true)];
    waits.note(&evaluation(second), at(3));
    assert_eq!((waits.since("a"), waits.since("b")), (None, Some(at(3))));
    waits.restart();
    assert_eq!(waits, OperatorWaits::default());
}

#[test]
fn loaded_release_is_accepted() {
    let claim = accepted("4.18.0", "quay.io/r@sha256:bb", "Multi");
    assert_eq!((claim.status, claim.reason), ("True", "PayloadLoaded"));
    assert_eq!(
        claim.message,
        "Payload loaded version=\"4.18.0\" image=\"quay.io/r@sha256:bb\" architecture=\"Multi\""
    );
}

/// Reference 2.5, effect Fail: the update fails at once, with a short and a long message.
#[rstest]
#[case(
    of(Reason::NoVersions, "a", Effect::Fail),
    "ClusterOperatorNoVersions",
    "the cluster operator a does not declare expected versions",
    "Cluster operator a does not declare expected versions"
)]
#[case(
    of(Reason::NotAvailable, "a", Effect::Fail),
    "ClusterOperatorNotAvailable",
    "the cluster operator a is not available",
    "Cluster operator a is not available"
)]
#[case(Failure::combine(vec![of(Reason::NotAvailable, "b", Effect::Fail), of(Reason::NotAvailable, "a", Effect::Fail)]).unwrap(), "ClusterOperatorsNotAvailable", "some cluster operators are not available", "Cluster operators a, b are not available")]
#[case(
    Failure::not_found("a", 3, 9),
    "UpdatePayloadResourceNotFound",
    "some resources could not be updated",
    "Could not update clusteroperator \"a\" (3 of 9): resource may have been deleted"
)]
fn effect_fail_fails_at_once(
    #[case] failure: Failure,
    #[case] reason: &str,
    #[case] few: &str,
    #[case] many: &str,
) {
    let found = conditions_after(Phase::Updating, Some(&failure), 5, 9, 0);
    let unable = format!("True {reason} Unable to apply 4.18.0: {few}");
    assert_eq!(found, [unable, format!("True {reason} {many}")]);
    let found = conditions_after(Phase::Reconciling, Some(&failure), 9, 9, 0);
    let error = format!("False {reason} Error while reconciling 4.18.0: {few}");
    assert_eq!(found, [error, format!("True {reason} {many}")]);
}

/// Node updates of user workloads have no known upper bound.
#[test]
fn pool_waits_have_no_limit() {
    let failure = Failure::of_pools(&["infra", "worker"]).unwrap();
    let claims = claims(&ConditionInputs {
        phase: Phase::Updating,
        version: "4.18.0",
        image: "i",
        invalid: false,
        failure: Some(&failure),
        done: 9,
        total: 9,
        waits: &OperatorWaits::default(),
        now: at(600),
    });
    let it = claims.progressing;
    assert_eq!(
        format!("{} {} {}", it.status, it.reason, it.message),
        "True MachineConfigPoolsUpdating Working towards 4.18.0: 9 of 9 done (100% complete), waiting on machine config pool infra, machine config pool worker"
    );
    assert_eq!(claims.failing.status, "False");
    assert_eq!(Failure::of_pools(&[]), None);
}

#[test]
fn invalid_request_stops_the_update() {
    let waits = OperatorWaits::default();
    for (phase, expected) in [
        (
            Phase::Updating,
            "True InvalidClusterVersion Reconciling 4.18.0: the cluster version is invalid",
        ),
        (
            Phase::Reconciling,
            "False InvalidClusterVersion Stopped at 4.18.0: the cluster version is invalid",
        ),
    ] {
        let claims = claims(&ConditionInputs {
            phase,
            version: "4.18.0",
            image: "i",
            invalid: true,
            failure: None,
            done: 1,
            total: 2,
            waits: &waits,
            now: at(0),
        });
        let it = claims.progressing;
        assert_eq!(
            format!("{} {} {}", it.status, it.reason, it.message),
            expected
        );
    }
}

#[rstest]
#[case(PayloadStep::Retrieve, "RetrievePayload", "Retrieving")]
#[case(PayloadStep::Load, "LoadPayload", "Loading")]
#[case(PayloadStep::Verify, "VerifyPayloadVersion", "Verifying")]
fn unloadable_release_is_not_accepted(
    #[case] step: PayloadStep,
    #[case] reason: &str,
    #[case] begin: &str,
) {
    let claim = refused(step, "4.18.0", "i", "x");
    assert_eq!((claim.status, claim.reason), ("False", reason));
    assert_eq!(
        claim.message,
        format!("{begin} payload failed version=\"4.18.0\" image=\"i\" failure=x")
    );
}

#[test]
fn next_limit_is_the_earliest() {
    let waits = OperatorWaits::restored([("a", at(0)), (MACHINE_CONFIG, at(0))]);
    let after = |minutes| Some(at(minutes) + SignedDuration::from_secs(1));
    assert_eq!(waits.next_limit(at(0)), after(30));
    assert_eq!(waits.next_limit(at(31)), after(40));
    assert_eq!(waits.next_limit(at(41)), after(90));
    assert_eq!(waits.next_limit(at(91)), None);
}
