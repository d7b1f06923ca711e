//! Three user reports that motivated this feature.

use cpu_models::names::{
    MODEL_ANNOTATION, NODE_ANNOTATION, REASON_ANNOTATION, REQUESTED_MODEL_ANNOTATION,
};
use kube::ResourceExt as _;
use serde_json::json;

use crate::stage::{Stage, best_match, is_in, model};

/// Four generations of Intel; of the newest there is one node.
const MIXED: &str = "
pools:
  - {name: sky, arch: amd64, count: 2, cpu: {generation: skylake}}
  - {name: cascade, arch: amd64, count: 2, cpu: {generation: cascadelake}}
  - {name: ice, arch: amd64, count: 2, cpu: {generation: icelake}}
  - {name: sapphire, arch: amd64, cpu: {generation: sapphirerapids}}
";

/// "I'm SURPRISED to encounter that host-model migrations are always pending."
#[tokio::test(flavor = "multi_thread")]
async fn vm_on_unique_node_can_migrate() -> anyhow::Result<()> {
    let stage = Stage::new(MIXED).await?;
    stage
        .machine("surprised", json!({ "model": "host-model" }), "sapphire")
        .await?;
    let surprised = stage.runs("surprised").await?;
    assert!(is_in(&surprised, "sapphire"));
    assert!(
        stage.migrate("surprised").await.is_err(),
        "no other node has the model of this host"
    );

    stage.machine("free", best_match(), "sapphire").await?;
    let free = stage.runs("free").await?;
    assert!(is_in(&free, "sapphire"), "{:?}", free.node_name());
    let chosen = model(&free).to_owned();
    assert!(chosen.starts_with("Icelake-Server"), "{chosen}");
    let annotations = free.annotations();
    assert_eq!(annotations[MODEL_ANNOTATION], chosen);
    assert_eq!(annotations[REQUESTED_MODEL_ANNOTATION], "best-match-model");
    assert_eq!(annotations[NODE_ANNOTATION], "sapphire-1");
    assert_eq!(annotations[REASON_ANNOTATION], "BestMatch");
    let moved = stage.migrate("free").await?;
    assert!(is_in(&moved, "ice"), "{:?}", moved.node_name());
    assert_eq!(model(&moved), chosen);
    stage.wait_for_event("free", "CpuModelChosen").await?;
    stage.end().await;
    Ok(())
}

/// "I set the CPU model to be Opteron_G1 because it is supported in all the cluster nodes."
#[tokio::test(flavor = "multi_thread")]
async fn newer_model_with_enough_nodes_is_preferred() -> anyhow::Result<()> {
    let stage = Stage::new(
        "
pools:
  - {name: naples, arch: amd64, count: 3, cpu: {generation: naples}}
  - {name: milan, arch: amd64, count: 3, cpu: {generation: milan}}
",
    )
    .await?;
    // Nothing is obsolete: nodes offer the oldest models.
    stage.configure(json!({ "obsoleteCPUModels": {} })).await?;
    stage
        .machine("old", json!({ "model": "Opteron_G1" }), "milan")
        .await?;
    assert_eq!(
        model(&stage.runs("old").await?),
        "Opteron_G1",
        "an explicit model stays"
    );
    stage.machine("new", best_match(), "milan").await?;
    let new = stage.runs("new").await?;
    assert!(is_in(&new, "milan"));
    assert!(model(&new).starts_with("EPYC-Milan"), "{}", model(&new));
    stage.machine("wide", best_match(), "naples").await?;
    let wide = stage.runs("wide").await?;
    assert!(is_in(&wide, "naples"));
    assert!(model(&wide).starts_with("EPYC"), "{}", model(&wide));
    stage.migrate("new").await?;
    stage.migrate("wide").await?;
    stage.end().await;
    Ok(())
}

/// "My VMIs always land on the same set of nodes because some of the nodes don't support
/// Skylake-Client-IBRS."
#[tokio::test(flavor = "multi_thread")]
async fn nodes_without_newest_model_are_used() -> anyhow::Result<()> {
    let stage = Stage::new(
        "
pools:
  - {name: haswell, arch: amd64, count: 2, cpu: {generation: haswell}}
  - {name: sky, arch: amd64, count: 2, cpu: {generation: skylake}}
",
    )
    .await?;
    stage
        .machine(
            "bound",
            json!({ "model": "Skylake-Client-IBRS" }),
            "haswell",
        )
        .await?;
    assert!(
        is_in(&stage.runs("bound").await?, "sky"),
        "no other node supports it"
    );
    stage.machine("on-old", best_match(), "haswell").await?;
    let old = stage.runs("on-old").await?;
    assert!(is_in(&old, "haswell"), "{:?}", old.node_name());
    assert!(model(&old).starts_with("Haswell"), "{}", model(&old));
    stage.machine("on-new", best_match(), "sky").await?;
    let new = stage.runs("on-new").await?;
    assert!(is_in(&new, "sky"), "{:?}", new.node_name());
    assert!(model(&new).starts_with("Skylake-Server"), "{}", model(&new));
    stage.end().await;
    Ok(())
}
