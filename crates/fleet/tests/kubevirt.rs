//! KubeVirt on a cluster: machines start, end and start again, and nodes have labels.

#[path = "kubevirt/world.rs"]
mod world;

use serde_json::json;
use world::{World, cpu, phase};

const FLEET: &str = "
pools:
  - {name: old, arch: amd64, cpu: {generation: skylake}}
  - {name: new, arch: amd64, count: 2, cpu: {generation: icelake}}
  - {name: arm, arch: arm64}
";

#[tokio::test]
async fn a_machine_that_is_to_run_gets_an_instance_and_a_launcher() -> anyhow::Result<()> {
    let world = World::start(FLEET).await?;
    world.machine("web", "Always", cpu("host-model")).await?;
    let instance = world
        .until("web", "runs", |it| phase(it) == "Running")
        .await?;
    let node = instance["status"]["nodeName"].as_str().unwrap_or_default();
    assert!(!node.is_empty());
    assert_eq!(instance["metadata"]["labels"]["kubevirt.io/nodeName"], node);
    assert!(instance["status"]["interfaces"][0]["ipAddress"].is_string());
    let phases: Vec<&str> = instance["status"]["phaseTransitionTimestamps"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|it| it["phase"].as_str())
        .collect();
    assert_eq!(phases, ["Pending", "Scheduling", "Scheduled", "Running"]);
    world.until_machine("web", "Running").await?;
    let pods = world.launchers("web").await?;
    assert_eq!(pods.len(), 1);
    assert_eq!(pods[0]["spec"]["nodeName"], node);

    // A new instance comes for one that is deleted.
    world.delete_instance("web").await?;
    let uid = instance["metadata"]["uid"].clone();
    world
        .until("web", "is another and runs", |it| {
            it["metadata"]["uid"] != uid && phase(it) == "Running"
        })
        .await?;

    // A machine that is switched off has none, and one that is deleted leaves nothing.
    world.set("web", json!({ "runStrategy": "Halted" })).await?;
    world.until_machine("web", "Stopped").await?;
    world.until_gone("web").await?;
    world.set("web", json!({ "runStrategy": "Always" })).await?;
    world
        .until("web", "runs again", |it| phase(it) == "Running")
        .await?;
    world.delete_machine("web").await?;
    world.until_gone("web").await?;
    assert_eq!(world.launchers("web").await?.len(), 0);
    Ok(())
}

#[tokio::test]
async fn a_named_model_asks_for_its_label_and_nobody_has_one_for_best_match() -> anyhow::Result<()>
{
    let world = World::start(FLEET).await?;
    world
        .machine("tsx", "Always", cpu("Skylake-Server-IBRS"))
        .await?;
    let instance = world
        .until("tsx", "runs", |it| phase(it) == "Running")
        .await?;
    assert_eq!(instance["status"]["nodeName"], "old-1");
    world
        .machine("match", "Always", cpu("best-match-model"))
        .await?;
    world.until_machine("match", "ErrorUnschedulable").await?;
    let pods = world.launchers("match").await?;
    assert_eq!(
        pods[0]["spec"]["nodeSelector"]["cpu-model.node.kubevirt.io/best-match-model"],
        "true"
    );
    let waiting = world.instance("match").await?;
    assert_eq!(phase(&waiting), "Scheduling");
    // Whoever labels a node so has libvirt say what it thinks of it.
    world
        .label(
            "new-1",
            json!({ "cpu-model.node.kubevirt.io/best-match-model": "true" }),
        )
        .await?;
    world
        .annotate(
            "new-1",
            json!({ "node-labeller.kubevirt.io/skip-node": "" }),
        )
        .await?;
    world
        .label(
            "new-1",
            json!({ "cpu-model.node.kubevirt.io/best-match-model": "true" }),
        )
        .await?;
    world
        .until_event("SyncFailed", "Unknown CPU model best-match-model")
        .await?;
    world.until_machine("match", "CrashLoopBackOff").await?;
    Ok(())
}
