//! KubeVirt on a cluster: machines start, end and start again, and nodes have labels.

#[path = "kubevirt/labels.rs"]
mod labels;
#[path = "kubevirt/migration.rs"]
mod migration;
#[path = "kubevirt/world.rs"]
mod world;

use serde_json::json;
use world::{World, cpu, phase, phases};

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
    assert_eq!(
        phases(&instance),
        ["Pending", "Scheduling", "Scheduled", "Running"]
    );
    world.until_machine("web", "Running").await?;
    let pods = world.launchers("web").await?;
    assert_eq!(pods.len(), 1);
    assert_eq!(pods[0]["spec"]["nodeName"], node);

    // A new instance comes for one that is deleted.
    world.delete("VirtualMachineInstance", "web").await?;
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
    world.delete("VirtualMachine", "web").await?;
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
    let skip = json!({ "node-labeller.kubevirt.io/skip-node": "" });
    world.annotate("new-1", skip).await?;
    let label = json!({ "cpu-model.node.kubevirt.io/best-match-model": "true" });
    world.label("new-1", label).await?;
    world
        .until_event("SyncFailed", "Unknown CPU model best-match-model")
        .await?;
    world.until_machine("match", "CrashLoopBackOff").await?;
    Ok(())
}

#[tokio::test]
async fn a_guest_that_ends_by_itself_starts_again_as_its_strategy_says() -> anyhow::Result<()> {
    let world = World::start(FLEET).await?;
    // What an instance is annotated with is said of its pod too.
    let short = json!({ "fleet.medley.dev/run-for": "200s" });
    world.annotated("always", "Always", short.clone()).await?;
    world.annotated("rerun", "RerunOnFailure", short).await?;
    let first = world
        .until("always", "runs", |it| phase(it) == "Running")
        .await?;
    world
        .until("always", "is another", |it| {
            it["metadata"]["uid"] != first["metadata"]["uid"] && phase(it) == "Running"
        })
        .await?;
    let done = world
        .until("rerun", "has ended", |it| phase(it) == "Succeeded")
        .await?;
    world.until_machine("rerun", "Stopped").await?;
    let still = world.instance("rerun").await?;
    assert_eq!(still["metadata"]["uid"], done["metadata"]["uid"]);
    Ok(())
}

#[tokio::test]
async fn an_instance_gets_what_it_does_not_say_and_arm64_its_own() -> anyhow::Result<()> {
    let world = World::start(FLEET).await?;
    world.configure(json!({ "cpuModel": "Nehalem" })).await?;
    let bare = json!({ "domain": {} });
    // Somebody's own, without a machine.
    world
        .create("VirtualMachineInstance", "own", bare.clone())
        .await?;
    let own = world
        .until("own", "runs", |it| phase(it) == "Running")
        .await?;
    assert_eq!(own["spec"]["domain"]["cpu"]["model"], "Nehalem");
    assert_eq!(own["spec"]["architecture"], "amd64");
    let arm = json!({ "architecture": "arm64", "domain": {} });
    world.machine("arm", "Always", arm).await?;
    let arm = world
        .until("arm", "runs", |it| phase(it) == "Running")
        .await?;
    assert_eq!(arm["spec"]["domain"]["cpu"]["model"], "host-passthrough");
    assert_eq!(arm["status"]["nodeName"], "arm-1");
    let wrong =
        json!({ "architecture": "arm64", "domain": { "cpu": { "model": "best-match-model" } } });
    world.machine("wrong", "Always", wrong).await?;
    world
        .until_event(
            "FailedCreate",
            "host-passthrough is the only model supported on Arm64",
        )
        .await?;
    Ok(())
}

#[tokio::test]
async fn a_field_that_kubevirt_does_not_know_is_pruned() -> anyhow::Result<()> {
    let world = World::start(FLEET).await?;
    world
        .create("VirtualMachineInstance", "own", cpu("host-model"))
        .await?;
    world
        .until("own", "runs", |it| phase(it) == "Running")
        .await?;
    // The status is no subresource: it is written with the rest.
    let patch = json!({
        "metadata": { "annotations": { "kept": "yes" } },
        "status": { "prefferedModel": "Haswell", "reason": "kept" },
    });
    let patched = world.patch("VirtualMachineInstance", "own", patch).await?;
    assert_eq!(patched["metadata"]["annotations"]["kept"], "yes");
    assert_eq!(patched["status"]["reason"], "kept");
    assert_eq!(patched["status"].get("prefferedModel"), None);
    Ok(())
}
