//! One pod per node.

use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};
use testkit::wait_until;

use super::stage::{Stage, WAIT_TIMEOUT, images, target, template};

pub(crate) fn daemon_set(name: &str) -> Value {
    json!({
        "metadata": { "name": name },
        "spec": {
            "selector": { "matchLabels": { "app": name } },
            "template": template(name, "example.com/agent:1"),
        },
    })
}

fn image(image: &str) -> Value {
    json!({ "spec": { "template": { "spec": { "containers": [
        { "name": "main", "image": image }
    ]}}}})
}

fn nodes(stage: &Stage) -> Api<Node> {
    Api::all(stage.cluster.client())
}

/// Adds a node with a label. New nodes are tainted until they are ready; these are ready at once.
pub(crate) async fn add_node(stage: &Stage, name: &str, kind: &str) -> anyhow::Result<()> {
    let node: Node = serde_json::from_value(json!({
        "metadata": { "name": name, "labels": { "kind": kind } },
    }))?;
    nodes(stage).create(&PostParams::default(), &node).await?;
    taint(stage, name, json!(null)).await
}

async fn taint(stage: &Stage, name: &str, taints: Value) -> anyhow::Result<()> {
    let taints = json!({ "spec": { "taints": taints } });
    nodes(stage)
        .patch(name, &PatchParams::default(), &Patch::Merge(&taints))
        .await?;
    Ok(())
}

/// The nodes that pods are pinned to.
fn targets(pods: &[Pod]) -> Vec<String> {
    let mut targets: Vec<String> = pods.iter().filter_map(target).collect();
    targets.sort();
    targets
}

async fn until_targets(stage: &Stage, expected: &[&str]) -> anyhow::Result<Vec<Pod>> {
    let what = format!("there are pods for {expected:?}");
    wait_until(&what, WAIT_TIMEOUT, || async {
        Ok(Some(stage.pods().await?).filter(|pods| targets(pods) == expected))
    })
    .await
}

pub(crate) async fn rolled_out(stage: &Stage, name: &str, count: i32) -> anyhow::Result<DaemonSet> {
    stage
        .until("the daemon set is rolled out", name, |it: &DaemonSet| {
            it.status.as_ref().is_some_and(|status| {
                status.observed_generation == it.metadata.generation
                    && status.desired_number_scheduled == count
                    && status.updated_number_scheduled.unwrap_or_default() == count
                    && status.number_available.unwrap_or_default() == count
                    && status.number_unavailable.is_none()
            })
        })
        .await
}

#[tokio::test]
async fn pods_follow_node_changes() -> anyhow::Result<()> {
    let mut stage = Stage::start().await?;
    stage.keep_running();
    add_node(&stage, "a", "worker").await?;
    add_node(&stage, "b", "worker").await?;
    add_node(&stage, "x", "other").await?;
    let mut object = daemon_set("agent");
    object["spec"]["template"]["spec"]["nodeSelector"] = json!({ "kind": "worker" });
    stage.create::<DaemonSet>(object).await?;
    let pods = until_targets(&stage, &["a", "b"]).await?;
    assert!(pods.iter().all(|pod| {
        let labels = pod.labels();
        labels.contains_key("controller-revision-hash") && labels["pod-template-generation"] == "1"
    }));
    stage
        .until_event("agent", "SuccessfulCreate", "Created pod: agent-")
        .await?;

    add_node(&stage, "c", "worker").await?;
    until_targets(&stage, &["a", "b", "c"]).await?;
    let worker = json!({ "metadata": { "labels": { "kind": "worker" } } });
    nodes(&stage)
        .patch("x", &PatchParams::default(), &Patch::Merge(&worker))
        .await?;
    until_targets(&stage, &["a", "b", "c", "x"]).await?;

    taint(
        &stage,
        "a",
        json!([{ "key": "broken", "effect": "NoExecute" }]),
    )
    .await?;
    until_targets(&stage, &["b", "c", "x"]).await?;
    // No pod would be created there, existing ones may stay.
    taint(
        &stage,
        "b",
        json!([{ "key": "reserved", "effect": "NoSchedule" }]),
    )
    .await?;
    stage
        .until("b is out of place", "agent", |it: &DaemonSet| {
            it.status.as_ref().is_some_and(|status| {
                status.number_misscheduled == 1 && status.desired_number_scheduled == 2
            })
        })
        .await?;
    until_targets(&stage, &["b", "c", "x"]).await?;
    taint(
        &stage,
        "b",
        json!([{ "key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule" }]),
    )
    .await?;
    taint(&stage, "a", json!(null)).await?;
    until_targets(&stage, &["a", "b", "c", "x"]).await?;

    Ok(())
}

#[tokio::test]
async fn pods_for_deleted_nodes_are_deleted() -> anyhow::Result<()> {
    let stage = Stage::start().await?;
    add_node(&stage, "a", "worker").await?;
    add_node(&stage, "b", "worker").await?;
    stage.create::<DaemonSet>(daemon_set("agent")).await?;
    until_targets(&stage, &["a", "b"]).await?;
    nodes(&stage).delete("b", &DeleteParams::default()).await?;
    if stage.has_genuine_controllers() {
        // Upstream notices it with the next other change.
        let change = json!({ "metadata": { "annotations": { "look": "again" } } });
        stage.patch::<DaemonSet>("agent", change).await?;
    }
    until_targets(&stage, &["a"]).await?;
    stage
        .until("the status says so", "agent", |it: &DaemonSet| {
            it.status.as_ref().is_some_and(|status| {
                status.desired_number_scheduled == 1 && status.current_number_scheduled == 1
            })
        })
        .await?;
    Ok(())
}

