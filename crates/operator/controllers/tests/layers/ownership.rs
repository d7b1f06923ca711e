//! The layers above imports beside running genuine operators: they write nothing but the status of the policy.

use api::golden::GoldenImagePolicy;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use serde_json::json;
use testkit::TestCluster;

use crate::genuine::{reported, scale};
use crate::stage::{BOTH, IMAGES, Stage, template};

const ASSISTS: (&str, &str) = ("False", "UpstreamOperatorRuns");
const MANAGES: (&str, &str) = ("True", "Managing");

async fn policy(stage: &Stage) -> anyhow::Result<()> {
    let object = json!({
        "apiVersion": "medley.dev/v1alpha1", "kind": "GoldenImagePolicy",
        "metadata": { "name": "default" }, "spec": {},
    });
    let api: Api<GoldenImagePolicy> = Api::all(stage.cluster.client());
    let params = PatchParams::apply("admin").force();
    api.patch("default", &params, &Patch::Apply(&object))
        .await?;
    Ok(())
}

/// Names and resource versions of everything that the layers write.
async fn versions(stage: &Stage) -> anyhow::Result<Vec<(String, Option<String>)>> {
    let all = ListParams::default();
    let mut found = Vec::new();
    for object in stage.hyperconvergeds().list(&all).await? {
        found.push((object.name_any(), object.resource_version()));
    }
    for object in stage.ssps().list(&all).await? {
        found.push((object.name_any(), object.resource_version()));
    }
    for object in stage.crons().list(&all).await? {
        found.push((object.name_any(), object.resource_version()));
    }
    for object in stage.sources().list(&all).await? {
        found.push((object.name_any(), object.resource_version()));
    }
    Ok(found)
}

#[tokio::test(flavor = "multi_thread")]
async fn layers_assist_beside_their_operators() -> anyhow::Result<()> {
    let stage = Stage::on(TestCluster::start().await?, &["amd64", "amd64", "arm64"]).await?;
    policy(&stage).await?;
    for name in ["hco-operator", "ssp-operator"] {
        scale(&stage.cluster, name, 1).await?;
    }
    stage
        .ask_for(&[template("fedora", Some("amd64,arm64"))])
        .await?;
    let before = versions(&stage).await?;
    stage.work(&IMAGES).await?;
    let message = reported(&stage.cluster, "ManagingTemplates", ASSISTS).await?;
    assert!(
        message.starts_with(
            "the HyperConverged cluster operator runs (Deployment genuine/hco-operator)"
        ),
        "{message}"
    );
    reported(&stage.cluster, "Managing", ASSISTS).await?;
    assert_eq!(versions(&stage).await?, before);

    // One layer after the other.
    scale(&stage.cluster, "hco-operator", 0).await?;
    reported(&stage.cluster, "ManagingTemplates", MANAGES).await?;
    stage.ssp("created", |_| true).await?;
    // The SSP operator, which would create the DataImportCrons, is only a Deployment here: that is reported.
    let message = reported(&stage.cluster, "SwitchFollowed", ("False", "SwitchDrift")).await?;
    assert!(message.contains("has no DataImportCron"), "{message}");
    stage.has_crons(&[]).await?;
    scale(&stage.cluster, "ssp-operator", 0).await?;
    reported(&stage.cluster, "Managing", MANAGES).await?;
    stage.has_crons(&BOTH).await?;
    for cron in BOTH {
        stage.import(cron).await?;
    }
    reported(&stage.cluster, "SwitchFollowed", ("True", "SwitchFollowed")).await?;
    reported(&stage.cluster, "Covered", ("True", "Covered")).await?;

    // Both come back.
    for name in ["ssp-operator", "hco-operator"] {
        scale(&stage.cluster, name, 1).await?;
    }
    reported(&stage.cluster, "ManagingTemplates", ASSISTS).await?;
    reported(&stage.cluster, "Managing", ASSISTS).await?;
    stage.ask_for(&[template("debian", Some("amd64"))]).await?;
    stage.has_crons(&BOTH).await?;
    // A node of an architecture that the image lacks.
    stage.node("node-z", "s390x", "worker").await?;
    let message = reported(&stage.cluster, "Covered", ("False", "ArchitecturesMissing")).await?;
    assert_eq!(
        message,
        "image kubevirt-os-images/fedora has no disk for s390x (1 node)"
    );
    stage.end().await;
    Ok(())
}
