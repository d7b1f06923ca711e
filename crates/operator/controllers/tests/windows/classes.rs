//! RuntimeClasses and build labels, as nodes come and go.

use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;
use testkit::wait_until;

use crate::stage::{Stage, WAIT_TIMEOUT};

const ONE: &str = "
pools:
  - {name: win, arch: amd64, os: windows, windowsBuild: 10.0.20348, runtimeHandlers: [runhcs-wcow-process]}
";

#[tokio::test(flavor = "multi_thread")]
async fn node_without_build_label_is_labelled() -> anyhow::Result<()> {
    let stage = Stage::new(ONE).await?;
    stage.has_classes(&["windows-20348"]).await?;
    let nodes: Api<Node> = Api::all(stage.client());
    let node = serde_json::from_value(json!({
        "metadata": { "name": "silent", "labels": { "kubernetes.io/os": "windows", "kubernetes.io/arch": "amd64" } },
    }))?;
    nodes.create(&PostParams::default(), &node).await?;
    let status = json!({ "status": { "nodeInfo": {
        "operatingSystem": "windows", "architecture": "amd64", "kernelVersion": "10.0.26100.2314",
        "osImage": "Windows Server 2025 Datacenter", "bootID": "", "containerRuntimeVersion": "",
        "kubeProxyVersion": "", "kubeletVersion": "", "machineID": "", "systemUUID": "",
    } } });
    nodes
        .patch_status("silent", &PatchParams::default(), &Patch::Merge(status))
        .await?;
    wait_until("it is labelled", WAIT_TIMEOUT, async || {
        let node = json!(nodes.get("silent").await?);
        let label = &node["metadata"]["labels"]["node.kubernetes.io/windows-build"];
        Ok((label == "10.0.26100").then_some(()))
    })
    .await?;
    let message = stage
        .wait_for_event("silent", "WindowsBuildLabelled")
        .await?;
    assert!(
        message.contains("node.kubernetes.io/windows-build=10.0.26100"),
        "{message}"
    );
    // Its runtime reports no handlers: the defaults of containerd are assumed.
    stage
        .has_classes(&["windows-20348", "windows-26100"])
        .await?;
    stage.remove_node("silent").await?;
    stage.has_classes(&["windows-20348"]).await?;
    stage.end().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn foreign_classes_stay_and_own_classes_are_restored() -> anyhow::Result<()> {
    let stage = Stage::new("pools: [{name: a, arch: amd64}]").await?;
    let theirs = json!({ "metadata": { "name": "windows-20348" }, "handler": "mine" });
    let theirs = serde_json::from_value(theirs)?;
    stage
        .classes()
        .create(&PostParams::default(), &theirs)
        .await?;
    let nodes: Api<Node> = Api::all(stage.client());
    let node = serde_json::from_value(json!({ "metadata": { "name": "w", "labels": {
        "kubernetes.io/os": "windows",
        "kubernetes.io/arch": "amd64",
        "node.kubernetes.io/windows-build": "10.0.20348",
    } } }))?;
    nodes.create(&PostParams::default(), &node).await?;
    stage
        .has_classes(&["windows-20348", "windows-20348-v2"])
        .await?;
    stage
        .wait_for_event("windows-20348-v2", "RuntimeClassMade")
        .await?;
    stage
        .classes()
        .delete("windows-20348-v2", &DeleteParams::default())
        .await?;
    stage
        .has_classes(&["windows-20348", "windows-20348-v2"])
        .await?;

    // Changes by other managers are reverted.
    let wrong = json!({ "scheduling": { "nodeSelector": { "node.kubernetes.io/windows-build": "10.0.1" } } });
    stage
        .classes()
        .patch(
            "windows-20348-v2",
            &PatchParams::default(),
            &Patch::Merge(wrong),
        )
        .await?;
    wait_until("it is put right", WAIT_TIMEOUT, async || {
        let class = json!(stage.classes().get("windows-20348-v2").await?);
        let build = &class["scheduling"]["nodeSelector"]["node.kubernetes.io/windows-build"];
        Ok((build == "10.0.20348").then_some(()))
    })
    .await?;

    stage.remove_node("w").await?;
    stage.has_classes(&["windows-20348"]).await?;
    assert_eq!(stage.classes().get("windows-20348").await?.handler, "mine");
    wait_until("nothing is counted", WAIT_TIMEOUT, async || {
        let metrics = stage.metrics();
        let none = "medley_placement_runtime_classes{state=\"served\"} 0";
        Ok(metrics.contains(none).then_some(()))
    })
    .await?;
    stage.end().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_runtime_handler_emits_event() -> anyhow::Result<()> {
    let stage = Stage::new(
        "
pools:
  - {name: ready, arch: amd64, os: windows, windowsBuild: 10.0.20348, runtimeHandlers: [runhcs-wcow-process, runhcs-wcow-hypervisor-17763]}
  - {name: late, arch: amd64, os: windows, windowsBuild: 10.0.20348, runtimeHandlers: [runhcs-wcow-process]}
",
    )
    .await?;
    stage.has_classes(&["windows-20348"]).await?;
    let message = stage
        .wait_for_event("late-1", "RuntimeHandlerMissing")
        .await?;
    assert!(
        message.contains("runhcs-wcow-hypervisor-17763"),
        "{message}"
    );
    let metrics = stage.metrics();
    assert!(
        metrics.contains("medley_placement_runtime_classes{state=\"withheld\"} 2"),
        "{metrics}"
    );
    assert!(
        metrics.contains("medley_placement_windows_nodes{build=\"10.0.20348\"} 2"),
        "{metrics}"
    );
    stage.end().await;
    Ok(())
}
