//! Alerts query only metrics that the operator exposes.

use api::advisor::Phase;
use governance::alerts::ALERTS;
use serde_json::json;
use testkit::wait_until;

use crate::stage::{LOAD_AWARE, Stage, WAIT_TIMEOUT};

#[tokio::test(flavor = "multi_thread")]
async fn alerts_query_exposed_metrics() -> anyhow::Result<()> {
    let stage = Stage::quiet().await?;
    stage
        .edit(LOAD_AWARE, json!({ "action": "DryRun" }))
        .await?;
    stage.reaches(LOAD_AWARE, Phase::ReviewRequired).await?;
    for alert in ALERTS {
        for metric in alert.metrics() {
            let what = format!("{metric} of {} is exposed", alert.name);
            wait_until(&what, WAIT_TIMEOUT, async || {
                let metrics = stage.metrics();
                let mut series = metrics.lines().filter_map(|line| line.split_once('{'));
                Ok(series.any(|(name, _)| name == metric).then_some(()))
            })
            .await?;
        }
    }
    Ok(())
}
