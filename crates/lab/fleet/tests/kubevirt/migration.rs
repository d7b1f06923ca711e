//! Instances that migrate, and those that cannot.

use std::collections::BTreeSet;

use kube::api::ListParams;
use serde_json::{Value, json};

use crate::fixture::{Fixture, cpu, phase, phases};

/// Two identical hosts, an older and a newer one, and one of another vendor.
const FLEET: &str = "
pools:
  - {name: old, arch: amd64, cpu: {generation: skylake}}
  - {name: twin, arch: amd64, count: 2, cpu: {generation: icelake}}
  - {name: other, arch: amd64, cpu: {generation: milan}}
";

/// Starts an instance on a node, without pinning it there.
async fn begin(fixture: &Fixture, name: &str, model: &str, node: &str) -> anyhow::Result<()> {
    for other in fixture.node_names().await? {
        let away = other != node;
        fixture
            .patch_node(&other, json!({ "spec": { "unschedulable": away } }))
            .await?;
    }
    let mut spec = cpu(model);
    spec["evictionStrategy"] = json!("LiveMigrate");
    fixture.machine(name, "Always", spec).await?;
    let instance = fixture
        .until(name, "runs", |it| phase(it) == "Running")
        .await?;
    assert_eq!(instance["status"]["nodeName"], node);
    for other in fixture.node_names().await? {
        fixture
            .patch_node(&other, json!({ "spec": { "unschedulable": null } }))
            .await?;
    }
    Ok(())
}

