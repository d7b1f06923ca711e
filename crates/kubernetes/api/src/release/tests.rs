use serde_json::{Value, json};

use super::*;
use crate::definition::checks;

/// An object with every field of the CRD.
fn full() -> Value {
    json!({
        "apiVersion": "medley.dev/v1alpha1",
        "kind": "ReleasePolicy",
        "metadata": { "name": "default" },
        "spec": {
            "mode": "Own",
            "payload": {
                "configMap": { "namespace": "a", "name": "b" },
                "folder": "/release", "image": "Desired",
            },
            "workerPools": "Require",
        },
        "status": {
            "observedGeneration": 1,
            "conditions": [{
                "type": "Complete", "status": "True", "reason": "Arrived", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1,
            }],
            "target": {
                "version": "4.18.0", "image": "quay.io/r@sha256:bb", "architecture": "Multi",
                "change": "SingleToMulti", "startedTime": "2026-01-01T00:00:00Z",
                "completionTime": "2026-01-01T00:10:00Z",
            },
            "progress": {
                "operators": 33, "arrived": 32, "reporting": 1, "manifests": 890, "done": 761,
            },
            "operators": [{
                "name": "machine-config", "state": "Updating", "reportsImage": true,
                "waitingSince": "2026-01-01T00:00:00Z",
                "undone": [{
                    "name": "operator-image", "from": "a", "to": "b", "reason": "OtherImage",
                    "message": "the operator has not finished with the new image",
                }],
            }],
            "pools": [{
                "name": "worker", "machines": 3, "updated": 1, "done": false, "message": "paused",
            }],
            "history": [{ "operator": "dns", "tookSeconds": [310, 290] }],
        },
    })
}

#[test]
fn types_have_every_field_of_the_crd() {
    checks::has_the_fields_of_its_type::<ReleasePolicy>(&definition(), &full());
}

#[test]
fn server_accepts_the_crd() {
    checks::is_accepted(&definition());
}

#[test]
fn an_empty_policy_is_the_default_one() {
    let read: ReleasePolicySpec = serde_json::from_value(json!({})).unwrap();
    assert_eq!(read, ReleasePolicySpec::default());
    assert_eq!(
        (read.mode, read.worker_pools),
        (Mode::Observe, Gate::Ignore)
    );
}
