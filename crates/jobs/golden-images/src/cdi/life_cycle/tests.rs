use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::cdi::data_volume::{Claim, Report, complete_claim, describe_claim};

fn volume(phase: &str) -> DataVolume {
    serde_json::from_value(json!({
        "apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataVolume",
        "metadata": { "name": "v", "namespace": "n", "uid": "1" },
        "spec": {}, "status": { "phase": phase },
    }))
    .unwrap()
}

fn claim(phase: &str, annotations: &Value, reference: &Value) -> PersistentVolumeClaim {
    serde_json::from_value(json!({
        "metadata": {
            "name": "v", "namespace": "n", "annotations": annotations,
            "ownerReferences": [{
                "apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataVolume", "name": "v",
                "uid": "1", "controller": true,
            }],
        },
        "spec": { "dataSourceRef": reference },
        "status": { "phase": phase },
    }))
    .unwrap()
}

fn populator(kind: &str) -> Value {
    json!({ "apiGroup": "cdi.kubevirt.io", "kind": kind, "name": "s" })
}

#[rstest]
#[case::empty("Bound", json!({}), Value::Null, Claim::Bound)]
#[case::running("Bound", json!({ "cdi.kubevirt.io/storage.pod.phase": "Running" }), Value::Null, Claim::Bound)]
#[case::complete("Bound", json!({ "cdi.kubevirt.io/storage.pod.phase": "Succeeded" }), Value::Null, Claim::Complete)]
#[case::copied("Bound", json!({ "k8s.io/CloneRequest": "n/s" }), Value::Null, Claim::FilledByCdi)]
#[case::copy_unbound("Pending", json!({ "k8s.io/CloneRequest": "n/s" }), Value::Null, Claim::FilledByCdi)]
#[case::copy_complete("Bound", json!({ "k8s.io/CloneRequest": "n/s", "cdi.kubevirt.io/storage.pod.phase": "Succeeded" }), Value::Null, Claim::Complete)]
#[case::populated_import("Pending", json!({}), populator("VolumeImportSource"), Claim::FilledByCdi)]
#[case::populated_clone("Pending", json!({}), populator("VolumeCloneSource"), Claim::FilledByCdi)]
#[case::other_populator("Pending", json!({}), json!({ "apiGroup": "x", "kind": "VolumeCloneSource", "name": "s" }), Claim::Pending)]
fn state_is_read_from_annotations(
    #[case] phase: &str,
    #[case] annotations: Value,
    #[case] reference: Value,
    #[case] expected: Claim,
) {
    let claim = claim(phase, &annotations, &reference);
    assert_eq!(
        Claim::of(&volume("Pending"), Some(&claim), None, false),
        expected
    );
}

#[test]
fn finished_claim_is_marked_as_complete() {
    let unmarked = claim("Bound", &json!({}), &Value::Null);
    let action = describe_claim(&volume("ImportInProgress"), &unmarked, &Report::default());
    let Some(crate::action::Action::Patch { patch, .. }) = action else {
        panic!("no patch");
    };
    let notes = &patch["metadata"]["annotations"];
    assert_eq!(notes[annotations::POD_PHASE], "Succeeded");
    assert_eq!(notes[annotations::IMPORT_POD], "importer-v");
    let marked = claim("Bound", notes, &Value::Null);
    assert_eq!(
        describe_claim(&volume("Succeeded"), &marked, &Report::default()),
        None
    );
}

/// A PVC that CDI created for a finished DataVolume is not complete only because of the phase.
#[rstest]
#[case::earlier_version("Succeeded", json!({}), true)]
#[case::in_progress("ImportInProgress", json!({}), false)]
#[case::created_again("Succeeded", json!({ "cdi.kubevirt.io/storage.pod.restarts": "0" }), false)]
fn claims_of_earlier_versions_are_marked(
    #[case] phase: &str,
    #[case] annotations: Value,
    #[case] expected: bool,
) {
    let claim = claim("Bound", &annotations, &Value::Null);
    assert_eq!(complete_claim(&volume(phase), &claim).is_some(), expected);
}
