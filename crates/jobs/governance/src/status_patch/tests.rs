use api::advisor::{VirtPlatformConfig, VirtPlatformConfigStatus};
use machinery::patch::json_patch;
use rstest::rstest;
use serde_json::{Value, json};

use super::status_patch;

fn status(value: Value) -> VirtPlatformConfigStatus {
    serde_json::from_value(value).unwrap()
}

fn full() -> Value {
    let time = "2026-01-01T00:00:00Z";
    let target = json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": "a" });
    json!({
        "phase": "Drifted", "impactSeverity": "High", "observedGeneration": 2,
        "sourceSnapshotHash": "h", "operatorVersion": "v1",
        "appliedOptions": { "loadAware": { "mode": "Predictive", "enablePSIMetrics": true } },
        "items": [{ "name": "one", "targetRef": target, "state": "Completed" }],
        "conditions": [{
            "type": "Drifted", "status": "True", "reason": "Drifted", "message": "",
            "lastTransitionTime": time,
        }],
        "planDigest": "sha256:a",
        "inputs": [{ "name": "n", "object": target, "path": "p", "raw": 1, "derived": 2 }],
        "warnings": ["w"], "revision": 3,
        "applied": [{
            "name": "one", "targetRef": target, "values": { "data.ours": null },
            "created": true, "revision": 1,
        }],
        "drift": [{ "item": "one", "path": "data.ours", "live": null, "class": "ExternalEdit" }],
        "enforcement": { "corrections": [time], "paused": true },
        "nextWindow": time, "rolledBackTo": 1, "reviewedDigest": "sha256:a",
        "capabilities": [{ "name": "things.example.com", "version": "v1", "revision": "u/1" }],
        "retry": { "attempts": 2, "at": time },
    })
}

/// A configuration with or without a status.
fn config(status: &Value) -> Value {
    json!({
        "apiVersion": "advisor.kubevirt.io/v1alpha1", "kind": "VirtPlatformConfig",
        "metadata": { "name": "example-profile", "resourceVersion": "7" },
        "spec": { "profile": "example-profile", "action": "DryRun", "failurePolicy": "Abort", "bypassOptimisticLock": false },
        "status": status,
    })
}

fn typed(config: &Value) -> VirtPlatformConfig {
    serde_json::from_value(config.clone()).unwrap()
}

#[rstest]
#[case::first(json!(null), full())]
#[case::from_nothing(json!({}), full())]
#[case::to_nothing(full(), json!({}))]
#[case::a_phase(full(), { let mut new = full(); new["phase"] = json!("Completed"); new })]
#[case::inside(full(), {
    let mut new = full();
    new["appliedOptions"] = json!({ "loadAware": {} });
    new["enforcement"] = json!({});
    new["items"][0]["state"] = json!("Pending");
    new
})]
fn patch_turns_the_old_status_into_the_new(#[case] old: Value, #[case] new: Value) {
    let mut there = config(&old);
    if there["status"].is_null() {
        there.as_object_mut().unwrap().remove("status");
    }
    let patch = status_patch(&typed(&there), &status(new.clone()));
    json_patch(&mut there, json!(patch).to_string().as_bytes()).unwrap();
    assert_eq!(typed(&there), typed(&config(&new)));
}

#[test]
fn only_changed_list_items_are_patched() {
    let item = |name: &str, state: &str| {
        let target = json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": name });
        json!({ "name": name, "targetRef": target, "state": state })
    };
    let plan = |state: &str| {
        let items = [
            item("a", "Completed"),
            item("b", state),
            item("c", "Completed"),
        ];
        json!({ "items": items })
    };
    let patch = status_patch(
        &typed(&config(&plan("Pending"))),
        &status(plan("InProgress")),
    );
    let written: Vec<_> = patch
        .iter()
        .map(|operation| (&operation["path"], &operation["value"]["name"]))
        .collect();
    assert_eq!(json!(written), json!([["/status/items/1", "b"]]));
}

#[test]
fn unchanged_fields_are_not_patched() {
    let mut new = full();
    new["phase"] = json!("Completed");
    new["drift"] = json!([]);
    assert_eq!(
        json!(status_patch(&typed(&config(&full())), &status(new))),
        json!([
            { "op": "add", "path": "/status/phase", "value": "Completed" },
            { "op": "remove", "path": "/status/drift" },
        ])
    );
}
