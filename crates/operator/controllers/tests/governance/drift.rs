//! After a plan is applied: external edits, changed inputs, edit wars, disabled options.

use std::time::{Duration, Instant};

use api::advisor::{DriftClass, Operation, Phase};
use k8s_openapi::api::core::v1::Event;
use kube::Api;
use kube::api::{ListParams, ObjectMeta};
use serde_json::json;
use testkit::wait_until;

use crate::stage::{LOAD_AWARE, Stage, WAIT_TIMEOUT, condition, item, states};

const DESCHEDULER: &str = "enable-load-aware-descheduling";

/// Applies the plan, without PSI, on a cluster without other operators.
async fn in_force(stage: &Stage) -> anyhow::Result<()> {
    let options = json!({ "loadAware": { "enablePSIMetrics": false } });
    stage
        .edit(LOAD_AWARE, json!({ "action": "Apply", "options": options }))
        .await?;
    stage.reaches(LOAD_AWARE, Phase::Completed).await?;
    Ok(())
}

/// B10, its end: a manual revert is recognised.
#[tokio::test(flavor = "multi_thread")]
async fn external_edit_is_reported_and_not_reverted() -> anyhow::Result<()> {
    let stage = Stage::quiet().await?;
    in_force(&stage).await?;
    stage
        .edit_descheduler("kubectl-edit", json!({ "evictionLimits": { "total": 50 } }))
        .await?;
    let status = stage.reaches(LOAD_AWARE, Phase::Drifted).await?;
    assert_eq!(condition(&status, "Drifted").0, "True");
    assert_eq!(condition(&status, "Drifted").1, "DriftDetected");
    assert_eq!(condition(&status, "ProfileActive").0, "False");
    let [drift] = status.drift.as_slice() else {
        panic!("one field drifted, but there is {:?}", status.drift);
    };
    assert_eq!(drift.path, "spec.evictionLimits.total");
    assert_eq!(
        (drift.applied.clone(), drift.live.clone()),
        (Some(json!(5)), Some(json!(50)))
    );
    assert_eq!(drift.manager.as_deref(), Some("kubectl-edit"));
    assert!(drift.time.is_some());
    assert_eq!(drift.class, DriftClass::ExternalEdit);
    wait_until("the metric shows drift", WAIT_TIMEOUT, async || {
        let metric = "medley_governance_drift{config=\"load-aware-rebalancing\"} 1";
        Ok(stage.metrics().contains(metric).then_some(()))
    })
    .await?;
    let live = stage.descheduler().await?.unwrap_or_default();
    assert_eq!(
        live["spec"]["evictionLimits"]["total"], 50,
        "inform, do not fight"
    );

    // A manual revert is recognised.
    stage
        .edit_descheduler("kubectl-edit", json!({ "evictionLimits": { "total": 5 } }))
        .await?;
    let status = stage.reaches(LOAD_AWARE, Phase::Completed).await?;
    assert!(status.drift.is_empty());
    assert_eq!(
        item(&status, DESCHEDULER).message.as_deref(),
        Some("In desired state")
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn drift_is_corrected_after_approval() -> anyhow::Result<()> {
    let stage = Stage::quiet().await?;
    in_force(&stage).await?;
    stage
        .edit_descheduler("kubectl-edit", json!({ "mode": "Predictive" }))
        .await?;
    stage.reaches(LOAD_AWARE, Phase::Drifted).await?;
    stage
        .edit(LOAD_AWARE, json!({ "action": "DryRun" }))
        .await?;
    let status = stage.reaches(LOAD_AWARE, Phase::ReviewRequired).await?;
    let planned = item(&status, DESCHEDULER);
    assert!(
        planned
            .diff
            .clone()
            .unwrap_or_default()
            .contains("-  mode: Predictive\n+  mode: Automatic")
    );
    // The field was ours: taking it back needs no consent beyond the approval.
    assert!(
        planned.takeovers.iter().all(|takeover| takeover.reclaimed),
        "{:?}",
        planned.takeovers
    );
    stage.edit(LOAD_AWARE, json!({ "action": "Apply" })).await?;
    stage.reaches(LOAD_AWARE, Phase::Completed).await?;
    let live = stage.descheduler().await?.unwrap_or_default();
    assert_eq!(live["spec"]["mode"], "Automatic");
    Ok(())
}

/// Fields that another manager adds beside ours belong to that manager.
#[tokio::test(flavor = "multi_thread")]
async fn fields_of_other_managers_are_not_drift() -> anyhow::Result<()> {
    let stage = Stage::quiet().await?;
    in_force(&stage).await?;
    let before = stage.config(LOAD_AWARE).await?.metadata.resource_version;
    let theirs = json!({ "logLevel": "Debug", "profileCustomizations": { "podLifetime": "24h" } });
    stage.edit_descheduler("kubectl-edit", theirs).await?;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let config = stage.config(LOAD_AWARE).await?;
    assert_eq!(
        config.status.and_then(|status| status.phase),
        Some(Phase::Completed)
    );
    assert_eq!(
        config.metadata.resource_version, before,
        "an idle configuration is not written"
    );
    Ok(())
}

/// B11: HCO 5 -> 10 while Completed with action Apply: review is forced, nothing is applied; and back.
#[tokio::test(flavor = "multi_thread")]
async fn changed_input_forces_review_until_reverted() -> anyhow::Result<()> {
    let stage = Stage::quiet().await?;
    stage.migrations(5).await?;
    in_force(&stage).await?;
    stage.migrations(10).await?;
    let status = stage.reaches(LOAD_AWARE, Phase::ReviewRequired).await?;
    assert_eq!(
        condition(&status, "InputDependencyDrift"),
        (
            "True".to_owned(),
            "InputChanged".to_owned(),
            "Input dependency changed: HCO parallelMigrationsPerCluster changed (scaled 5 -> 10)"
                .to_owned()
        )
    );
    let diff = item(&status, DESCHEDULER).diff.clone().unwrap_or_default();
    assert!(diff.contains("-    total: 5\n+    total: 10"), "{diff}");
    let [changed] = status.drift.as_slice() else {
        panic!("one field would change, but there is {:?}", status.drift);
    };
    assert_eq!(changed.class, DriftClass::InputChange);
    assert_eq!(changed.path, "spec.evictionLimits.total");
    assert_eq!(
        (changed.applied.clone(), changed.live.clone()),
        (Some(json!(5)), Some(json!(10)))
    );
    let live = stage.descheduler().await?.unwrap_or_default();
    assert_eq!(
        live["spec"]["evictionLimits"]["total"], 5,
        "nothing is applied unreviewed"
    );

    stage.migrations(5).await?;
    let status = stage.reaches(LOAD_AWARE, Phase::Completed).await?;
    assert_eq!(
        condition(&status, "InputDependencyDrift").1,
        "DriftResolved"
    );

    stage.migrations(10).await?;
    stage.reaches(LOAD_AWARE, Phase::ReviewRequired).await?;
    // Any edit of the specification acknowledges.
    stage
        .edit(LOAD_AWARE, json!({ "waitTimeout": "2h" }))
        .await?;
    let status = stage.reaches(LOAD_AWARE, Phase::Completed).await?;
    assert_eq!(condition(&status, "InputDependencyDrift").0, "False");
    let live = stage.descheduler().await?.unwrap_or_default();
    assert_eq!(live["spec"]["evictionLimits"]["total"], 10);
    Ok(())
}

/// B12: editing the derived value on the target is an external edit, not a changed input.
#[tokio::test(flavor = "multi_thread")]
async fn edited_target_is_not_a_changed_input() -> anyhow::Result<()> {
    let stage = Stage::quiet().await?;
    stage.migrations(5).await?;
    in_force(&stage).await?;
    stage
        .edit_descheduler("kubectl-edit", json!({ "evictionLimits": { "total": 9 } }))
        .await?;
    let status = stage.reaches(LOAD_AWARE, Phase::Drifted).await?;
    assert_ne!(condition(&status, "InputDependencyDrift").0, "True");
    Ok(())
}

/// Locks bypassed: drift is corrected, until another manager keeps reverting it.
#[tokio::test(flavor = "multi_thread")]
async fn bypass_corrects_drift_until_edit_war() -> anyhow::Result<()> {
    let stage = Stage::quiet().await?;
    in_force(&stage).await?;
    stage
        .edit(LOAD_AWARE, json!({ "bypassOptimisticLock": true }))
        .await?;
    stage.reaches(LOAD_AWARE, Phase::Completed).await?;
    let begun = Instant::now();
    for _ in 0..5 {
        stage
            .edit_descheduler("argocd", json!({ "mode": "Predictive" }))
            .await?;
        wait_until("the drift is corrected", WAIT_TIMEOUT, async || {
            let live = stage.descheduler().await?.unwrap_or_default();
            Ok((live["spec"]["mode"] == "Automatic").then_some(()))
        })
        .await?;
        stage.reaches(LOAD_AWARE, Phase::Completed).await?;
    }
    // The limit is five corrections a minute: the sixth edit is a fight.
    stage
        .edit_descheduler("argocd", json!({ "mode": "Predictive" }))
        .await?;
    let status = stage
        .until("correction is paused", LOAD_AWARE, |status| {
            status.phase == Some(Phase::Drifted)
                && status
                    .enforcement
                    .as_ref()
                    .is_some_and(|known| known.paused)
        })
        .await?;
    assert!(begun.elapsed() < Duration::from_mins(1));
    assert_eq!(
        status
            .enforcement
            .and_then(|known| known.against)
            .as_deref(),
        Some("argocd")
    );
    let live = stage.descheduler().await?.unwrap_or_default();
    assert_eq!(live["spec"]["mode"], "Predictive");
    // An edit of the spec resumes correction.
    stage
        .edit(LOAD_AWARE, json!({ "waitTimeout": "3h" }))
        .await?;
    stage.reaches(LOAD_AWARE, Phase::Completed).await?;
    let live = stage.descheduler().await?.unwrap_or_default();
    assert_eq!(live["spec"]["mode"], "Automatic");
    Ok(())
}

/// B15: disabling an option removes its object, as an item that can be reviewed.
#[tokio::test(flavor = "multi_thread")]
async fn disabled_option_removes_its_object() -> anyhow::Result<()> {
    let stage = Stage::lively(2).await?;
    stage.edit(LOAD_AWARE, json!({ "action": "Apply" })).await?;
    stage.reaches(LOAD_AWARE, Phase::Completed).await?;
    assert!(stage.has_machine_config("99-worker-psi-karg").await?);
    let options = json!({ "loadAware": { "enablePSIMetrics": false } });
    stage
        .edit(
            LOAD_AWARE,
            json!({ "action": "DryRun", "options": options }),
        )
        .await?;
    let status = stage.reaches(LOAD_AWARE, Phase::ReviewRequired).await?;
    let removal = item(&status, "remove-enable-psi-metrics");
    assert_eq!(removal.operation, Operation::Delete);
    assert!(
        removal
            .diff
            .clone()
            .unwrap_or_default()
            .contains("+++ /dev/null")
    );
    assert_eq!(
        status.impact_severity,
        Some(api::advisor::Impact::High),
        "nodes reboot for it"
    );
    assert!(stage.has_machine_config("99-worker-psi-karg").await?);
    stage.edit(LOAD_AWARE, json!({ "action": "Apply" })).await?;
    // The descheduler operator rejects its profile without PSI and stays degraded, which is reported; this test checks
    // the removal only.
    wait_until("the MachineConfig is gone", WAIT_TIMEOUT, async || {
        Ok((!stage.has_machine_config("99-worker-psi-karg").await?).then_some(()))
    })
    .await?;
    Ok(())
}

/// Transitions emit events.
#[tokio::test(flavor = "multi_thread")]
async fn transitions_emit_events() -> anyhow::Result<()> {
    let stage = Stage::quiet().await?;
    in_force(&stage).await?;
    stage
        .edit_descheduler("kubectl-edit", json!({ "mode": "Predictive" }))
        .await?;
    let status = stage.reaches(LOAD_AWARE, Phase::Drifted).await?;
    assert_eq!(states(&status).len(), 1);
    let events: Api<Event> = Api::namespaced(stage.cluster.client(), "default");
    for (kind, reason) in [
        ("Normal", "InProgress"),
        ("Normal", "Completed"),
        ("Warning", "Drifted"),
    ] {
        wait_until(&format!("an event {reason}"), WAIT_TIMEOUT, async || {
            let listed = events.list(&ListParams::default()).await?;
            let found = listed.items.into_iter().find(|event| {
                event.reason.as_deref() == Some(reason)
                    && event.type_.as_deref() == Some(kind)
                    && event.involved_object.name.as_deref() == Some(LOAD_AWARE)
            });
            Ok(found.map(|event| event.metadata).map(|_: ObjectMeta| ()))
        })
        .await?;
    }
    Ok(())
}
