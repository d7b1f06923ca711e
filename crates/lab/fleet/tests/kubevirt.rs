//! KubeVirt on a cluster: virtual machines start, stop and restart, and nodes are labelled.

#[path = "kubevirt/fixture.rs"]
mod fixture;
#[path = "kubevirt/labels.rs"]
mod labels;
#[path = "kubevirt/migration.rs"]
mod migration;

use fixture::{Fixture, cpu, phase, phases};
use serde_json::json;

const FLEET: &str = "
pools:
  - {name: old, arch: amd64, cpu: {generation: skylake}}
  - {name: new, arch: amd64, count: 2, cpu: {generation: icelake}}
  - {name: arm, arch: arm64}
";

#[tokio::test]
async fn running_virtual_machine_has_an_instance_and_a_launcher() -> anyhow::Result<()> {
    let fixture = Fixture::start(FLEET).await?;
    fixture.machine("web", "Always", cpu("host-model")).await?;
    let instance = fixture
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
    fixture.until_machine("web", "Running").await?;
    let pods = fixture.launchers("web").await?;
    assert_eq!(pods.len(), 1);
    assert_eq!(pods[0]["spec"]["nodeName"], node);

    // A deleted instance is replaced by a new one.
    fixture.delete("VirtualMachineInstance", "web").await?;
    let uid = instance["metadata"]["uid"].clone();
    fixture
        .until("web", "is another and runs", |it| {
            it["metadata"]["uid"] != uid && phase(it) == "Running"
        })
        .await?;

    // A halted virtual machine has no instance, and a deleted one leaves no objects behind.
    fixture
        .set("web", json!({ "runStrategy": "Halted" }))
        .await?;
    fixture.until_machine("web", "Stopped").await?;
    fixture.until_gone("web").await?;
    fixture
        .set("web", json!({ "runStrategy": "Always" }))
        .await?;
    fixture
        .until("web", "runs again", |it| phase(it) == "Running")
        .await?;
    fixture.delete("VirtualMachine", "web").await?;
    fixture.until_gone("web").await?;
    assert_eq!(fixture.launchers("web").await?.len(), 0);
    Ok(())
}

#[tokio::test]
async fn named_model_requires_its_label() -> anyhow::Result<()> {
    let fixture = Fixture::start(FLEET).await?;
    fixture
        .machine("tsx", "Always", cpu("Skylake-Server-IBRS"))
        .await?;
    let instance = fixture
        .until("tsx", "runs", |it| phase(it) == "Running")
        .await?;
    assert_eq!(instance["status"]["nodeName"], "old-1");
    fixture
        .machine("match", "Always", cpu("best-match-model"))
        .await?;
    fixture.until_machine("match", "ErrorUnschedulable").await?;
    let pods = fixture.launchers("match").await?;
    assert_eq!(
        pods[0]["spec"]["nodeSelector"]["cpu-model.node.kubevirt.io/best-match-model"],
        "true"
    );
    let waiting = fixture.instance("match").await?;
    assert_eq!(phase(&waiting), "Scheduling");
    // The label makes the pod schedulable here, so libvirt's error becomes visible.
    let skip = json!({ "node-labeller.kubevirt.io/skip-node": "" });
    fixture.annotate("new-1", skip).await?;
    let label = json!({ "cpu-model.node.kubevirt.io/best-match-model": "true" });
    fixture.label("new-1", label).await?;
    fixture
        .until_event("SyncFailed", "Unknown CPU model best-match-model")
        .await?;
    fixture.until_machine("match", "CrashLoopBackOff").await?;
    Ok(())
}

#[tokio::test]
async fn run_strategy_decides_about_restarts() -> anyhow::Result<()> {
    let fixture = Fixture::start(FLEET).await?;
    // The annotations of an instance are copied to its pod.
    let short = json!({ "fleet.medley.dev/run-for": "200s" });
    fixture.annotated("always", "Always", short.clone()).await?;
    fixture.annotated("rerun", "RerunOnFailure", short).await?;
    let first = fixture
        .until("always", "runs", |it| phase(it) == "Running")
        .await?;
    fixture
        .until("always", "is another", |it| {
            it["metadata"]["uid"] != first["metadata"]["uid"] && phase(it) == "Running"
        })
        .await?;
    let done = fixture
        .until("rerun", "has ended", |it| phase(it) == "Succeeded")
        .await?;
    fixture.until_machine("rerun", "Stopped").await?;
    let still = fixture.instance("rerun").await?;
    assert_eq!(still["metadata"]["uid"], done["metadata"]["uid"]);
    Ok(())
}

#[tokio::test]
async fn instances_are_defaulted_per_architecture() -> anyhow::Result<()> {
    let fixture = Fixture::start(FLEET).await?;
    fixture.configure(json!({ "cpuModel": "Nehalem" })).await?;
    let bare = json!({ "domain": {} });
    // An instance without a virtual machine.
    fixture
        .create("VirtualMachineInstance", "own", bare.clone())
        .await?;
    let own = fixture
        .until("own", "runs", |it| phase(it) == "Running")
        .await?;
    assert_eq!(own["spec"]["domain"]["cpu"]["model"], "Nehalem");
    assert_eq!(own["spec"]["architecture"], "amd64");
    let arm = json!({ "architecture": "arm64", "domain": {} });
    fixture.machine("arm", "Always", arm).await?;
    let arm = fixture
        .until("arm", "runs", |it| phase(it) == "Running")
        .await?;
    assert_eq!(arm["spec"]["domain"]["cpu"]["model"], "host-passthrough");
    assert_eq!(arm["status"]["nodeName"], "arm-1");
    let wrong =
        json!({ "architecture": "arm64", "domain": { "cpu": { "model": "best-match-model" } } });
    fixture.machine("wrong", "Always", wrong).await?;
    fixture
        .until_event(
            "FailedCreate",
            "host-passthrough is the only model supported on Arm64",
        )
        .await?;
    Ok(())
}

#[tokio::test]
async fn unknown_status_fields_are_pruned() -> anyhow::Result<()> {
    let fixture = Fixture::start(FLEET).await?;
    fixture
        .create("VirtualMachineInstance", "own", cpu("host-model"))
        .await?;
    fixture
        .until("own", "runs", |it| phase(it) == "Running")
        .await?;
    // There is no status subresource: it is written with the object.
    let patch = json!({
        "metadata": { "annotations": { "kept": "yes" } },
        "status": { "prefferedModel": "Haswell", "reason": "kept" },
    });
    let patched = fixture
        .patch("VirtualMachineInstance", "own", patch)
        .await?;
    assert_eq!(patched["metadata"]["annotations"]["kept"], "yes");
    assert_eq!(patched["status"]["reason"], "kept");
    assert_eq!(patched["status"].get("prefferedModel"), None);
    Ok(())
}
