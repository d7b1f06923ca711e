//! Rollback: a plan like any other, which restores the previous values.

use api::advisor::{FIELD_MANAGER, Operation, Phase};
use controllers::governance::history;
use governance::record::PlanResult;
use serde_json::{Value, json};
use testkit::wait_until;

use crate::stage::{LOAD_AWARE, NAMESPACE, Stage, WAIT_TIMEOUT, condition, item};

/// Changed objects get their former values and owners; created objects are deleted.
#[tokio::test(flavor = "multi_thread")]
async fn rollback_restores_values_and_deletes_created_objects() -> anyhow::Result<()> {
    let stage = Stage::lively(2).await?;
    stage
        .create_descheduler(
            "cluster-admin",
            json!({ "profiles": ["LongLifecycle"], "deschedulingIntervalSeconds": 3600, "managementState": "Managed" }),
        )
        .await?;
    let before = stage.descheduler().await?.unwrap_or_default();
    let approval = json!({ "takeovers": [{ "item": "enable-load-aware-descheduling" }] });
    stage
        .edit(
            LOAD_AWARE,
            json!({ "action": "Apply", "approval": approval }),
        )
        .await?;
    stage.reaches(LOAD_AWARE, Phase::Completed).await?;
    let client = stage.cluster.client();
    let ended = wait_until("the history tells how it ended", WAIT_TIMEOUT, async || {
        let records = history::records(&client, NAMESPACE, LOAD_AWARE).await?;
        anyhow::ensure!(records.len() == 1, "there are {} entries", records.len());
        Ok(records.into_iter().find_map(|record| record.outcome))
    })
    .await?;
    assert_eq!(ended.result, PlanResult::Completed);

    stage
        .edit(
            LOAD_AWARE,
            json!({ "action": "DryRun", "rollbackTo": 1, "approval": null }),
        )
        .await?;
    let status = stage.reaches(LOAD_AWARE, Phase::ReviewRequired).await?;
    let restore = item(&status, "restore-enable-load-aware-descheduling");
    assert_eq!(restore.operation, Operation::Restore);
    let diff = restore.diff.clone().unwrap_or_default();
    assert!(diff.contains("+  - LongLifecycle"), "{diff}");
    assert!(diff.contains("-  - KubeVirtRelieveAndMigrate"), "{diff}");
    assert_eq!(
        item(&status, "remove-enable-psi-metrics").operation,
        Operation::Delete
    );
    assert_eq!(
        status.impact_severity,
        Some(api::advisor::Impact::High),
        "nodes reboot for it"
    );
    assert!(
        stage.has_machine_config("99-worker-psi-karg").await?,
        "an undoing is reviewed, too"
    );

    stage.edit(LOAD_AWARE, json!({ "action": "Apply" })).await?;
    let status = stage.reaches(LOAD_AWARE, Phase::Completed).await?;
    assert_eq!(status.rolled_back_to, Some(1));
    assert_eq!(condition(&status, "Completed").1, "RolledBack");
    assert!(!stage.has_machine_config("99-worker-psi-karg").await?);
    let after = stage.descheduler().await?.unwrap_or_default();
    // The descheduler operator writes `observedConfig` at any time.
    let of_users = |object: &Value| {
        let mut spec = object["spec"].clone();
        if let Some(fields) = spec.as_object_mut() {
            fields.remove("observedConfig");
        }
        spec
    };
    assert_eq!(of_users(&after), of_users(&before));
    let managers: Vec<_> = after["metadata"]["managedFields"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|entry| entry["fieldsV1"]["f:spec"].is_object())
        .filter_map(|entry| entry["manager"].as_str())
        .collect();
    assert!(
        !managers.contains(&FIELD_MANAGER),
        "nothing of the object is ours any more: {managers:?}"
    );
    assert!(
        managers.contains(&"cluster-admin"),
        "fields are given back: {managers:?}"
    );
    assert!(
        after["metadata"]["annotations"].is_null(),
        "{}",
        after["metadata"]["annotations"]
    );

    // The rollback is complete and stays so.
    let resting = stage.config(LOAD_AWARE).await?.metadata.resource_version;
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    assert_eq!(
        stage.config(LOAD_AWARE).await?.metadata.resource_version,
        resting
    );
    let records = history::records(&client, NAMESPACE, LOAD_AWARE).await?;
    assert_eq!(
        records.last().and_then(|record| record.rollback_to),
        Some(1)
    );

    // Requesting the profile again makes a new plan.
    stage
        .edit(
            LOAD_AWARE,
            json!({ "action": "DryRun", "rollbackTo": null }),
        )
        .await?;
    let status = stage.reaches(LOAD_AWARE, Phase::ReviewRequired).await?;
    assert_eq!(
        item(&status, "enable-psi-metrics").operation,
        Operation::Apply
    );
    Ok(())
}

