//! The stories of the proposal.

use std::collections::BTreeMap;

use placement::runtime_classes;
use placement::{Cluster, Decision, Knowledge, Moment, RuntimeClass, Settings, decide};
use serde_json::{Value, json};
use testkit::wait_until;

use crate::stage::{PATIENCE, Stage, waits_for};

const CLASSES: [&str; 4] = [
    "windows-17763",
    "windows-17763-hyperv",
    "windows-20348",
    "windows-20348-hyperv",
];

/// Story 1: one line in a pod says which Windows, and selectors and tolerations come with it.
#[tokio::test(flavor = "multi_thread")]
async fn a_class_takes_a_pod_to_its_build() -> anyhow::Result<()> {
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

/// Story 2: the older Windows on the newer nodes, in a virtual machine; and when the old nodes are gone.
#[tokio::test(flavor = "multi_thread")]
async fn an_older_build_moves_to_newer_nodes() -> anyhow::Result<()> {
    let stage = Stage::mixed().await?;
    stage.has_classes(&CLASSES).await?;
    let hyper_v = json!({ "runtimeClassName": "windows-17763-hyperv" });
    stage.run("tried", "windows", hyper_v).await?;
    assert_eq!(stage.runs_on("tried").await?, "win2022-1");
    let old = json!({ "runtimeClassName": "windows-17763" });
    stage.run("old", "windows", old.clone()).await?;
    assert_eq!(stage.runs_on("old").await?, "win2019-1");

    // The last node goes. A class that is in use stays and says so, and its successor has another name:
    // the handler of a class cannot be changed.
    stage.remove_node("win2019-1").await?;
    let after = [&CLASSES[..], &["windows-17763-v2"]].concat();
    stage.has_classes(&after).await?;
    let said = stage.told("windows-17763", "RuntimeClassKept").await?;
    assert!(said.contains("1 pod uses it"), "{said}");
    let kept = stage.classes().get("windows-17763").await?;
    let why = kept.metadata.annotations.unwrap_or_default();
    assert_eq!(why["medley.dev/placement-reason"], said);
    stage
        .run(
            "next",
            "windows",
            json!({ "runtimeClassName": "windows-17763-v2" }),
        )
        .await?;
    assert_eq!(stage.runs_on("next").await?, "win2022-1");

    // With the last pod the class goes, too.
    stage.remove("old").await?;
    stage.has_classes(&after[1..]).await?;
    stage.end().await;
    Ok(())
}

/// Story 2, when nobody uses the old class any more: the same name, on the new nodes.
#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_nobody_uses_goes_on_under_hyper_v() -> anyhow::Result<()> {
    let stage = Stage::mixed().await?;
    stage.has_classes(&CLASSES).await?;
    stage.remove_node("win2019-1").await?;
    wait_until("the class has another handler", PATIENCE, async || {
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

/// Story 3: of an index, the entry that the handler is for. An image for the older Windows alone runs under
/// the class for it on the very node that refuses it otherwise.
#[tokio::test(flavor = "multi_thread")]
async fn a_handler_chooses_from_an_index() -> anyhow::Result<()> {
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
    // A host after 2025 runs no image of 2019 or 2022 without Hyper-V, and with the class just that one.
    for class in ["windows-26200", "windows-17763"] {
        stage
            .run(class, "windows", json!({ "runtimeClassName": class }))
            .await?;
        assert_eq!(stage.runs_on(class).await?, "win2025-1");
    }
    stage.end().await;
    Ok(())
}

/// Without Medley a pod goes where there is room, and stays there in vain; placed, it runs.
#[tokio::test(flavor = "multi_thread")]
async fn a_placed_pod_runs_where_an_unplaced_one_does_not() -> anyhow::Result<()> {
    let stage = Stage::mixed().await?;
    stage.has_classes(&CLASSES).await?;
    let amd =
        json!({ "nodeSelector": { "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux" } });
    stage.run("unplaced", "arm64-only", amd).await?;
    let pod = stage
        .until("unplaced", "it is pulled in vain", |pod| {
            waits_for(pod) == "ImagePullBackOff"
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
        let known = BTreeMap::from([(image, Knowledge::Platforms(platforms))]);
        let (cluster, classes) = seen(&stage).await?;
        let settings = Settings::default();
        let Decision::Place(placement) = decide(&pod, &known, &classes, &cluster, &settings) else {
            anyhow::bail!("{name} is not placed");
        };
        assert!(placement.write(&mut pod, Moment::Admission));
        stage.make(pod).await?;
        assert_eq!(stage.runs_on(name).await?, node);
    }
    stage.end().await;
    Ok(())
}

/// What a decision is made of.
async fn seen(stage: &Stage) -> anyhow::Result<(Cluster, BTreeMap<String, RuntimeClass>)> {
    let nodes: kube::Api<k8s_openapi::api::core::v1::Node> = kube::Api::all(stage.client());
    let nodes = nodes.list(&kube::api::ListParams::default()).await?;
    let cluster: Cluster = nodes
        .iter()
        .map(|node| placement::Node::read(&json!(node)))
        .collect();
    let classes = stage
        .classes()
        .list(&kube::api::ListParams::default())
        .await?;
    let classes: Vec<Value> = classes.iter().map(|class| json!(class)).collect();
    assert!(runtime_classes::obsolete(&cluster, &classes).is_empty());
    let read = classes.iter().map(RuntimeClass::read);
    Ok((cluster, read.map(|it| (it.name.clone(), it)).collect()))
}
