//! Upgrade from a version without architectures, and downgrade: DataSources that the user created, of both kinds.

use api::cdi::{DataSource, Source};
use fleet::storage::snapshots::VolumeSnapshot;
use kube::Api;
use kube::api::PostParams;
use serde_json::json;

use crate::stage::{HOME, IMAGES, Stage, claim, template};
use crate::switch::Guard;

/// What the user created.
#[derive(Clone, Copy)]
enum Made {
    Claim,
    Snapshot,
}

impl Made {
    /// Creates it, and a DataSource for it.
    async fn make(self, stage: &Stage) -> anyhow::Result<Source> {
        let params = PostParams::default();
        let source = match self {
            Self::Claim => {
                stage
                    .claims()
                    .create(&params, &claim("my-disk", &json!({}))?)
                    .await?;
                Source::of_pvc(HOME, "my-disk")
            }
            Self::Snapshot => {
                let api: Api<VolumeSnapshot> = Api::namespaced(stage.cluster.client(), HOME);
                let snapshot = serde_json::from_value(json!({
                    "apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshot",
                    "metadata": { "name": "my-disk", "namespace": HOME },
                    "spec": { "source": { "persistentVolumeClaimName": "elsewhere" } },
                }))?;
                api.create(&params, &snapshot).await?;
                Source::of_snapshot(HOME, "my-disk")
            }
        };
        let mut own = DataSource::default();
        own.metadata.name = Some("fedora".to_owned());
        own.spec.source = source.clone();
        stage.sources().create(&params, &own).await?;
        Ok(source)
    }
}

async fn there_and_back(made: Made) -> anyhow::Result<()> {
    let stage = Stage::new(&["amd64", "amd64", "arm64"], &[]).await?;
    let source = made.make(&stage).await?;
    let guard = Guard::of(&stage, "fedora").await?;
    stage
        .ask_for(&[template("fedora", Some("amd64,arm64"))])
        .await?;
    stage.work(&IMAGES).await?;
    // Existing images count for the default architecture, and are not imported over.
    stage.points_to("fedora", "fedora-amd64").await?;
    let default = stage.sources().get("fedora-amd64").await?;
    assert_eq!(default.spec.source, source);
    stage.has_crons(&["fedora-image-cron-arm64"]).await?;
    stage.import("fedora-image-cron-arm64").await?;
    // An older version: it ignores annotations, cluster architectures and the switch.
    stage
        .ask(json!({
            "enableMultiArchBootImageImport": false,
            "dataImportCronTemplates": [template("fedora", None)],
        }))
        .await?;
    let fedora = stage
        .source("fedora", "stands for what it stood for", |it| {
            it.spec.source == source
        })
        .await?;
    assert_eq!(fedora.spec.source.data_source, None);
    stage.has_crons(&[]).await?;
    stage.has_sources(&["fedora"]).await?;
    guard.held()?;
    stage.end().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn user_volume_survives_upgrade_and_downgrade() -> anyhow::Result<()> {
    there_and_back(Made::Claim).await
}

#[tokio::test(flavor = "multi_thread")]
async fn user_snapshot_survives_upgrade_and_downgrade() -> anyhow::Result<()> {
    there_and_back(Made::Snapshot).await
}
