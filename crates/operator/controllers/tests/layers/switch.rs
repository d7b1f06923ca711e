//! Multi-arch is enabled and disabled: existing DataSources never break, and no objects are left over.

use std::sync::Arc;

use anyhow::ensure;
use futures::StreamExt as _;
use kube::api::{WatchEvent, WatchParams};
use parking_lot::Mutex;
use serde_json::json;

use crate::stage::{BOTH, IMAGES, Stage, is_ready, template};

/// Watches a DataSource: once ready, it must stay ready.
pub(crate) struct Guard {
    broken: Arc<Mutex<Option<String>>>,
    watching: tokio::task::JoinHandle<()>,
}

impl Guard {
    /// Starts watching; the DataSource is ready.
    pub(crate) async fn of(stage: &Stage, name: &str) -> anyhow::Result<Self> {
        let found = stage.source(name, "can be used", is_ready).await?;
        let from = found.metadata.resource_version.unwrap_or_default();
        let params = WatchParams::default().fields(&format!("metadata.name={name}"));
        let events = stage.sources().watch(&params, &from).await?;
        let broken: Arc<Mutex<Option<String>>> = Arc::default();
        let note = Arc::clone(&broken);
        let watching = tokio::spawn(async move {
            let mut events = events.boxed();
            while let Some(event) = events.next().await {
                let usable = match &event {
                    Ok(WatchEvent::Added(source) | WatchEvent::Modified(source)) => {
                        is_ready(source)
                    }
                    Ok(WatchEvent::Bookmark(_)) => true,
                    _ => false,
                };
                if !usable {
                    note.lock().get_or_insert(format!("{event:?}"));
                }
            }
        });
        Ok(Self { broken, watching })
    }

    /// Fails if it was not ready all the time.
    pub(crate) fn held(self) -> anyhow::Result<()> {
        self.watching.abort();
        let broken = self.broken.lock().take();
        ensure!(broken.is_none(), "it could not be used: {broken:?}");
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn enabling_and_disabling_leaves_no_objects() -> anyhow::Result<()> {
    let stage = Stage::new(&["amd64", "amd64", "arm64"], &IMAGES).await?;
    stage
        .build_in(&[template("fedora", Some("amd64,arm64"))], &[])
        .await?;
    stage.has_crons(&["fedora-image-cron"]).await?;
    stage.has_sources(&["fedora"]).await?;
    let old = stage.import("fedora-image-cron").await?;
    let guard = Guard::of(&stage, "fedora").await?;

    // On: the old import stays in use until the new one is ready.
    stage
        .ask(json!({ "enableMultiArchBootImageImport": true }))
        .await?;
    let all = ["fedora-image-cron", BOTH[0], BOTH[1]];
    stage.has_crons(&all).await?;
    stage.import(BOTH[1]).await?;
    stage.stands_for("fedora", &old).await?;
    let amd64 = stage.import(BOTH[0]).await?;
    stage.points_to("fedora", "fedora-amd64").await?;
    stage.stands_for("fedora", &amd64).await?;
    stage.has_crons(&BOTH).await?;

    // Off: the same in reverse.
    stage
        .ask(json!({ "enableMultiArchBootImageImport": false }))
        .await?;
    stage
        .has_crons(&["fedora-image-cron", "fedora-image-cron-amd64"])
        .await?;
    let new = stage.import("fedora-image-cron").await?;
    stage.has_crons(&["fedora-image-cron"]).await?;
    stage.has_sources(&["fedora"]).await?;
    let fedora = stage.stands_for("fedora", &new).await?;
    assert_eq!(fedora.spec.source.data_source, None);
    guard.held()?;
    stage.end().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn restart_writes_nothing() -> anyhow::Result<()> {
    let stage = Stage::mixed().await?;
    let ssp = stage
        .ssp("it is deployed", |ssp| {
            let status = ssp.status.as_ref();
            status.is_some_and(|it| it.rest.get("phase") == Some(&json!("Deployed")))
        })
        .await?;
    let before = stage.crons().get(BOTH[0]).await?.metadata.resource_version;
    // A restart reconciles everything.
    stage.work(&IMAGES).await?;
    stage
        .ask(json!({ "commonTemplatesNamespace": "elsewhere" }))
        .await?;
    let after = stage
        .ssp("the change has passed through", |ssp| {
            ssp.spec.common_templates.namespace.as_deref() == Some("elsewhere")
        })
        .await?;
    assert_eq!(after.metadata.uid, ssp.metadata.uid);
    let now = stage.crons().get(BOTH[0]).await?.metadata.resource_version;
    assert_eq!(now, before);
    stage.end().await;
    Ok(())
}
