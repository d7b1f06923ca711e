//! Pods to be garbage collected.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};
use serde_json::{Value, json};

use super::pods_to_delete;

fn pod(name: &str, created: u32, rest: &Value) -> Arc<Pod> {
    let mut value = json!({
        "metadata": { "name": name, "creationTimestamp": format!("2026-01-01T00:00:{created:02}Z") },
        "spec": { "containers": [], "nodeName": rest.get("node") },
        "status": rest.get("status"),
    });
    if rest.get("leaving").is_some() {
        value["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    }
    Arc::new(serde_json::from_value(value).unwrap())
}

fn node(name: &str) -> Option<Arc<Node>> {
    let taints = match name {
        "lost" => json!([{ "key": "node.kubernetes.io/out-of-service", "effect": "NoExecute" }]),
        "well" => json!([]),
        _ => return None,
    };
    Some(Arc::new(
        serde_json::from_value(json!({ "spec": { "taints": taints } })).unwrap(),
    ))
}

fn names(pods: &[Arc<Pod>], kept: usize) -> Vec<String> {
    let pods_to_delete = pods_to_delete(pods, &node, kept);
    pods_to_delete
        .iter()
        .filter_map(|pod| pod.metadata.name.clone())
        .collect()
}

#[test]
fn oldest_terminated_pods_are_deleted_and_evicted_ones_first() {
    let failed = json!({ "status": { "phase": "Failed" } });
    let pods = [
        pod("young", 9, &json!({ "status": { "phase": "Succeeded" } })),
        pod("old", 1, &failed),
        pod(
            "evicted",
            5,
            &json!({ "status": { "phase": "Failed", "reason": "Evicted" } }),
        ),
        pod("running", 0, &json!({ "status": { "phase": "Running" } })),
    ];
    assert_eq!(names(&pods, 1), ["evicted", "old"]);
    assert!(names(&pods, 3).is_empty());
}

#[test]
fn terminating_pods_without_kubelet_are_deleted() {
    let pods = [
        pod("unscheduled", 0, &json!({ "leaving": true })),
        pod(
            "on a lost node",
            0,
            &json!({ "leaving": true, "node": "lost" }),
        ),
        pod(
            "on a node that is well",
            0,
            &json!({ "leaving": true, "node": "well" }),
        ),
        pod("staying", 0, &json!({ "node": "lost" })),
    ];
    assert_eq!(names(&pods, 9), ["unscheduled", "on a lost node"]);
}
