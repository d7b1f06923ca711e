//! Conditions of unresponsive nodes.

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

use super::unknown_conditions;

fn node(conditions: &Value) -> Node {
    serde_json::from_value(json!({
        "metadata": { "name": "n", "creationTimestamp": "2026-01-01T00:00:00Z" },
        "status": { "conditions": conditions },
    }))
    .unwrap()
}

fn now() -> Time {
    serde_json::from_value(json!("2026-01-02T00:00:00Z")).unwrap()
}

#[test]
fn kubelet_conditions_become_unknown_and_others_stay() {
    let node = node(&json!([
        { "type": "NetworkUnavailable", "status": "False" },
        { "type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": "2026-01-01T12:00:00Z" },
    ]));
    let unknown_conditions = unknown_conditions(&node, &now()).unwrap();
    assert_eq!(
        json!(unknown_conditions[0]),
        json!({ "type": "NetworkUnavailable", "status": "False" })
    );
    assert_eq!(
        json!(unknown_conditions[1]),
        json!({
            "type": "Ready",
            "status": "Unknown",
            "reason": "NodeStatusUnknown",
            "message": "Kubelet stopped posting node status.",
            "lastHeartbeatTime": "2026-01-01T12:00:00Z",
            "lastTransitionTime": "2026-01-02T00:00:00Z",
        })
    );
    assert_eq!(
        json!(unknown_conditions[2]),
        json!({
            "type": "MemoryPressure",
            "status": "Unknown",
            "reason": "NodeStatusNeverUpdated",
            "message": "Kubelet never posted node status.",
            "lastHeartbeatTime": "2026-01-01T00:00:00Z",
            "lastTransitionTime": "2026-01-02T00:00:00Z",
        })
    );
    assert_eq!(unknown_conditions.len(), 5);
}

#[test]
fn unknown_conditions_are_set_once() {
    let mut silent = node(&json!([]));
    let conditions = unknown_conditions(&silent, &now());
    silent.status.get_or_insert_default().conditions = conditions;
    assert_eq!(unknown_conditions(&silent, &now()), None);
}
