use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Pod;
use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use super::decide::{Failure, ReplicaSetStep, status, step};

const NOW: &str = "2026-01-01T12:00:00Z";

fn now() -> Timestamp {
    NOW.parse().unwrap()
}

fn set(replicas: usize, status: &Value) -> ReplicaSet {
    serde_json::from_value(json!({
        "metadata": { "name": "web", "generation": 4 },
        "spec": {
            "replicas": replicas,
            "minReadySeconds": 60,
            "selector": { "matchLabels": { "app": "web" } },
            "template": { "metadata": { "labels": { "app": "web", "tier": "front" } } },
        },
        "status": status,
    }))
    .unwrap()
}

fn pod(name: usize, labels: &Value, ready_since: Option<&str>) -> Arc<Pod> {
    let condition = ready_since
        .map(|since| json!({ "type": "Ready", "status": "True", "lastTransitionTime": since }));
    Arc::new(
        serde_json::from_value(json!({
            "metadata": { "name": name.to_string(), "uid": name.to_string(), "labels": labels },
            "spec": { "nodeName": "n", "containers": [] },
            "status": { "phase": "Running", "conditions": condition.into_iter().collect::<Vec<_>>() },
        }))
        .unwrap(),
    )
}

fn pods(count: usize) -> Vec<Arc<Pod>> {
    (0..count).map(|name| pod(name, &json!({}), None)).collect()
}

#[test]
fn status_counts_pods_by_state() {
    let full = json!({ "app": "web", "tier": "front" });
    let partial = json!({ "app": "web" });
    let active = [
        pod(1, &full, Some("2026-01-01T11:59:00Z")),
        pod(2, &full, Some("2026-01-01T11:59:01Z")),
        pod(3, &partial, None),
    ];
    let status = status(&set(3, &json!({ "replicas": 0 })), &active, 2, None, now());
    assert_eq!(
        serde_json::to_value(status).unwrap(),
        json!({
            "replicas": 3,
            "fullyLabeledReplicas": 2,
            "readyReplicas": 2,
            "availableReplicas": 1,
            "terminatingReplicas": 2,
            "observedGeneration": 4,
        })
    );
}

#[test]
fn failure_condition_is_set_once_and_cleared() {
    let failure = Failure::new("FailedCreate", "quota".to_owned());
    let first = status(
        &set(1, &json!({ "replicas": 0 })),
        &[],
        0,
        Some(&failure),
        now(),
    );
    let condition = serde_json::to_value(&first.conditions).unwrap();
    assert_eq!(
        condition,
        json!([{
            "type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "quota",
            "lastTransitionTime": NOW,
        }])
    );
    let failed = set(1, &serde_json::to_value(&first).unwrap());
    let other = Failure::new("FailedCreate", "another quota".to_owned());
    let later = "2026-01-01T13:00:00Z".parse().unwrap();
    assert_eq!(status(&failed, &[], 0, Some(&other), later), first);
    assert_eq!(status(&failed, &[], 0, None, later).conditions, None);
}

#[rstest]
#[case(3, 3, 0, 0)]
#[case(3, 1, 2, 0)]
#[case(0, 2, 0, 2)]
#[case(2000, 0, 500, 0)]
#[case(0, 700, 0, 500)]
fn pods_are_created_or_deleted_up_to_the_burst(
    #[case] desired: usize,
    #[case] there: usize,
    #[case] create: usize,
    #[case] delete: usize,
) {
    let set = set(desired, &json!({ "replicas": 0 }));
    let (created, deleted) = match step(&set, pods(there), Vec::new, now()) {
        ReplicaSetStep::Nothing => (0, 0),
        ReplicaSetStep::Create(count) => (count, 0),
        ReplicaSetStep::Delete(pods) => (0, pods.len()),
    };
    assert_eq!((created, deleted), (create, delete));
}

proptest! {
    /// Executing the steps leads to a stable state.
    #[test]
    fn steps_converge(desired in 0usize..1300, there in 0usize..1300) {
        let set = set(desired, &json!({ "replicas": 0 }));
        let mut count = there;
        for _ in 0..4 {
            match step(&set, pods(count), Vec::new, now()) {
                ReplicaSetStep::Nothing => break,
                ReplicaSetStep::Create(more) => count += more,
                ReplicaSetStep::Delete(less) => count -= less.len(),
            }
        }
        prop_assert_eq!(count, desired);
    }
}
