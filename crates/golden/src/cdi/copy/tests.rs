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
    let expected = Some(Source::of_snapshot("images", "fedora-arm64-1"));
    let found = source(&pointer, &snapshot);
    assert_eq!(
        decided(&volume, Some(&found), Claim::Missing).make,
        expected
    );
    let found = source(&snapshot, &json!({}));
    assert_eq!(
        decided(&volume, Some(&found), Claim::Missing).make,
        expected
    );
    let found = source(&pointer, &json!({}));
    let decision = decided(&volume, Some(&found), Claim::Missing);
    assert_eq!(decision.make, None);
    let said = "Empty source field in 'fedora'. DataSource may not be ready yet";
    assert_eq!(message(&decision), said);
}

#[test]
fn what_is_not_there_is_waited_for() {
    let decision = decided(&by_reference(), None, Claim::Missing);
    assert_eq!(decision.make, None);
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

#[test]
fn a_copy_from_another_namespace_says_what_that_takes() {
    let snapshot = json!({ "snapshot": { "namespace": "images", "name": "s" } });
    let found = source(&snapshot, &json!({}));
    let decision = decided(&by_reference(), Some(&found), Claim::Pending);
    assert!(message(&decision).contains("namespace images"));
    let here = volume(&json!({ "source": { "snapshot": { "name": "s" } } }));
    assert_eq!(message(&decided(&here, None, Claim::Pending)), "");
}