/// CPU requirements of an instance's current pod.
async fn cpu_requirements(fixture: &Fixture, name: &str) -> anyhow::Result<BTreeSet<String>> {
    let pods = fixture.launchers(name).await?;
    let instance = fixture.instance(name).await?;
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
async fn host_model_guest_migrates_there_and_back() -> anyhow::Result<()> {
    let fixture = Fixture::start(FLEET).await?;
    begin(&fixture, "web", "host-model", "twin-1").await?;
    assert_eq!(cpu_requirements(&fixture, "web").await?, BTreeSet::new());
    fixture.migrate("web", "there", json!({})).await?;
    let there = fixture.until_over("there").await?;
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
    let instance = fixture
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
    let first = cpu_requirements(&fixture, "web").await?;
    assert!(
        first.contains("cpu-model-migration.node.kubevirt.io/Icelake-Server-noTSX"),
        "{first:?}"
    );
    assert!(
        first.contains("cpu-feature.node.kubevirt.io/sha-ni"),
        "{first:?}"
    );
    fixture.migrate("web", "back", json!({})).await?;
    assert_eq!(phase(&fixture.until_over("back").await?), "Succeeded");
    fixture
        .until("web", "is back", |it| it["status"]["nodeName"] == "twin-1")
        .await?;
    assert_eq!(cpu_requirements(&fixture, "web").await?, first);
    Ok(())
}

#[tokio::test]
async fn guest_on_a_unique_host_cannot_migrate() -> anyhow::Result<()> {
    let fixture = Fixture::start(FLEET).await?;
    begin(&fixture, "web", "host-model", "other-1").await?;
    fixture.migrate("web", "away", json!({})).await?;
    fixture
        .until_event(
            "migrationTargetPodUnschedulable",
            "is currently unschedulable",
        )
        .await?;
    fixture
        .until_event(
            "NoSuitableNodesForHostModelMigration",
            "cpu-feature.node.kubevirt.io/svm:true",
        )
        .await?;
    // It fails after its timeout, and the guest stays on the source.
    let away = fixture.until_over("away").await?;
    assert_eq!(phases(&away), ["Pending", "Scheduling", "Failed"]);
    fixture
        .until_event("SuccessfulDelete", "timeout period exceeded")
        .await?;
    let instance = fixture.instance("web").await?;
    assert_eq!(
        (phase(&instance), &instance["status"]["nodeName"]),
        ("Running", &json!("other-1"))
    );
    Ok(())
}

#[tokio::test]
async fn libvirt_mismatch_fails_the_migration() -> anyhow::Result<()> {
    let fixture = Fixture::start(FLEET).await?;
    begin(&fixture, "web", "host-model", "old-1").await?;
    fixture.migrate("web", "newer", json!({})).await?;
    let newer = fixture.until_over("newer").await?;
    assert_eq!(phase(&newer), "Failed");
    let state = &newer["status"]["migrationState"];
    assert_eq!(state["failed"], true);
    let why = state["failureReason"].as_str().unwrap_or_default();
    assert!(why.contains("missing features: hle,rtm"), "{why}");
    let instance = fixture.instance("web").await?;
    assert_eq!(instance["status"]["nodeName"], "old-1");
    Ok(())
}

#[tokio::test]
async fn named_model_migrates_to_newer_hosts_and_back() -> anyhow::Result<()> {
    let fixture = Fixture::start(FLEET).await?;
    begin(&fixture, "web", "Skylake-Server-noTSX-IBRS", "old-1").await?;
    let only = json!({ "addedNodeSelector": { "kubernetes.io/hostname": "twin-2" } });
    fixture.migrate("web", "newer", only).await?;
    assert_eq!(phase(&fixture.until_over("newer").await?), "Succeeded");
    let required = cpu_requirements(&fixture, "web").await?;
    let expected = ["cpu-model.node.kubevirt.io/Skylake-Server-noTSX-IBRS"];
    assert_eq!(required, expected.map(str::to_owned).into());
    let instance = fixture.instance("web").await?;
    assert_eq!(instance["status"]["nodeName"], "twin-2");
    let only = json!({ "addedNodeSelector": { "kubernetes.io/hostname": "old-1" } });
    fixture.migrate("web", "back", only).await?;
    assert_eq!(phase(&fixture.until_over("back").await?), "Succeeded");
    Ok(())
}

#[tokio::test]
async fn instance_has_one_migration_at_a_time() -> anyhow::Result<()> {
    let fixture = Fixture::start(FLEET).await?;
    // No node is feasible, so the first migration stays pending.
    begin(&fixture, "web", "host-model", "other-1").await?;
    fixture.migrate("web", "first", json!({})).await?;
    fixture
        .until_event("migrationTargetPodUnschedulable", "")
        .await?;
    fixture.migrate("web", "second", json!({})).await?;
    assert_eq!(phases(&fixture.until_over("second").await?), ["Failed"]);
    fixture
        .until_event("FailedMigration", "another migration job is in progress")
        .await?;
    // Deleting the first migration cancels it.
    fixture
        .delete("VirtualMachineInstanceMigration", "first")
        .await?;
    fixture
        .until_of(
            "VirtualMachineInstanceMigration",
            "first",
            "is gone",
            Value::is_null,
        )
        .await?;
    let instance = fixture.instance("web").await?;
    assert_eq!(phase(&instance), "Running");
    Ok(())
}

#[tokio::test]
async fn drained_node_is_evacuated() -> anyhow::Result<()> {
    let fixture = Fixture::start(FLEET).await?;
    begin(&fixture, "web", "host-model", "twin-1").await?;
    let taint =
        json!([{ "key": "kubevirt.io/drain", "value": "draining", "effect": "NoSchedule" }]);
    fixture
        .patch_node("twin-1", json!({ "spec": { "taints": taint } }))
        .await?;
    fixture
        .until("web", "has left", |it| it["status"]["nodeName"] == "twin-2")
        .await?;
    let all = fixture.all("VirtualMachineInstanceMigration");
    let all = all.list(&ListParams::default()).await?;
    let migration_annotations = all.items[0]
        .metadata
        .annotations
        .clone()
        .unwrap_or_default();
    assert_eq!(
        migration_annotations
            .get("kubevirt.io/evacuationMigration")
            .map(String::as_str),
        Some("twin-1")
    );
    assert_eq!(all.items.len(), 1);
    Ok(())
}
