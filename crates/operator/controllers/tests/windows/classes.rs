//! Classes and labels, as they come and go.

use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;
use testkit::wait_until;

use crate::stage::{PATIENCE, Stage};

const ONE: &str = "
pools:
  - {name: win, arch: amd64, os: windows, windowsBuild: 10.0.20348, runtimeHandlers: [runhcs-wcow-process]}
";

#[tokio::test(flavor = "multi_thread")]
async fn a_node_whose_kubelet_did_not_say_its_build_is_labelled() -> anyhow::Result<()> {
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
    wait_until("it is labelled", PATIENCE, async || {
        let node = json!(nodes.get("silent").await?);
        let label = &node["metadata"]["labels"]["node.kubernetes.io/windows-build"];
        Ok((label == "10.0.26100").then_some(()))
    })
    .await?;
    let said = stage.told("silent", "WindowsBuildLabelled").await?;
    assert!(
        said.contains("node.kubernetes.io/windows-build=10.0.26100"),
        "{said}"
    );
    // Its runtime does not tell its handlers: it has what containerd has by itself.
    stage
        .has_classes(&["windows-20348", "windows-26100"])
        .await?;
    stage.remove_node("silent").await?;
    stage.has_classes(&["windows-20348"]).await?;
    stage.end().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn classes_of_others_are_not_touched_and_ours_come_back() -> anyhow::Result<()> {
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
    stage.told("windows-20348-v2", "RuntimeClassMade").await?;
    stage
        .classes()
        .delete("windows-20348-v2", &DeleteParams::default())
        .await?;
    stage
        .has_classes(&["windows-20348", "windows-20348-v2"])
        .await?;

    // What somebody wrote over is put right.
    let wrong = json!({ "scheduling": { "nodeSelector": { "node.kubernetes.io/windows-build": "10.0.1" } } });
    stage
        .classes()
        .patch(
            "windows-20348-v2",
            &PatchParams::default(),
            &Patch::Merge(wrong),
        )
        .await?;
    wait_until("it is put right", PATIENCE, async || {
        let class = json!(stage.classes().get("windows-20348-v2").await?);
        let build = &class["scheduling"]["nodeSelector"]["node.kubernetes.io/windows-build"];
        Ok((build == "10.0.20348").then_some(()))
    })
    .await?;

    stage.remove_node("w").await?;
    stage.has_classes(&["windows-20348"]).await?;
    assert_eq!(stage.classes().get("windows-20348").await?.handler, "mine");
    wait_until("nothing is counted", PATIENCE, async || {
        let metrics = stage.metrics();
        let none = "medley_placement_runtime_classes{state=\"served\"} 0";
        Ok(metrics.contains(none).then_some(()))
    })
    .await?;
    stage.end().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_without_a_handler_that_others_have_is_told() -> anyhow::Result<()> {
    let stage = Stage::new(
        "
pools:
  - {name: ready, arch: amd64, os: windows, windowsBuild: 10.0.20348, runtimeHandlers: [runhcs-wcow-process, runhcs-wcow-hypervisor-17763]}
  - {name: late, arch: amd64, os: windows, windowsBuild: 10.0.20348, runtimeHandlers: [runhcs-wcow-process]}
",
    )
    .await?;
    stage.has_classes(&["windows-20348"]).await?;
    let said = stage.told("late-1", "RuntimeHandlerMissing").await?;
    assert!(said.contains("runhcs-wcow-hypervisor-17763"), "{said}");
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
