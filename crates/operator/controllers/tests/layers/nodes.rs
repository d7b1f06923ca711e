//! Nodes come and go, and images with them.

use api::golden::names::UNWANTED_SINCE;
use golden_images::action::annotation;
use serde_json::{Value, json};
use testkit::wait_until;

use crate::stage::{BOTH, IMAGES, Stage, WAIT_TIMEOUT, template};

#[tokio::test(flavor = "multi_thread")]
async fn images_outlive_last_node_for_grace_period() -> anyhow::Result<()> {
    let stage = Stage::mixed().await?;
    stage.policy(json!({ "gracePeriod": "1h" })).await?;
    stage.remove_node("node-2").await?;
    let marked = |meta: &kube::api::ObjectMeta| annotation(meta, UNWANTED_SINCE).is_some();
    wait_until("the cron of arm64 is marked", WAIT_TIMEOUT, async || {
        let cron = stage.crons().get(BOTH[1]).await?;
        Ok(marked(&cron.metadata).then_some(()))
    })
    .await?;
    // The status shows when the images will be deleted.
    let state = wait_until(
        "the policy says when arm64 goes",
        WAIT_TIMEOUT,
        async || {
            let status = stage.policies().get("default").await?.status;
            let images = status.unwrap_or_default().images;
            let image = images.into_iter().find(|it| it.name == "fedora");
            let states = image.map(|it| it.architectures).unwrap_or_default();
            let state = states.into_iter().find(|it| it.architecture == "arm64");
            Ok(state.filter(|it| it.leaves_at.is_some()))
        },
    )
    .await?;
    assert_eq!(state.state, "Leaving");

    // A node comes back in time: nothing changes.
    stage.node("node-3", "arm64", "worker").await?;
    wait_until(
        "the cron of arm64 is not marked",
        WAIT_TIMEOUT,
        async || {
            let cron = stage.crons().get(BOTH[1]).await?;
            Ok((!marked(&cron.metadata)).then_some(()))
        },
    )
    .await?;
    stage.has_crons(&BOTH).await?;

    // It is removed for good, and only time passes.
    stage.policy(json!({ "gracePeriod": "2s" })).await?;
    stage.remove_node("node-3").await?;
    stage.has_crons(&BOTH[..1]).await?;
    stage.has_sources(&["fedora", "fedora-amd64"]).await?;
    stage.points_to("fedora", "fedora-amd64").await?;
    stage.end().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn data_source_moves_before_architecture_is_removed() -> anyhow::Result<()> {
    let stage = Stage::mixed().await?;
    stage.policy(json!({ "gracePeriod": "0s" })).await?;
    // The only node that runs virtual machines of the default architecture.
    stage.remove_node("node-1").await?;
    stage.points_to("fedora", "fedora-arm64").await?;
    stage.has_crons(&BOTH[1..]).await?;
    stage.has_sources(&["fedora", "fedora-arm64"]).await?;
    stage.end().await;
    Ok(())
}

/// The condition of the HyperConverged about its images.
async fn accepted(stage: &Stage) -> anyhow::Result<Value> {
    let seen = stage.seen().await?;
    let conditions = seen["conditions"].as_array().cloned().unwrap_or_default();
    let mut conditions = conditions.into_iter();
    let found = conditions.find(|it| it["type"] == "GoldenImagesAccepted");
    Ok(found.unwrap_or_default())
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_architecture_is_reported() -> anyhow::Result<()> {
    let stage = Stage::mixed().await?;
    stage.node("odd", "riscv64", "worker").await?;
    let condition = wait_until("it is reported", WAIT_TIMEOUT, async || {
        let condition = accepted(&stage).await?;
        Ok((condition["status"] == "False").then_some(condition))
    })
    .await?;
    assert_eq!(condition["reason"], "UnsupportedNodeArchitectures");
    stage.has_crons(&BOTH).await?;
    stage.remove_node("odd").await?;
    wait_until("it is taken back", WAIT_TIMEOUT, async || {
        let condition = accepted(&stage).await?;
        Ok((condition["status"] == "True").then_some(()))
    })
    .await?;
    stage.end().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn single_node_is_reported() -> anyhow::Result<()> {
    let stage = Stage::new(&[], &IMAGES).await?;
    stage.node("only", "arm64", "worker").await?;
    stage
        .ask_for(&[template("fedora", Some("amd64,arm64"))])
        .await?;
    stage.has_crons(&["fedora-image-cron"]).await?;
    let condition = wait_until("it is reported", WAIT_TIMEOUT, async || {
        let condition = accepted(&stage).await?;
        Ok((condition["status"] == "False").then_some(condition))
    })
    .await?;
    assert_eq!(condition["reason"], "SingleNode");
    stage.node("another", "amd64", "worker").await?;
    stage.has_crons(&BOTH).await?;
    stage.end().await;
    Ok(())
}
