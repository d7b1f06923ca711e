//! Deleting a HyperConverged: its SSP, all objects created for it, and its metrics are removed.

use anyhow::Context as _;
use api::hco::SSP_NAME;
use fleet::operators::names;
use golden_images::alerts::ALERTS;
use kube::api::DeleteParams;
use parking_lot::Mutex;
use runtime::Manager;
use serde_json::json;
use testkit::{TestCluster, wait_until};

use crate::stage::{IMAGES, Stage, WAIT_TIMEOUT, template};

/// The series of a metric.
fn series(metrics: &str, metric: &str) -> Vec<String> {
    let lines = metrics.lines().filter(|line| !line.starts_with('#'));
    lines
        .filter(|line| line.split(['{', ' ']).next() == Some(metric))
        .map(str::to_owned)
        .collect()
}

const SUPPORTED: &str = golden_images::hco::metrics::SUPPORTED;
const ANNOTATED: &str = golden_images::hco::metrics::ANNOTATED;
const ENABLED: &str = golden_images::hco::metrics::ENABLED;

#[tokio::test(flavor = "multi_thread")]
async fn deleting_hyperconverged_removes_everything() -> anyhow::Result<()> {
    let cluster = TestCluster::controlled().await?;
    let stage = Stage::on(cluster, &["amd64", "amd64", "arm64"]).await?;
    let collector = Manager::new(stage.cluster.client());
    if !stage.cluster.has_controllers() {
        let options = controlplane::Options {
            root_ca: stage.cluster.root_ca().to_owned(),
        };
        controlplane::start(&collector, &options).await;
    }
    stage.work(&IMAGES).await?;
    let templates = [
        template("fedora", Some("amd64,arm64")),
        template("plain", None),
        template("mainframe", Some("s390x")),
    ];
    stage.ask_for(&templates).await?;
    stage
        .has_crons(&[
            "fedora-image-cron-amd64",
            "fedora-image-cron-arm64",
            "plain-image-cron",
        ])
        .await?;
    stage.import("fedora-image-cron-amd64").await?;
    stage.points_to("fedora", "fedora-amd64").await?;
    let metrics = wait_until("metrics are exposed", WAIT_TIMEOUT, async || {
        let metrics = stage.metrics();
        Ok((series(&metrics, SUPPORTED).len() == 2).then_some(metrics))
    })
    .await?;
    let value = |metric: &str, template: &str| {
        let all = series(&metrics, metric);
        let named = format!("data_import_cron_name=\"{template}-image-cron\"");
        let line = all.iter().find(|line| line.contains(&named));
        line.and_then(|line| line.rsplit(' ').next())
            .map(str::to_owned)
    };
    assert_eq!(value(SUPPORTED, "fedora").as_deref(), Some("1.0"));
    assert_eq!(value(SUPPORTED, "mainframe").as_deref(), Some("0.0"));
    assert_eq!(value(SUPPORTED, "plain"), None);
    assert_eq!(value(ANNOTATED, "plain").as_deref(), Some("0.0"));
    assert_eq!(series(&metrics, ENABLED).len(), 1);
    // Alerts query these metrics, or those of imports.
    for alert in &ALERTS[..3] {
        let metric = alert.expression.split(' ').next().unwrap_or_default();
        assert!(!series(&metrics, metric).is_empty(), "{}", alert.name);
    }

    // Deleting a template removes its series.
    stage
        .ask(json!({ "dataImportCronTemplates": templates[..2] }))
        .await?;
    wait_until(
        "the series of mainframe are removed",
        WAIT_TIMEOUT,
        async || {
            let metrics = series(&stage.metrics(), SUPPORTED);
            Ok((metrics.len() == 1).then_some(()))
        },
    )
    .await?;

    stage
        .hyperconvergeds()
        .delete(names::HYPERCONVERGED, &DeleteParams::default())
        .await?;
    let last = Mutex::new(None);
    let gone = wait_until("the SSP is gone", WAIT_TIMEOUT, async || {
        let found = stage.ssps().get_opt(SSP_NAME).await?;
        let gone = found.is_none();
        *last.lock() = found;
        Ok(gone.then_some(()))
    })
    .await;
    gone.with_context(|| format!("it is {:#}", json!(*last.lock())))?;
    stage.has_crons(&[]).await?;
    stage.has_sources(&[]).await?;
    let metrics = stage.metrics();
    for metric in [SUPPORTED, ANNOTATED, ENABLED] {
        assert_eq!(series(&metrics, metric), Vec::<String>::new(), "{metric}");
    }
    stage.end().await;
    collector.stop().await;
    Ok(())
}
