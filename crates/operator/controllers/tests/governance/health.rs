//! What operators report after a plan is completed.

use api::advisor::{Phase, VirtPlatformConfigStatus};
use k8s_openapi::api::core::v1::Event;
use kube::Api;
use kube::api::{ListParams, Patch};
use serde_json::json;
use testkit::{by, wait_until};

use crate::stage::{LOAD_AWARE, Stage, WAIT_TIMEOUT, condition};

fn is_healthy(status: &VirtPlatformConfigStatus, expected: &str) -> bool {
    condition(status, "Healthy").0 == expected
}

/// Waits until the metric has this status, and no other.
async fn is_measured(stage: &Stage, expected: &str) -> anyhow::Result<()> {
    wait_until(
        &format!("the metric is {expected}"),
        WAIT_TIMEOUT,
        async || {
            let metrics = stage.metrics();
            let series = metrics.lines().filter(|line| {
                line.starts_with("medley_governance_health{") && line.contains(LOAD_AWARE)
            });
            let series: Vec<_> = series.collect();
            let status = format!("status=\"{expected}\"");
            Ok((series.len() == 1 && series[0].contains(&status)).then_some(()))
        },
    )
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn degraded_pool_is_unhealthy_after_completion() -> anyhow::Result<()> {
    let stage = Stage::quiet().await?;
    stage.edit(LOAD_AWARE, json!({ "action": "Apply" })).await?;
    stage
        .until("the first item waits", LOAD_AWARE, |status| {
            status.phase == Some(Phase::InProgress) && is_healthy(status, "Unknown")
        })
        .await?;
    stage.rolled_out("99-worker-psi-karg", 3, 3).await?;
    stage
        .until("it is in force and works", LOAD_AWARE, |status| {
            status.phase == Some(Phase::Completed) && is_healthy(status, "True")
        })
        .await?;
    is_measured(&stage, "True").await?;

    let degraded = |machines: i64| {
        let patch = json!({ "status": { "degradedMachineCount": machines } });
        let pools = stage.pools();
        async move {
            let patch = Patch::Merge(&patch);
            pools.patch_status("worker", &by("mco"), &patch).await
        }
    };
    degraded(1).await?;
    let status = stage
        .until("it does not work", LOAD_AWARE, |status| {
            is_healthy(status, "False")
        })
        .await?;
    assert_eq!(status.phase, Some(Phase::Completed), "it is in force");
    let (_, reason, message) = condition(&status, "Healthy");
    assert_eq!(reason, "Degraded");
    assert!(
        message.contains("MachineConfigPool 'worker' is degraded"),
        "{message}"
    );
    is_measured(&stage, "False").await?;

    degraded(0).await?;
    stage
        .until("it works again", LOAD_AWARE, |status| {
            is_healthy(status, "True")
        })
        .await?;
    is_measured(&stage, "True").await?;
    let events: Api<Event> = Api::all(stage.cluster.client());
    for (reason, kind) in [("Unhealthy", "Warning"), ("Healthy", "Normal")] {
        wait_until(reason, WAIT_TIMEOUT, async || {
            let listed = events.list(&ListParams::default()).await?;
            let mut listed = listed.items.iter();
            let found = listed.any(|event| {
                event.involved_object.name.as_deref() == Some(LOAD_AWARE)
                    && event.reason.as_deref() == Some(reason)
                    && event.type_.as_deref() == Some(kind)
            });
            Ok(found.then_some(()))
        })
        .await?;
    }
    Ok(())
}
