mod places;
mod plans;

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Node, Pod};
use serde_json::{Value, json};

use super::backoff::{Backoff, BackoffKey};

const NOW: &str = "2026-01-01T12:00:00Z";

fn now() -> Timestamp {
    NOW.parse().unwrap()
}

/// A set with `change` merged into it.
fn set(change: &Value) -> DaemonSet {
    let mut object = json!({
        "metadata": { "name": "agent", "namespace": "ops", "uid": "d", "generation": 2 },
        "spec": {
            "selector": { "matchLabels": { "app": "agent" } },
            "updateStrategy": {
                "type": "RollingUpdate",
                "rollingUpdate": { "maxUnavailable": 1, "maxSurge": 0 },
            },
            "template": {
                "metadata": { "labels": { "app": "agent" } },
                "spec": { "containers": [{ "name": "agent", "image": "one" }] },
            },
        },
    });
    for (path, value) in change.as_object().unwrap() {
        let (parent, key) = path.rsplit_once('/').unwrap();
        object.pointer_mut(parent).unwrap()[key] = value.clone();
    }
    serde_json::from_value(object).unwrap()
}

fn node(name: &str, labels: &Value, taints: &Value) -> Node {
    serde_json::from_value(json!({
        "metadata": { "name": name, "labels": labels },
        "spec": { "taints": taints },
    }))
    .unwrap()
}

/// A pod on a node.
fn pod(name: &str, node: &str, hash: &str, change: &Value) -> Arc<Pod> {
    let mut object = json!({
        "metadata": {
            "name": name, "uid": name, "creationTimestamp": "2026-01-01T10:00:00Z",
            "labels": { "app": "agent", "controller-revision-hash": hash },
        },
        "spec": { "nodeName": node, "containers": [] },
        "status": {
            "phase": "Running",
            "conditions": [
                { "type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T10:00:00Z" },
            ],
        },
    });
    for (path, value) in change.as_object().unwrap() {
        let (parent, key) = path.rsplit_once('/').unwrap();
        object.pointer_mut(parent).unwrap()[key] = value.clone();
    }
    Arc::new(serde_json::from_value(object).unwrap())
}

#[test]
fn backoff_doubles_for_failing_pods() {
    let place = BackoffKey {
        uid: "d".to_owned(),
        generation: 1,
        node: "a".to_owned(),
    };
    let after = |seconds: i64| now() + jiff::SignedDuration::from_secs(seconds);
    let mut backoff = Backoff::default();
    let left = |backoff: &Backoff, seconds| {
        let left = backoff.left(&place, after(seconds));
        left.map(|left| left.as_secs())
    };
    assert_eq!(left(&backoff, 0), None);
    backoff.note(place.clone(), after(0));
    assert_eq!(left(&backoff, 0), Some(1));
    assert_eq!(left(&backoff, 1), None);
    backoff.note(place.clone(), after(1));
    assert_eq!(left(&backoff, 1), Some(2));
    for _ in 0..20 {
        backoff.note(place.clone(), after(1));
    }
    assert_eq!(left(&backoff, 1), Some(900));
    // Half an hour without a failure resets the backoff.
    backoff.note(place.clone(), after(2000));
    assert_eq!(left(&backoff, 2000), Some(1));
}
