//! Instances that move, and those that cannot.

use std::collections::BTreeSet;

use kube::api::ListParams;
use serde_json::{Value, json};

use crate::world::{World, cpu, phase, phases};

/// Two hosts that are alike, an older and a newer one, and one of somebody else.
const FLEET: &str = "
pools:
  - {name: old, arch: amd64, cpu: {generation: skylake}}
  - {name: twin, arch: amd64, count: 2, cpu: {generation: icelake}}
  - {name: other, arch: amd64, cpu: {generation: milan}}
";

/// An instance that begins on a node and may leave it.
async fn begin(world: &World, name: &str, model: &str, node: &str) -> anyhow::Result<()> {
    for other in world.node_names().await? {
        let away = other != node;
        world
            .patch_node(&other, json!({ "spec": { "unschedulable": away } }))
            .await?;
    }
    let mut spec = cpu(model);
    spec["evictionStrategy"] = json!("LiveMigrate");
    world.machine(name, "Always", spec).await?;
    let instance = world
        .until(name, "runs", |it| phase(it) == "Running")
        .await?;
    assert_eq!(instance["status"]["nodeName"], node);
    for other in world.node_names().await? {
        world
            .patch_node(&other, json!({ "spec": { "unschedulable": null } }))
            .await?;
    }
    Ok(())
}

/// What the pod an instance is in asks of the CPU of its node.
async fn asks(world: &World, name: &str) -> anyhow::Result<BTreeSet<String>> {
    let pods = world.launchers(name).await?;
    let instance = world.instance(name).await?;
    let pod = pods
        .iter()
        .find(|pod| pod["spec"]["nodeName"] == instance["status"]["nodeName"]);
    let selector = pod.map_or(&Value::Null, |pod| &pod["spec"]["nodeSelector"]);
    let keys = selector
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, _)| key);
    Ok(keys
        .filter(|key| key.starts_with("cpu-"))
        .cloned()
        .collect())
}

#[tokio::test]
async fn a_guest_with_the_model_of_its_host_moves_there_and_back() -> anyhow::Result<()> {
    let world = World::start(FLEET).await?;
    begin(&world, "web", "host-model", "twin-1").await?;
    assert_eq!(asks(&world, "web").await?, BTreeSet::new());
    world.migrate("web", "there", json!({})).await?;
    let there = world.until_over("there").await?;
    let way = [
        "Pending",
        "Scheduling",
        "Scheduled",
        "PreparingTarget",
        "TargetReady",
        "Running",
        "Succeeded",
    ];
    assert_eq!(phases(&there), way);
    let instance = world
        .until("web", "has moved", |it| {
            it["status"]["nodeName"] == "twin-2"
        })
        .await?;
    assert_eq!(
        instance["metadata"]["labels"]["kubevirt.io/nodeName"],
        "twin-2"
    );
    let state = &instance["status"]["migrationState"];
    assert_eq!(state["migrationUid"], there["metadata"]["uid"]);
    assert_eq!(
        (
            &state["sourceNode"],
            &state["targetNode"],
            &state["completed"]
        ),
        (&json!("twin-1"), &json!("twin-2"), &json!(true))
    );
    assert_eq!(phase(&instance), "Running");
    let first = asks(&world, "web").await?;
    assert!(
        first.contains("cpu-model-migration.node.kubevirt.io/Icelake-Server-noTSX"),
        "{first:?}"
    );
    assert!(
        first.contains("cpu-feature.node.kubevirt.io/sha-ni"),
        "{first:?}"
    );
    assert!(
        first.contains("cpu-vendor.node.kubevirt.io/Intel"),
        "{first:?}"
    );
    world.migrate("web", "back", json!({})).await?;
    assert_eq!(phase(&world.until_over("back").await?), "Succeeded");
    world
        .until("web", "is back", |it| it["status"]["nodeName"] == "twin-1")
        .await?;
    assert_eq!(asks(&world, "web").await?, first);
    Ok(())
}

