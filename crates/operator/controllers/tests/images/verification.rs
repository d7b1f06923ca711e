//! Beside a running CDI: disks in use are verified against the registry, and nothing but the policy is written.

use api::cdi::{DataImportCron, DataSource, annotations, labels};
use api::golden::GoldenImagePolicy;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::Api;
use kube::api::{Patch, PostParams};
use serde_json::json;
use testkit::{by, until, wait_until};

use crate::genuine::{reported, scale};
use crate::library::{Fault, image_at};
use crate::stage::{NAMESPACE, Stage, WAIT_TIMEOUT, volume};

const CDI: &str = "cdi-deployment";
const CONDITION: &str = "ArchitecturesVerified";

/// Writes what CDI leaves after an import for arm64.
async fn imported_by_cdi(stage: &Stage, image: &str, digest: &str) -> anyhow::Result<()> {
    let cron = format!("{image}-image-cron-arm64");
    let name = volume(image, "arm64", digest);
    let claims: Api<PersistentVolumeClaim> = stage.api();
    let claim = serde_json::from_value(json!({
        "metadata": { "name": name, "labels": { labels::DATA_IMPORT_CRON: cron } },
        "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } },
        },
    }))?;
    claims.create(&PostParams::default(), &claim).await?;
    let crons: Api<DataImportCron> = stage.api();
    let patch = json!({ "metadata": { "annotations": { annotations::DESIRED_DIGEST: digest } } });
    let cdi = by("cdi-controller");
    crons.patch(&cron, &cdi, &Patch::Merge(&patch)).await?;
    let sources: Api<DataSource> = stage.api();
    let source = json!({
        "apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataSource",
        "metadata": {
            "name": format!("{image}-arm64"),
            "labels": {
                labels::ARCHITECTURE: "arm64", labels::DATA_SOURCE_NAME: image, labels::DATA_IMPORT_CRON: cron,
            },
        },
        "spec": { "source": { "pvc": { "namespace": NAMESPACE, "name": name } } },
    });
    let name = format!("{image}-arm64");
    sources
        .patch(&name, &cdi.clone().force(), &Patch::Apply(&source))
        .await?;
    Ok(())
}

/// Waits until a sample of the metric has this value.
async fn measured(stage: &Stage, image: &str, value: &str) -> anyhow::Result<()> {
    let of = format!("data_source=\"{image}-arm64\"");
    wait_until("the metric", WAIT_TIMEOUT, async || {
        let metrics = stage.metrics();
        let mut lines = metrics.lines();
        let found = lines.any(|line| {
            line.starts_with("medley_images_architecture_mismatch{")
                && line.contains(&of)
                && line.ends_with(&format!(" {value}"))
        });
        Ok(found.then_some(()))
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn disks_of_cdi_are_verified() -> anyhow::Result<()> {
    let mut library = crate::library::Library::published("1")?;
    library.publish_single("amd64-only", "amd64", 1)?;
    let server = library.serve().await?;
    let stage = Stage::new().await?;
    stage.trust(&[server.host()]).await?;
    scale(&stage.cluster, CDI, 1).await?;
    let url = image_at(&server.host(), "1");
    stage.cron("fedora", "arm64", &url).await?;
    imported_by_cdi(&stage, "fedora", &library.index("1")?).await?;
    stage.operator().await?;
    let message = reported(&stage.cluster, CONDITION, ("True", CONDITION)).await?;
    assert_eq!(
        message,
        "every disk in use is for the architecture of its DataSource"
    );
    measured(&stage, "fedora", "0.0").await?;

    // CDI imported the only manifest there is, which is for amd64.
    let url = image_at(&server.host(), "amd64-only");
    stage.cron("rhel", "arm64", &url).await?;
    imported_by_cdi(&stage, "rhel", &library.digest("amd64", 1)).await?;
    let mismatch = ("False", "ArchitectureMismatch");
    let message = reported(&stage.cluster, CONDITION, mismatch).await?;
    assert!(
        message.starts_with("kubevirt-os-images/rhel-arm64 for arm64: "),
        "{message}"
    );
    measured(&stage, "rhel", "1.0").await?;
    measured(&stage, "fedora", "0.0").await?;
    let policies: Api<GoldenImagePolicy> = Api::all(stage.cluster.client());
    let policy = policies.get("default").await?;
    let found: Vec<(String, String)> = policy
        .status
        .iter()
        .flat_map(|it| &it.verifications)
        .map(|it| (it.data_source.clone(), it.result.clone()))
        .collect();
    let expected = [("fedora-arm64", "Verified"), ("rhel-arm64", "Mismatch")];
    assert_eq!(
        found,
        expected.map(|(name, result)| (name.to_owned(), result.to_owned()))
    );
    wait_until("the event", WAIT_TIMEOUT, async || {
        let events = stage.events("rhel-image-cron-arm64").await?;
        let mut events = events.iter();
        Ok(events
            .any(|(reason, message)| {
                reason == "ArchitectureMismatch"
                    && message.starts_with("the disk of rhel-arm64 is not for arm64: ")
            })
            .then_some(()))
    })
    .await?;

    // The right one.
    imported_by_cdi(&stage, "rhel", &library.index("1")?).await?;
    reported(&stage.cluster, CONDITION, ("True", CONDITION)).await?;
    measured(&stage, "rhel", "0.0").await?;

    // Medley verifies its own imports when it makes them, and reports none.
    stage.policy(json!({ "mode": "Off" })).await?;
    until(
        &policies,
        "default",
        "no verifications",
        WAIT_TIMEOUT,
        |policy| {
            let status = policy.status.as_ref();
            status.is_some_and(|it| {
                it.verifications.is_empty() && it.conditions.iter().all(|it| it.type_ != CONDITION)
            })
        },
    )
    .await?;
    stage.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn registry_that_does_not_answer_verifies_nothing() -> anyhow::Result<()> {
    let library = crate::library::Library::published("1")?;
    let server = library.serve().await?;
    server.does(Some(Fault::Unauthorized));
    let stage = Stage::new().await?;
    stage.trust(&[server.host()]).await?;
    scale(&stage.cluster, CDI, 1).await?;
    stage
        .cron("fedora", "arm64", &image_at(&server.host(), "1"))
        .await?;
    imported_by_cdi(&stage, "fedora", &library.index("1")?).await?;
    stage.operator().await?;
    let unknown = ("False", "NotVerifiable");
    let message = reported(&stage.cluster, CONDITION, unknown).await?;
    assert!(message.contains("fedora-arm64 for arm64"), "{message}");
    let metrics = stage.metrics();
    assert!(
        !metrics.contains("medley_images_architecture_mismatch{"),
        "{metrics}"
    );
    stage.stop().await;
    Ok(())
}
