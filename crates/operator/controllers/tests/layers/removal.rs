//! What goes with a HyperConverged: its SSP, everything that was made for it, and what was told.

use anyhow::Context as _;
use api::hco::SSP_NAME;
use fleet::operators::names;
use golden_images::alerts::ALERTS;
use kube::api::DeleteParams;
use parking_lot::Mutex;
use runtime::Manager;
use serde_json::json;
use testkit::{TestCluster, wait_until};

use crate::stage::{IMAGES, PATIENCE, Stage, template};

/// The series of a metric that is told.
fn series(told: &str, metric: &str) -> Vec<String> {
    let lines = told.lines().filter(|line| !line.starts_with('#'));
    lines
        .filter(|line| line.split(['{', ' ']).next() == Some(metric))
        .map(str::to_owned)
        .collect()
}

const SUPPORTED: &str = golden_images::hco::metrics::SUPPORTED;
const ANNOTATED: &str = golden_images::hco::metrics::ANNOTATED;
const ENABLED: &str = golden_images::hco::metrics::ENABLED;

#[tokio::test(flavor = "multi_thread")]
async fn everything_goes_with_the_hyperconverged() -> anyhow::Result<()> {
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
    let told = wait_until("metrics are told", PATIENCE, async || {
        let told = stage.metrics();
        Ok((series(&told, SUPPORTED).len() == 2).then_some(told))
    })
    .await?;
    let value = |metric: &str, template: &str| {
        let all = series(&told, metric);
        let named = format!("data_import_cron_name=\"{template}-image-cron\"");
        let line = all.iter().find(|line| line.contains(&named));
        line.and_then(|line| line.rsplit(' ').next())
            .map(str::to_owned)
    };
    assert_eq!(value(SUPPORTED, "fedora").as_deref(), Some("1.0"));
    assert_eq!(value(SUPPORTED, "mainframe").as_deref(), Some("0.0"));
    assert_eq!(value(SUPPORTED, "plain"), None);
    assert_eq!(value(ANNOTATED, "plain").as_deref(), Some("0.0"));
    assert_eq!(series(&told, ENABLED).len(), 1);
    // Alerts look at what is told here, or at what tells about imports.
    for alert in &ALERTS[..3] {
        let metric = alert.expression.split(' ').next().unwrap_or_default();
        assert!(!series(&told, metric).is_empty(), "{}", alert.name);
    }

    // A template that goes takes along what was told of it.
    stage
        .ask(json!({ "dataImportCronTemplates": templates[..2] }))
        .await?;
    wait_until("mainframe is not told of", PATIENCE, async || {
        let told = series(&stage.metrics(), SUPPORTED);
        Ok((told.len() == 1).then_some(()))
    })
    .await?;

    stage
        .hyperconvergeds()
        .delete(names::HYPERCONVERGED, &DeleteParams::default())
        .await?;
    let last = Mutex::new(None);
    let gone = wait_until("the SSP is gone", PATIENCE, async || {
        let found = stage.ssps().get_opt(SSP_NAME).await?;
        let gone = found.is_none();
        *last.lock() = found;
        Ok(gone.then_some(()))
    })
    .await;
    gone.with_context(|| format!("it is {:#}", json!(*last.lock())))?;
    stage.has_crons(&[]).await?;
    stage.has_sources(&[]).await?;
    let told = stage.metrics();
    for metric in [SUPPORTED, ANNOTATED, ENABLED] {
        assert_eq!(series(&told, metric), Vec::<String>::new(), "{metric}");
    }
    stage.end().await;
    collector.stop().await;
    Ok(())
}
