//! Alerts look at what the operator tells, and at nothing else.

use api::advisor::Phase;
use governance::alerts::ALERTS;
use serde_json::json;
use testkit::wait_until;

use crate::stage::{LOAD_AWARE, PATIENCE, Stage};

#[tokio::test(flavor = "multi_thread")]
async fn alerts_look_at_metrics_that_there_are() -> anyhow::Result<()> {
    let stage = Stage::quiet().await?;
    stage
        .edit(LOAD_AWARE, json!({ "action": "DryRun" }))
        .await?;
    stage.reaches(LOAD_AWARE, Phase::ReviewRequired).await?;
    for alert in ALERTS {
        for metric in alert.metrics() {
            let what = format!("{metric} of {} is told", alert.name);
            wait_until(&what, PATIENCE, async || {
                let told = stage.metrics();
                let mut series = told.lines().filter_map(|line| line.split_once('{'));
                Ok(series.any(|(name, _)| name == metric).then_some(()))
            })
            .await?;
        }
    }
    Ok(())
}
