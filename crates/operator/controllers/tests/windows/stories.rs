//! User stories of the proposal.

use std::collections::BTreeMap;

use placement::runtime_classes;
use placement::{ChangeStage, Cluster, Decision, Inspection, RuntimeClass, Settings, decide};
use serde_json::{Value, json};
use testkit::wait_until;

use crate::stage::{Stage, WAIT_TIMEOUT, waiting_reason};

const CLASSES: [&str; 4] = [
    "windows-17763",
    "windows-17763-hyperv",
    "windows-20348",
    "windows-20348-hyperv",
];

/// Story 1: one line in a pod selects the Windows build; the class adds node selector and tolerations.
#[tokio::test(flavor = "multi_thread")]
async fn class_schedules_pod_to_its_build() -> anyhow::Result<()> {
    let stage = Stage::mixed().await?;
    stage.has_classes(&CLASSES).await?;
    for (class, node) in [
        ("windows-17763", "win2019-1"),
        ("windows-20348", "win2022-1"),
    ] {
        let spec = json!({ "runtimeClassName": class });
        let pod = stage.run(class, "windows", spec).await?;
        let selector = pod
            .spec
            .unwrap_or_default()
            .node_selector
            .unwrap_or_default();
        assert_eq!(selector["kubernetes.io/os"], "windows");
        assert_eq!(stage.runs_on(class).await?, node);
    }
    stage.end().await;
    Ok(())
}

/// Story 2: the older Windows on newer nodes, in a virtual machine; also after the old nodes are removed.
#[tokio::test(flavor = "multi_thread")]
async fn older_build_moves_to_newer_nodes() -> anyhow::Result<()> {
    let stage = Stage::mixed().await?;
    stage.has_classes(&CLASSES).await?;
    let hyper_v = json!({ "runtimeClassName": "windows-17763-hyperv" });
    stage.run("tried", "windows", hyper_v).await?;
    assert_eq!(stage.runs_on("tried").await?, "win2022-1");
    let old = json!({ "runtimeClassName": "windows-17763" });
    stage.run("old", "windows", old.clone()).await?;
    assert_eq!(stage.runs_on("old").await?, "win2019-1");

    // The last node is removed. A class in use is kept with an annotation, and its successor has another name: the
    // handler of a class is immutable.
    stage.remove_node("win2019-1").await?;
    let after = [&CLASSES[..], &["windows-17763-v2"]].concat();
    stage.has_classes(&after).await?;
    let message = stage
        .wait_for_event("windows-17763", "RuntimeClassKept")
        .await?;
    assert!(message.contains("1 pod uses it"), "{message}");
    let kept = stage.classes().get("windows-17763").await?;
    let why = kept.metadata.annotations.unwrap_or_default();
    assert_eq!(why["medley.dev/placement-reason"], message);
    stage
        .run(
            "next",
            "windows",
            json!({ "runtimeClassName": "windows-17763-v2" }),
        )
        .await?;
    assert_eq!(stage.runs_on("next").await?, "win2022-1");

    // The class is deleted after its last pod.
    stage.remove("old").await?;
    stage.has_classes(&after[1..]).await?;
    stage.end().await;
    Ok(())
}

/// Story 2, with the old class unused: the same name, on the new nodes.
#[tokio::test(flavor = "multi_thread")]
async fn unused_class_name_moves_to_hyper_v() -> anyhow::Result<()> {
    let stage = Stage::mixed().await?;
    stage.has_classes(&CLASSES).await?;
    stage.remove_node("win2019-1").await?;
    wait_until("the class has another handler", WAIT_TIMEOUT, async || {
        let class = stage.classes().get_opt("windows-17763").await?;
        let handler = class.map(|class| class.handler);
        Ok((handler.as_deref() == Some("runhcs-wcow-hypervisor-17763")).then_some(()))
    })
    .await?;
    stage
        .run(
            "web",
            "windows",
            json!({ "runtimeClassName": "windows-17763" }),
        )
        .await?;
    assert_eq!(stage.runs_on("web").await?, "win2022-1");
    stage.end().await;
    Ok(())
}

/// Story 3: the handler selects the entry of an index. An image for the older Windows only runs under its class on the
/// node that otherwise rejects it.
#[tokio::test(flavor = "multi_thread")]
async fn handler_selects_index_entry() -> anyhow::Result<()> {
    let stage = Stage::new(
        "
pools:
  - {name: win2025, arch: amd64, os: windows, windowsBuild: 10.0.26200, runtimeHandlers: [runhcs-wcow-process, runhcs-wcow-hypervisor-17763]}
",
    )
    .await?;
    stage
        .has_classes(&["windows-17763", "windows-17763-hyperv", "windows-26200"])
        .await?;
    // A host newer than 2025 runs images of 2019 and 2022 only under Hyper-V, with their class.
    for class in ["windows-26200", "windows-17763"] {
        stage
            .run(class, "windows", json!({ "runtimeClassName": class }))
            .await?;
        assert_eq!(stage.runs_on(class).await?, "win2025-1");
    }
    stage.end().await;
    Ok(())
}

/// Without Medley a pod is scheduled to any node with capacity and may fail there; with placement it runs.
#[tokio::test(flavor = "multi_thread")]
async fn placed_pod_runs_where_unplaced_pod_fails() -> anyhow::Result<()> {
    let stage = Stage::mixed().await?;
    stage.has_classes(&CLASSES).await?;
    let amd =
        json!({ "nodeSelector": { "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux" } });
    stage.run("unplaced", "arm64-only", amd).await?;
    let pod = stage
        .until("unplaced", "it is pulled in vain", |pod| {
            waiting_reason(pod) == "ImagePullBackOff"
        })
        .await?;
    assert_eq!(pod["spec"]["nodeName"], "amd-1");

    for (name, image, platforms, node) in [
        ("arm", "arm64-only", &["linux/arm64"][..], "arm-1"),
        (
            "windows",
            "windows",
            &["windows(10.0.20348.2849)/amd64"],
            "win2022-1",
        ),
    ] {
        let image = stage.image(image);
        let mut pod = json!({
            "metadata": { "name": name },
            "spec": { "containers": [{ "name": "app", "image": image }] },
        });
        let platforms = platforms
            .iter()
            .map(|it| it.parse())
            .collect::<Result<_, _>>()?;
        let known = BTreeMap::from([(image, Inspection::Platforms(platforms))]);
        let (cluster, classes) = seen(&stage).await?;
        let settings = Settings::default();
        let Decision::Place(placement) = decide(&pod, &known, &classes, &cluster, &settings) else {
            anyhow::bail!("{name} is not placed");
        };
        assert!(placement.write(&mut pod, ChangeStage::Admission));
        stage.make(pod).await?;
        assert_eq!(stage.runs_on(name).await?, node);
    }
    stage.end().await;
    Ok(())
}

/// Inputs of a placement decision.
async fn seen(stage: &Stage) -> anyhow::Result<(Cluster, BTreeMap<String, RuntimeClass>)> {
    let nodes: kube::Api<k8s_openapi::api::core::v1::Node> = kube::Api::all(stage.client());
    let nodes = nodes.list(&kube::api::ListParams::default()).await?;
    let cluster: Cluster = nodes.iter().map(placement::Node::read).collect();
    let classes = stage
        .classes()
        .list(&kube::api::ListParams::default())
        .await?;
    let classes: Vec<Value> = classes.iter().map(|class| json!(class)).collect();
    assert!(runtime_classes::obsolete(&cluster, &classes).is_empty());
    let read = classes.iter().map(RuntimeClass::read);
    Ok((cluster, read.map(|it| (it.name.clone(), it)).collect()))
}
