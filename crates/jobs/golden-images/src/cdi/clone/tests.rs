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
    decide(&CloneInputs {
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
fn pointer_resolves_by_status_and_others_by_spec() {
    let snapshot = json!({ "snapshot": { "namespace": "images", "name": "fedora-arm64-1" } });
    let pointer = json!({ "dataSource": { "namespace": "images", "name": "fedora-arm64" } });
    let volume = by_reference();
    let expected = Some(CloneStep::Make(Source::of_snapshot(
        "images",
        "fedora-arm64-1",
    )));
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
    let expected = "Empty source field in 'fedora'. DataSource may not be ready yet";
    assert_eq!(message(&decision), expected);
}

#[test]
fn missing_data_source_is_waited_for() {
    let decision = decided(&by_reference(), None, Claim::Missing);
    assert_eq!(decision.step, None);
    assert_eq!(message(&decision), "DataSource images/fedora not found");
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

const NOT_STARTED: Transfer = Transfer {
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
    decide(&CloneInputs {
        volume: &volume,
        source: Some(&found),
        claim,
        transfer: Some(there),
        now: Timestamp::from_second(1).unwrap(),
    })
}

#[test]
fn cross_namespace_clone_is_created_there_and_transferred() {
    let transfer = |interim: Claim, volume: Option<&str>, is_handed_over: bool| Transfer {
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
            NOT_STARTED,
            Some(CloneStep::MakeThere(original)),
            copying,
        ),
        (
            Claim::Missing,
            transfer(Claim::Pending, None, false),
            None,
            copying,
        ),
        (
            Claim::Missing,
            transfer(Claim::Bound, Some("pv"), false),
            Some(CloneStep::Take("pv".to_owned())),
            handing_over,
        ),
        (
            Claim::Pending,
            transfer(Claim::Bound, Some("pv"), false),
            Some(CloneStep::HandOver("pv".to_owned())),
            handing_over,
        ),
        (
            Claim::Pending,
            transfer(Claim::Pending, Some("pv"), true),
            None,
            handing_over,
        ),
        (
            Claim::Bound,
            transfer(Claim::Pending, Some("pv"), true),
            Some(CloneStep::Clean),
            "Succeeded",
        ),
        (Claim::Bound, NOT_STARTED, None, "Succeeded"),
    ] {
        let decision = of_another_namespace(claim, &there);
        assert_eq!(decision.step, step, "{claim:?} {there:?}");
        assert_eq!(decision.status.phase.as_deref(), Some(phase));
    }
    let waits = transfer(Claim::WaitsForConsumer, None, false);
    let decision = of_another_namespace(Claim::Missing, &waits);
    assert!(message(&decision).contains("volumeBindingMode Immediate"));
}

#[test]
fn cross_namespace_clone_needs_permission() {
    let denied = Transfer {
        denied: Some("User u has insufficient permissions".to_owned()),
        ..NOT_STARTED
    };
    let decision = of_another_namespace(Claim::Missing, &denied);
    assert_eq!(decision.step, None);
    let running = crate::conditions::get(&decision.status.conditions, "Running").unwrap();
    assert_eq!(running.reason.as_deref(), Some("NotAuthorized"));
    // A transfer that began while it was permitted is completed.
    let begun = Transfer {
        interim: Claim::Bound,
        volume: Some("pv".to_owned()),
        ..denied
    };
    let decision = of_another_namespace(Claim::Missing, &begun);
    assert_eq!(decision.step, Some(CloneStep::Take("pv".to_owned())));
}

#[test]
fn interim_claim_names_its_data_volume() {
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
