//! What nodes say about their CPUs.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;
use testkit::wait_until;

use crate::world::World;

const FLEET: &str = "
pools:
  - {name: old, arch: amd64, cpu: {generation: skylake}}
  - {name: skipped, arch: amd64, cpu: {generation: skylake}, annotations: {node-labeller.kubevirt.io/skip-node: ''}}
  - {name: arm, arch: arm64}
  - {name: control, arch: amd64, roles: [control-plane]}
";

/// Waits until the labels of a node are as told.
async fn until(
    world: &World,
    node: &str,
    what: &str,
    holds: impl Fn(&BTreeMap<String, String>) -> bool,
) -> anyhow::Result<BTreeMap<String, String>> {
    let limit = Duration::from_mins(1);
    wait_until(&format!("node {node} {what}"), limit, async || {
        let labels = world.nodes().get(node).await?.metadata.labels;
        Ok(labels.filter(&holds))
    })
    .await
}

fn model(name: &str) -> String {
    format!("cpu-model.node.kubevirt.io/{name}")
}

#[tokio::test]
async fn nodes_are_labelled_anew_when_the_configuration_changes() -> anyhow::Result<()> {
    let world = World::start(FLEET).await?;
    until(&world, "old-1", "has its labels", |labels| {
        labels.contains_key(&model("Penryn"))
            && !labels.contains_key(&model("Conroe"))
            && labels
                .get("kubevirt.io/schedulable")
                .is_some_and(|it| it == "true")
    })
    .await?;
    let arm = until(&world, "arm-1", "takes guests", |labels| {
        labels.contains_key("kubevirt.io/schedulable")
    })
    .await?;
    assert!(!arm.keys().any(|key| key.starts_with("cpu-")), "{arm:?}");
    // Only keys count, and they replace the list that is built in.
    let obsolete = json!({ "Penryn": false, "Skylake-Server-IBRS": true });
    world
        .configure(json!({ "obsoleteCPUModels": obsolete }))
        .await?;
    let labels = until(&world, "old-1", "is obsolete", |labels| {
        labels.contains_key("node-labeller.kubevirt.io/obsolete-host-model")
    })
    .await?;
    assert!(!labels.contains_key(&model("Penryn")));
    assert!(labels.contains_key(&model("Conroe")));
    let event = world
        .until_event("HostModelIsObsolete", "This node has Skylake-Server-IBRS host-model cpu that is included in ObsoleteCPUModels: map[Penryn:false Skylake-Server-IBRS:true]")
        .await?;
    assert_eq!(event.type_.as_deref(), Some("Warning"));
    // Who is not to be labelled is not, and says what it said before.
    let skipped = world.nodes().get("skipped-1").await?.metadata.labels;
    assert!(skipped.is_some_and(|labels| labels.contains_key(&model("Penryn"))));
    world
        .configure(json!({ "obsoleteCPUModels": null }))
        .await?;
    until(&world, "old-1", "is as before", |labels| {
        labels.contains_key(&model("Penryn"))
            && !labels.contains_key(&model("Conroe"))
            && !labels.contains_key("node-labeller.kubevirt.io/obsolete-host-model")
    })
    .await?;
    Ok(())
}

#[tokio::test]
async fn a_node_with_another_cpu_keeps_its_old_vendor_as_well() -> anyhow::Result<()> {
    let world = World::start(FLEET).await?;
    world
        .annotate("old-1", json!({ "fleet.medley.dev/cpu": "milan" }))
        .await?;
    let labels = until(&world, "old-1", "has another CPU", |labels| {
        labels.contains_key(&model("EPYC-Milan"))
    })
    .await?;
    assert!(!labels.contains_key(&model("Skylake-Server-IBRS")));
    assert!(labels.contains_key("cpu-vendor.node.kubevirt.io/AMD"));
    assert!(labels.contains_key("cpu-vendor.node.kubevirt.io/Intel"));
    Ok(())
}

#[tokio::test]
async fn a_node_that_is_not_heard_of_takes_no_guests() -> anyhow::Result<()> {
    let world = World::start(FLEET).await?;
    let says = |word: &'static str| {
        move |labels: &BTreeMap<String, String>| {
            labels
                .get("kubevirt.io/schedulable")
                .is_some_and(|it| it == word)
        }
    };
    until(&world, "arm-1", "takes guests", says("true")).await?;
    world
        .annotate("arm-1", json!({ "fleet.medley.dev/failed": "true" }))
        .await?;
    until(&world, "arm-1", "is given up", says("false")).await?;
    world
        .annotate("arm-1", json!({ "fleet.medley.dev/failed": null }))
        .await?;
    until(&world, "arm-1", "is back", says("true")).await?;
    Ok(())
}
