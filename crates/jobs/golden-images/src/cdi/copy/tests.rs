use rstest::rstest;
use serde_json::{Value, json};

use super::*;

fn volume(spec: &Value) -> DataVolume {
    serde_json::from_value(json!({
        "apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataVolume",
        "metadata": { "name": "v", "namespace": "n" }, "spec": spec,
    }))
    .unwrap()
}

fn source(spec: &Value, status: &Value) -> DataSource {
    serde_json::from_value(json!({
        "apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataSource",
        "metadata": { "name": "fedora", "namespace": "images" },
        "spec": { "source": spec }, "status": { "source": status },
    }))
    .unwrap()
}

fn by_reference() -> DataVolume {
    volume(
        &json!({ "sourceRef": { "kind": "DataSource", "namespace": "images", "name": "fedora" } }),
    )
}

fn decided(volume: &DataVolume, source: Option<&DataSource>, claim: Claim) -> Decision {
    decide(&Facts {
        volume,
        source,
        claim,
        transfer: None,
        now: Timestamp::from_second(1).unwrap(),
    })
}

fn message(decision: &Decision) -> String {
    let running = crate::conditions::get(&decision.status.conditions, "Running");
    running.unwrap().message.clone().unwrap()
}

#[test]
fn a_pointer_is_followed_by_its_status_and_others_by_what_they_say() {
    let snapshot = json!({ "snapshot": { "namespace": "images", "name": "fedora-arm64-1" } });
    let pointer = json!({ "dataSource": { "namespace": "images", "name": "fedora-arm64" } });
    let volume = by_reference();
    let expected = Some(Step::Make(Source::of_snapshot("images", "fedora-arm64-1")));
    let found = source(&pointer, &snapshot);
    assert_eq!(
        decided(&volume, Some(&found), Claim::Missing).step,
        expected
    );
    let found = source(&snapshot, &json!({}));
    assert_eq!(
        decided(&volume, Some(&found), Claim::Missing).step,
        expected
    );
    let found = source(&pointer, &json!({}));
    let decision = decided(&volume, Some(&found), Claim::Missing);
    assert_eq!(decision.step, None);
    let said = "Empty source field in 'fedora'. DataSource may not be ready yet";
    assert_eq!(message(&decision), said);
}

#[test]
fn what_is_not_there_is_waited_for() {
    let decision = decided(&by_reference(), None, Claim::Missing);
    assert_eq!(decision.step, None);
    assert_eq!(message(&decision), "DataSource images/fedora is not there");
}

#[rstest]
#[case(Claim::Pending, "CloneFromSnapshotSourceInProgress")]
#[case(Claim::Bound, "Succeeded")]
#[case(Claim::WaitsForConsumer, "WaitForFirstConsumer")]
fn the_phase_follows_the_claim(#[case] claim: Claim, #[case] phase: &str) {
    let mut volume = volume(&json!({ "source": { "snapshot": { "name": "s" } } }));
    let decision = decided(&volume, None, claim);
    assert_eq!(decision.status.phase.as_deref(), Some(phase));
    volume.status = Some(decision.status);
    assert!(!decided(&volume, None, claim).status_changed);
}

const THERE: Transfer = Transfer {
    interim: Claim::Missing,
    volume: None,
    is_handed_over: false,
    denied: None,
};

fn of_another_namespace(claim: Claim, there: &Transfer) -> Decision {
    let snapshot = json!({ "snapshot": { "namespace": "images", "name": "s" } });
    let found = source(&snapshot, &json!({}));
    let volume = by_reference();
    let original = original(&volume, Some(&found)).unwrap();
    assert_eq!(elsewhere(&original, &volume).as_deref(), Some("images"));
    decide(&Facts {
        volume: &volume,
        source: Some(&found),
        claim,
        transfer: Some(there),
        now: Timestamp::from_second(1).unwrap(),
    })
}

#[test]
fn a_copy_from_another_namespace_is_made_there_and_handed_over() {
    let there = |interim: Claim, volume: Option<&str>, is_handed_over: bool| Transfer {
        interim,
        volume: volume.map(str::to_owned),
        is_handed_over,
        denied: None,
    };
    let original = Source::of_snapshot("images", "s");
    let handing_over = "NamespaceTransferInProgress";
    let copying = "CloneFromSnapshotSourceInProgress";
    for (claim, there, step, phase) in [
        (
            Claim::Missing,
            THERE,
            Some(Step::MakeThere(original)),
            copying,
        ),
        (
            Claim::Missing,
            there(Claim::Pending, None, false),
            None,
            copying,
        ),
        (
            Claim::Missing,
            there(Claim::Bound, Some("pv"), false),
            Some(Step::Take("pv".to_owned())),
            handing_over,
        ),
        (
            Claim::Pending,
            there(Claim::Bound, Some("pv"), false),
            Some(Step::HandOver("pv".to_owned())),
            handing_over,
        ),
        (
            Claim::Pending,
            there(Claim::Pending, Some("pv"), true),
            None,
            handing_over,
        ),
        (
            Claim::Bound,
            there(Claim::Pending, Some("pv"), true),
            Some(Step::Clean),
            "Succeeded",
        ),
        (Claim::Bound, THERE, None, "Succeeded"),
    ] {
        let decision = of_another_namespace(claim, &there);
        assert_eq!(decision.step, step, "{claim:?} {there:?}");
        assert_eq!(decision.status.phase.as_deref(), Some(phase));
    }
    let waits = there(Claim::WaitsForConsumer, None, false);
    let decision = of_another_namespace(Claim::Missing, &waits);
    assert!(message(&decision).contains("binds them at once"));
}

#[test]
fn nothing_is_copied_from_another_namespace_that_nobody_allows() {
    let denied = Transfer {
        denied: Some("User u has insufficient permissions".to_owned()),
        ..THERE
    };
    let decision = of_another_namespace(Claim::Missing, &denied);
    assert_eq!(decision.step, None);
    let running = crate::conditions::get(&decision.status.conditions, "Running").unwrap();
    assert_eq!(running.reason.as_deref(), Some("NotAuthorized"));
    // What was begun while it was allowed is finished.
    let begun = Transfer {
        interim: Claim::Bound,
        volume: Some("pv".to_owned()),
        ..denied
    };
    let decision = of_another_namespace(Claim::Missing, &begun);
    assert_eq!(decision.step, Some(Step::Take("pv".to_owned())));
}

#[test]
fn a_claim_beside_the_original_says_whom_it_is_for() {
    let mut volume = by_reference();
    volume.metadata.uid = Some("u".to_owned());
    let claim = json!({ "spec": { "dataSource": { "name": "s" }, "storageClassName": "fast" } });
    let made = interim(&volume, &claim, "images");
    assert_eq!(made["metadata"]["namespace"], "images");
    assert_eq!(made["spec"], claim["spec"]);
    let meta: ObjectMeta = serde_json::from_value(made["metadata"].clone()).unwrap();
    assert_eq!(made_for(&meta), Some((named("n", "v"), "u")));
    let own = taking(claim, "pv");
    assert_eq!(
        own["spec"],
        json!({ "storageClassName": "fast", "volumeName": "pv" })
    );
}
