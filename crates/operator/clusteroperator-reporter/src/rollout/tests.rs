//! When a rollout is done, and what is missing until then.

use serde_json::{Value, json};

use super::*;

fn deployment(status: &Value) -> Deployment {
    serde_json::from_value(json!({
        "metadata": { "generation": 2 },
        "spec": {
            "replicas": 2,
            "selector": {},
            "template": { "spec": { "containers": [{ "name": "operator", "image": "new" }] } },
        },
        "status": status,
    }))
    .unwrap()
}

fn pod(name: &str, image: &str, phase: &str) -> Pod {
    serde_json::from_value(json!({
        "metadata": { "name": name },
        "spec": { "containers": [{ "name": "operator", "image": image }] },
        "status": { "phase": phase },
    }))
    .unwrap()
}

fn status(seen: i64, all: i32, updated: i32, usable: i32) -> Value {
    json!({
        "observedGeneration": seen, "replicas": all, "updatedReplicas": updated,
        "availableReplicas": usable,
    })
}

#[test]
fn deployment_is_done_when_all_pods_are_updated_and_available() {
    for (status, why, available) in [
        (
            status(1, 2, 2, 2),
            "the last change has not been observed yet",
            true,
        ),
        (status(2, 3, 1, 2), "1 of 2 pods are updated", true),
        (status(2, 3, 2, 2), "1 old pods are still there", true),
        (
            status(2, 2, 2, 1),
            "1 of 2 updated pods are available",
            true,
        ),
        (
            status(2, 2, 2, 0),
            "0 of 2 updated pods are available",
            false,
        ),
    ] {
        let found = Rollout::of_deployment::<Pod>(&deployment(&status), &[]);
        assert_eq!(found.why(), Some(why), "{status}");
        assert_eq!(found.is_available(), available, "{status}");
        assert!(!found.is_done());
    }
    let there = [pod("a", "new", "Running"), pod("b", "new", "Running")];
    let done = deployment(&status(2, 2, 2, 2));
    assert_eq!(Rollout::of_deployment(&done, &there), Rollout::Done);
}

#[test]
fn terminating_pod_still_runs_old_code() {
    let done = deployment(&status(2, 2, 2, 2));
    let mut pods = vec![pod("a", "new", "Running"), pod("old", "old", "Running")];
    let found = Rollout::of_deployment(&done, &pods);
    assert_eq!(found.why(), Some("pod old still runs old"));
    assert!(found.is_available());
    pods[1] = pod("old", "old", "Succeeded");
    assert_eq!(Rollout::of_deployment(&done, &pods), Rollout::Done);
}

#[test]
fn deployment_past_its_deadline_is_stuck() {
    let mut late = status(2, 3, 1, 2);
    late["conditions"] = json!([{
        "type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded",
        "message": "ReplicaSet \"x\" has timed out progressing.",
    }]);
    assert_eq!(
        Rollout::of_deployment::<Pod>(&deployment(&late), &[]),
        Rollout::UnrunnablePod {
            why: "ReplicaSet \"x\" has timed out progressing.".to_owned(),
            available: true
        }
    );
}

#[test]
fn daemon_set_is_done_when_all_nodes_are_updated() {
    let daemons = |updated: i32, usable: i32| -> DaemonSet {
        serde_json::from_value(json!({
            "metadata": { "generation": 1 },
            "spec": {
                "selector": {},
                "template": { "spec": { "containers": [{ "name": "d", "image": "new" }] } },
            },
            "status": {
                "observedGeneration": 1, "currentNumberScheduled": 3, "desiredNumberScheduled": 3,
                "numberMisscheduled": 0, "numberReady": usable, "numberAvailable": usable,
                "updatedNumberScheduled": updated,
            },
        }))
        .unwrap()
    };
    let of = |updated, usable| Rollout::of_daemon_set::<Pod>(&daemons(updated, usable), &[]);
    assert_eq!(of(3, 3), Rollout::Done);
    assert_eq!(of(2, 3).why(), Some("2 of 3 pods are updated"));
    assert_eq!(of(3, 2).why(), Some("2 of 3 updated pods are available"));
    assert!(!of(3, 0).is_available());
}

#[test]
fn pod_with_outdated_image_is_not_done() {
    let done = deployment(&status(2, 2, 2, 2));
    let template = done.spec.as_ref().map(|it| &it.template);
    let found = Rollout::Done.of_image(template, "old");
    assert_eq!(
        found.why(),
        Some("its template runs new, not old"),
        "its Deployment has moved on"
    );
    assert!(Rollout::Done.of_image(template, "new").is_done());
}
