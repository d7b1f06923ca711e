//! CPU labels of nodes.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;
use testkit::wait_until;

use crate::fixture::Fixture;

const FLEET: &str = "
pools:
  - {name: old, arch: amd64, cpu: {generation: skylake}}
  - {name: skipped, arch: amd64, cpu: {generation: skylake}, annotations: {node-labeller.kubevirt.io/skip-node: ''}}
  - {name: arm, arch: arm64}
  - {name: control, arch: amd64, roles: [control-plane]}
";

/// Waits until the labels of a node satisfy the condition.
async fn until(
    fixture: &Fixture,
    node: &str,
    what: &str,
    holds: impl Fn(&BTreeMap<String, String>) -> bool,
) -> anyhow::Result<BTreeMap<String, String>> {
    let limit = Duration::from_mins(1);
    wait_until(&format!("node {node} {what}"), limit, async || {
        let labels = fixture.nodes().get(node).await?.metadata.labels;
        Ok(labels.filter(&holds))
    })
    .await
}

fn model(name: &str) -> String {
    format!("cpu-model.node.kubevirt.io/{name}")
}

#[tokio::test]
async fn configuration_change_relabels_nodes() -> anyhow::Result<()> {
    let fixture = Fixture::start(FLEET).await?;
    until(&fixture, "old-1", "has its labels", |labels| {
        labels.contains_key(&model("Penryn"))
            && !labels.contains_key(&model("Conroe"))
            && labels
                .get("kubevirt.io/schedulable")
                .is_some_and(|it| it == "true")
    })
    .await?;
    let arm = until(&fixture, "arm-1", "takes guests", |labels| {
        labels.contains_key("kubevirt.io/schedulable")
    })
    .await?;
    assert!(!arm.keys().any(|key| key.starts_with("cpu-")), "{arm:?}");
    // Only keys count, and they replace the built-in list.
    let obsolete = json!({ "Penryn": false, "Skylake-Server-IBRS": true });
    fixture
        .configure(json!({ "obsoleteCPUModels": obsolete }))
        .await?;
    let labels = until(&fixture, "old-1", "is obsolete", |labels| {
        labels.contains_key("node-labeller.kubevirt.io/obsolete-host-model")
    })
    .await?;
    assert!(!labels.contains_key(&model("Penryn")));
    assert!(labels.contains_key(&model("Conroe")));
    let event = fixture
        .until_event("HostModelIsObsolete", "This node has Skylake-Server-IBRS host-model cpu that is included in ObsoleteCPUModels: map[Penryn:false Skylake-Server-IBRS:true]")
        .await?;
    assert_eq!(event.type_.as_deref(), Some("Warning"));
    // A skipped node keeps its labels.
    let skipped = fixture.nodes().get("skipped-1").await?.metadata.labels;
    assert!(skipped.is_some_and(|labels| labels.contains_key(&model("Penryn"))));
    fixture
        .configure(json!({ "obsoleteCPUModels": null }))
        .await?;
    until(&fixture, "old-1", "is as before", |labels| {
        labels.contains_key(&model("Penryn"))
            && !labels.contains_key(&model("Conroe"))
            && !labels.contains_key("node-labeller.kubevirt.io/obsolete-host-model")
    })
    .await?;
    Ok(())
}

#[tokio::test]
async fn changed_cpu_keeps_the_old_vendor_label() -> anyhow::Result<()> {
    let fixture = Fixture::start(FLEET).await?;
    fixture
        .annotate("old-1", json!({ "fleet.medley.dev/cpu": "milan" }))
        .await?;
    let labels = until(&fixture, "old-1", "has another CPU", |labels| {
        labels.contains_key(&model("EPYC-Milan"))
    })
    .await?;
    assert!(!labels.contains_key(&model("Skylake-Server-IBRS")));
    assert!(labels.contains_key("cpu-vendor.node.kubevirt.io/AMD"));
    assert!(labels.contains_key("cpu-vendor.node.kubevirt.io/Intel"));
    Ok(())
}

#[tokio::test]
async fn node_without_heartbeat_is_unschedulable_for_guests() -> anyhow::Result<()> {
    let fixture = Fixture::start(FLEET).await?;
    let is_schedulable = |word: &'static str| {
        move |labels: &BTreeMap<String, String>| {
            labels
                .get("kubevirt.io/schedulable")
                .is_some_and(|it| it == word)
        }
    };
    until(&fixture, "arm-1", "takes guests", is_schedulable("true")).await?;
    fixture
        .annotate("arm-1", json!({ "fleet.medley.dev/failed": "true" }))
        .await?;
    until(&fixture, "arm-1", "is given up", is_schedulable("false")).await?;
    fixture
        .annotate("arm-1", json!({ "fleet.medley.dev/failed": null }))
        .await?;
    until(&fixture, "arm-1", "is back", is_schedulable("true")).await?;
    Ok(())
}
