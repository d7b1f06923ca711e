//! What is said of silent nodes.

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

use super::silenced;

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
fn what_a_kubelet_reports_becomes_unknown_and_the_rest_stays() {
    let node = node(&json!([
        { "type": "NetworkUnavailable", "status": "False" },
        { "type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": "2026-01-01T12:00:00Z" },
    ]));
    let silenced = silenced(&node, &now()).unwrap();
    assert_eq!(
        json!(silenced[0]),
        json!({ "type": "NetworkUnavailable", "status": "False" })
    );
    assert_eq!(
        json!(silenced[1]),
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
        json!(silenced[2]),
        json!({
            "type": "MemoryPressure",
            "status": "Unknown",
            "reason": "NodeStatusNeverUpdated",
            "message": "Kubelet never posted node status.",
            "lastHeartbeatTime": "2026-01-01T00:00:00Z",
            "lastTransitionTime": "2026-01-02T00:00:00Z",
        })
    );
    assert_eq!(silenced.len(), 5);
}

#[test]
fn it_is_said_once() {
    let mut silent = node(&json!([]));
    let conditions = silenced(&silent, &now());
    silent.status.get_or_insert_default().conditions = conditions;
    assert_eq!(silenced(&silent, &now()), None);
}