/// A field that only we own, but that has its former value already, is given back before it is released: otherwise the
/// API server would remove it.
#[tokio::test(flavor = "multi_thread")]
async fn unchanged_values_survive_the_rollback() -> anyhow::Result<()> {
    let stage = Stage::quiet().await?;
    stage
        .create_descheduler(
            "cluster-admin",
            json!({ "profiles": ["LongLifecycle"], "deschedulingIntervalSeconds": 600 }),
        )
        .await?;
    let before = stage.descheduler().await?.unwrap_or_default();
    let approval = json!({ "takeovers": [{ "item": "enable-load-aware-descheduling" }] });
    // The first plan takes the interval from its owner, the second one sets the former value again.
    for (revision, seconds) in [(1, 777), (2, 600)] {
        let options = json!({ "loadAware": {
            "enablePSIMetrics": false, "deschedulingIntervalSeconds": seconds,
        } });
        stage
            .edit(
                LOAD_AWARE,
                json!({ "action": "Apply", "options": options, "approval": approval }),
            )
            .await?;
        stage
            .until("the plan is in force", LOAD_AWARE, |status| {
                status.phase == Some(Phase::Completed) && status.revision == Some(revision)
            })
            .await?;
    }
    stage.edit(LOAD_AWARE, json!({ "rollbackTo": 1 })).await?;
    stage
        .until("it is rolled back", LOAD_AWARE, |status| {
            status.phase == Some(Phase::Completed) && status.rolled_back_to == Some(1)
        })
        .await?;
    let after = stage.descheduler().await?.unwrap_or_default();
    assert_eq!(after["spec"], before["spec"]);
    let entries = after["metadata"]["managedFields"].as_array();
    let owners: Vec<_> = entries
        .into_iter()
        .flatten()
        .filter(|entry| entry["fieldsV1"]["f:spec"]["f:deschedulingIntervalSeconds"].is_object())
        .filter_map(|entry| entry["manager"].as_str())
        .collect();
    assert_eq!(owners, ["cluster-admin"]);
    Ok(())
}

/// An unknown revision is rejected with a list of the known ones.
#[tokio::test(flavor = "multi_thread")]
async fn unknown_revision_is_rejected() -> anyhow::Result<()> {
    let stage = Stage::quiet().await?;
    stage
        .edit(LOAD_AWARE, json!({ "action": "DryRun", "rollbackTo": 7 }))
        .await?;
    let status = stage.reaches(LOAD_AWARE, Phase::PrerequisiteFailed).await?;
    let message = condition(&status, "PrerequisiteFailed").2;
    assert_eq!(
        message,
        "Invalid config: spec.rollbackTo: 7 is not in the history; there is none"
    );
    Ok(())
}

/// B19: the history keeps ten plans, and those needed to roll back what is in force.
#[tokio::test(flavor = "multi_thread")]
async fn history_keeps_ten_plans_and_those_in_force() -> anyhow::Result<()> {
    let stage = Stage::quiet().await?;
    for round in 0..13 {
        let options = json!({ "loadAware": {
            "enablePSIMetrics": false, "deschedulingIntervalSeconds": 100 + round,
        } });
        stage
            .edit(LOAD_AWARE, json!({ "action": "Apply", "options": options }))
            .await?;
        stage
            .until("the plan is in force", LOAD_AWARE, |status| {
                status.phase == Some(Phase::Completed)
                    && status.revision == Some(i64::from(round) + 1)
            })
            .await?;
    }
    let client = stage.cluster.client();
    let kept = wait_until("old entries are deleted", WAIT_TIMEOUT, async || {
        let records = history::records(&client, NAMESPACE, LOAD_AWARE).await?;
        let kept: Vec<_> = records.iter().map(|record| record.revision).collect();
        Ok((kept.len() <= 11).then_some(kept))
    })
    .await?;
    assert_eq!(kept, [1, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13]);
    Ok(())
}