#[tokio::test]
async fn a_guest_whose_host_is_unlike_all_others_is_stranded() -> anyhow::Result<()> {
    let world = World::start(FLEET).await?;
    begin(&world, "web", "host-model", "other-1").await?;
    world.migrate("web", "away", json!({})).await?;
    world
        .until_event(
            "migrationTargetPodUnschedulable",
            "is currently unschedulable",
        )
        .await?;
    world
        .until_event(
            "NoSuitableNodesForHostModelMigration",
            "cpu-feature.node.kubevirt.io/svm:true",
        )
        .await?;
    // It is given up after a while, and the guest stays.
    let away = world.until_over("away").await?;
    assert_eq!(phases(&away), ["Pending", "Scheduling", "Failed"]);
    world
        .until_event("SuccessfulDelete", "timeout period exceeded")
        .await?;
    let instance = world.instance("web").await?;
    assert_eq!(
        (phase(&instance), &instance["status"]["nodeName"]),
        ("Running", &json!("other-1"))
    );
    Ok(())
}

#[tokio::test]
async fn what_labels_allow_and_libvirt_does_not_fails_and_stays() -> anyhow::Result<()> {
    let world = World::start(FLEET).await?;
    begin(&world, "web", "host-model", "old-1").await?;
    world.migrate("web", "newer", json!({})).await?;
    let newer = world.until_over("newer").await?;
    assert_eq!(phase(&newer), "Failed");
    let state = &newer["status"]["migrationState"];
    assert_eq!(state["failed"], true);
    let why = state["failureReason"].as_str().unwrap_or_default();
    assert!(why.contains("missing features: hle,rtm"), "{why}");
    let instance = world.instance("web").await?;
    assert_eq!(instance["status"]["nodeName"], "old-1");
    Ok(())
}

#[tokio::test]
async fn a_named_model_moves_to_newer_hosts_and_back() -> anyhow::Result<()> {
    let world = World::start(FLEET).await?;
    begin(&world, "web", "Skylake-Server-noTSX-IBRS", "old-1").await?;
    let only = json!({ "addedNodeSelector": { "kubernetes.io/hostname": "twin-2" } });
    world.migrate("web", "newer", only).await?;
    assert_eq!(phase(&world.until_over("newer").await?), "Succeeded");
    let asked = asks(&world, "web").await?;
    let expected = [
        "cpu-model.node.kubevirt.io/Skylake-Server-noTSX-IBRS",
        "cpu-vendor.node.kubevirt.io/Intel",
    ];
    assert_eq!(asked, expected.map(str::to_owned).into());
    let instance = world.instance("web").await?;
    assert_eq!(instance["status"]["nodeName"], "twin-2");
    let only = json!({ "addedNodeSelector": { "kubernetes.io/hostname": "old-1" } });
    world.migrate("web", "back", only).await?;
    assert_eq!(phase(&world.until_over("back").await?), "Succeeded");
    Ok(())
}

#[tokio::test]
async fn an_instance_has_one_migration_at_a_time() -> anyhow::Result<()> {
    let world = World::start(FLEET).await?;
    // No node takes it, so the first takes long.
    begin(&world, "web", "host-model", "other-1").await?;
    world.migrate("web", "first", json!({})).await?;
    world
        .until_event("migrationTargetPodUnschedulable", "")
        .await?;
    world.migrate("web", "second", json!({})).await?;
    assert_eq!(phases(&world.until_over("second").await?), ["Failed"]);
    world
        .until_event("FailedMigration", "another migration job is in progress")
        .await?;
    // Whoever deletes the first cancels it.
    world
        .delete("VirtualMachineInstanceMigration", "first")
        .await?;
    world
        .until_of(
            "VirtualMachineInstanceMigration",
            "first",
            "is gone",
            Value::is_null,
        )
        .await?;
    let instance = world.instance("web").await?;
    assert_eq!(phase(&instance), "Running");
    Ok(())
}

#[tokio::test]
async fn instances_leave_a_node_that_is_drained() -> anyhow::Result<()> {
    let world = World::start(FLEET).await?;
    begin(&world, "web", "host-model", "twin-1").await?;
    let taint =
        json!([{ "key": "kubevirt.io/drain", "value": "draining", "effect": "NoSchedule" }]);
    world
        .patch_node("twin-1", json!({ "spec": { "taints": taint } }))
        .await?;
    world
        .until("web", "has left", |it| it["status"]["nodeName"] == "twin-2")
        .await?;
    let all = world.all("VirtualMachineInstanceMigration");
    let all = all.list(&ListParams::default()).await?;
    let said = all.items[0]
        .metadata
        .annotations
        .clone()
        .unwrap_or_default();
    assert_eq!(
        said.get("kubevirt.io/evacuationMigration")
            .map(String::as_str),
        Some("twin-1")
    );
    assert_eq!(all.items.len(), 1);
    Ok(())
}