#[tokio::test]
async fn update_resumes_after_crashes() -> anyhow::Result<()> {
    let mut stage = Stage::start().await?;
    stage.keep_running();
    for name in ["a", "b", "c", "d"] {
        add_node(&stage, name, "worker").await?;
    }
    stage.create::<DaemonSet>(daemon_set("agent")).await?;
    rolled_out(&stage, "agent", 4).await?;
    for number in 2..6 {
        let wanted = format!("example.com/agent:{number}");
        stage.patch::<DaemonSet>("agent", image(&wanted)).await?;
        let seen = number % 4;
        wait_until("the update is under way", WAIT_TIMEOUT, || async {
            let images = images(&stage.pods().await?);
            Ok((images.iter().filter(|it| **it == wanted).count() >= seen).then_some(()))
        })
        .await?;
        stage.kill_controllers();
        stage.start_controllers().await?;
    }
    rolled_out(&stage, "agent", 4).await?;
    let pods = until_targets(&stage, &["a", "b", "c", "d"]).await?;
    assert_eq!(images(&pods), ["example.com/agent:5"; 4]);
    let revisions: Api<ControllerRevision> = stage.api();
    let numbers: Vec<i64> = revisions
        .list(&ListParams::default())
        .await?
        .iter()
        .map(|revision| revision.revision)
        .collect();
    let distinct: BTreeSet<i64> = numbers.iter().copied().collect();
    assert_eq!(
        numbers.len(),
        distinct.len(),
        "no revision twice: {numbers:?}"
    );
    Ok(())
}

#[tokio::test]
async fn surges() -> anyhow::Result<()> {
    let mut stage = Stage::start().await?;
    stage.keep_running();
    for name in ["a", "b", "c"] {
        add_node(&stage, name, "worker").await?;
    }
    let mut object = daemon_set("agent");
    object["spec"]["updateStrategy"] =
        json!({ "rollingUpdate": { "maxSurge": 1, "maxUnavailable": 0 } });
    stage.create::<DaemonSet>(object).await?;
    rolled_out(&stage, "agent", 3).await?;
    stage.stop_running();
    stage
        .patch::<DaemonSet>("agent", image("example.com/agent:2"))
        .await?;
    // One new pod that never becomes ready holds up the rest.
    let pods = stage.until_pods(4).await?;
    let new = images(&pods)
        .iter()
        .filter(|it| *it == "example.com/agent:2")
        .count();
    assert_eq!(new, 1);
    stage.keep_running();
    rolled_out(&stage, "agent", 3).await?;
    let pods = until_targets(&stage, &["a", "b", "c"]).await?;
    assert_eq!(images(&pods), ["example.com/agent:2"; 3]);
    Ok(())
}

#[tokio::test]
async fn on_delete_waits_for_deletion() -> anyhow::Result<()> {
    let mut stage = Stage::start().await?;
    stage.keep_running();
    add_node(&stage, "a", "worker").await?;
    add_node(&stage, "b", "worker").await?;
    let mut object = daemon_set("agent");
    object["spec"]["updateStrategy"] = json!({ "type": "OnDelete" });
    stage.create::<DaemonSet>(object).await?;
    let pods = until_targets(&stage, &["a", "b"]).await?;
    stage
        .patch::<DaemonSet>("agent", image("example.com/agent:2"))
        .await?;
    stage
        .until("the change is seen", "agent", |it: &DaemonSet| {
            it.status.as_ref().is_some_and(|status| {
                status.observed_generation == it.metadata.generation
                    && status.updated_number_scheduled.is_none()
            })
        })
        .await?;
    stage
        .api::<Pod>()
        .delete(&pods[0].name_any(), &DeleteParams::default())
        .await?;
    stage
        .until("one is new", "agent", |it: &DaemonSet| {
            it.status
                .as_ref()
                .is_some_and(|status| status.updated_number_scheduled == Some(1))
        })
        .await?;
    let pods = until_targets(&stage, &["a", "b"]).await?;
    let images: BTreeSet<String> = images(&pods).into_iter().collect();
    assert_eq!(images.len(), 2);
    Ok(())
}

#[tokio::test]
async fn failed_pods_are_replaced() -> anyhow::Result<()> {
    let stage = Stage::start().await?;
    add_node(&stage, "a", "worker").await?;
    stage.create::<DaemonSet>(daemon_set("agent")).await?;
    for _ in 0..2 {
        let pod = until_targets(&stage, &["a"]).await?[0].name_any();
        let failed = json!({ "status": { "phase": "Failed" } });
        let api = stage.api::<Pod>();
        api.patch_status(&pod, &PatchParams::default(), &Patch::Merge(&failed))
            .await?;
        let message = format!(
            "Found failed daemon pod {}/{pod} on node a, will try to kill it",
            stage.namespace
        );
        stage
            .until_event("agent", "FailedDaemonPod", &message)
            .await?;
        wait_until("the pod is replaced", WAIT_TIMEOUT, || async {
            let pods = stage.pods().await?;
            Ok((pods.len() == 1 && pods[0].name_any() != pod).then_some(()))
        })
        .await?;
    }
    Ok(())
}
