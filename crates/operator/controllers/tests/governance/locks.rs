//! Only a plan made from the current state, and with consent, is applied.

use api::advisor::{ItemState, Phase};
use serde_json::json;
use testkit::until;

use crate::stage::{LOAD_AWARE, Stage, WAIT_TIMEOUT, condition, item, states};

const DESCHEDULER: &str = "enable-load-aware-descheduling";

fn without_psi() -> serde_json::Value {
    json!({ "loadAware": { "enablePSIMetrics": false } })
}

/// The proposal's safety lock: plan, change the target, approve; nothing is applied.
#[tokio::test(flavor = "multi_thread")]
async fn stale_plan_fails_with_the_change() -> anyhow::Result<()> {
    let stage = Stage::quiet().await?;
    stage
        .create_descheduler(
            "virt-team",
            json!({ "profiles": ["AffinityAndTaints"], "deschedulingIntervalSeconds": 600 }),
        )
        .await?;
    stage
        .edit(
            LOAD_AWARE,
            json!({ "action": "DryRun", "options": without_psi() }),
        )
        .await?;
    stage.reaches(LOAD_AWARE, Phase::ReviewRequired).await?;
    stage
        .edit_descheduler(
            "kubectl-edit",
            json!({ "deschedulingIntervalSeconds": 900 }),
        )
        .await?;
    let status = stage
        .until("the plan is reported as stale", LOAD_AWARE, |status| {
            condition(status, "PlanStale").0 == "True"
        })
        .await?;
    assert_eq!(status.phase, Some(Phase::ReviewRequired));
    let approval = json!({ "takeovers": [{ "item": DESCHEDULER }] });
    stage
        .edit(
            LOAD_AWARE,
            json!({ "action": "Apply", "approval": approval }),
        )
        .await?;
    let status = stage.reaches(LOAD_AWARE, Phase::Failed).await?;
    let (on, reason, message) = condition(&status, "Failed");
    assert_eq!((on.as_str(), reason.as_str()), ("True", "PlanStale"));
    assert!(
        message.starts_with(
            "Plan is stale: target resources have been modified since plan generation."
        ),
        "{message}"
    );
    assert!(
        message.contains("spec.deschedulingIntervalSeconds changed from 600 to 900"),
        "{message}"
    );
    assert_eq!(states(&status), [ItemState::Pending]);
    let live = stage.descheduler().await?.unwrap_or_default();
    assert_eq!(live["spec"]["profiles"], json!(["AffinityAndTaints"]));

    // A new plan can be applied.
    stage
        .edit(LOAD_AWARE, json!({ "action": "DryRun" }))
        .await?;
    let status = stage.reaches(LOAD_AWARE, Phase::ReviewRequired).await?;
    assert_eq!(condition(&status, "PlanStale").0, "False");
    stage.edit(LOAD_AWARE, json!({ "action": "Apply" })).await?;
    stage.reaches(LOAD_AWARE, Phase::Completed).await?;
    let live = stage.descheduler().await?.unwrap_or_default();
    assert_eq!(
        live["spec"]["profiles"],
        json!(["AffinityAndTaints", "KubeVirtRelieveAndMigrate"])
    );
    Ok(())
}

/// B16: another manager owns spec.profiles: this is reported, and nothing is changed without consent.
#[tokio::test(flavor = "multi_thread")]
async fn takeover_requires_consent() -> anyhow::Result<()> {
    let stage = Stage::quiet().await?;
    stage
        .create_descheduler(
            "argocd",
            json!({ "profiles": ["LongLifecycle"], "deschedulingIntervalSeconds": 60 }),
        )
        .await?;
    // The descheduler operator writes its status once.
    until(
        &stage.deschedulers(),
        "cluster",
        "is accepted",
        WAIT_TIMEOUT,
        |live| !live.data["status"]["conditions"].is_null(),
    )
    .await?;
    let before = stage.descheduler().await?;
    stage
        .edit(
            LOAD_AWARE,
            json!({ "action": "Apply", "options": without_psi() }),
        )
        .await?;
    let status = stage.reaches(LOAD_AWARE, Phase::ReviewRequired).await?;
    let planned = item(&status, DESCHEDULER);
    let takeover = planned
        .takeovers
        .iter()
        .find(|takeover| takeover.path == "spec.profiles")
        .unwrap_or_else(|| panic!("spec.profiles is not listed in {:?}", planned.takeovers));
    assert_eq!(takeover.manager, "argocd");
    assert_eq!(takeover.live, Some(json!(["LongLifecycle"])));
    assert_eq!(takeover.wanted, Some(json!(["KubeVirtRelieveAndMigrate"])));
    assert!(takeover.since.is_some());
    let (on, reason, message) = condition(&status, "Approved");
    assert_eq!(
        (on.as_str(), reason.as_str()),
        ("False", "TakeoverWithoutConsent")
    );
    assert!(
        message.contains("would take spec.profiles from manager \"argocd\""),
        "{message}"
    );
    assert_eq!(
        stage.descheduler().await?,
        before,
        "the target is unchanged, ownership and all"
    );

    // Consent for one path does not cover others.
    let some = json!({ "takeovers": [{ "item": DESCHEDULER, "path": "spec.mode" }] });
    stage.edit(LOAD_AWARE, json!({ "approval": some })).await?;
    stage
        .until("it is still withheld", LOAD_AWARE, |status| {
            status.phase == Some(Phase::ReviewRequired)
                && condition(status, "Approved").1 == "TakeoverWithoutConsent"
        })
        .await?;
    assert_eq!(stage.descheduler().await?, before);

    let all = json!({ "takeovers": [{ "item": DESCHEDULER }] });
    stage.edit(LOAD_AWARE, json!({ "approval": all })).await?;
    stage.reaches(LOAD_AWARE, Phase::Completed).await?;
    let live = stage.descheduler().await?.unwrap_or_default();
    assert_eq!(
        live["spec"]["profiles"],
        json!(["KubeVirtRelieveAndMigrate"])
    );
    Ok(())
}

/// B5: one patch changes options and sets Apply: the plan that was reviewed before never runs.
#[tokio::test(flavor = "multi_thread")]
async fn options_and_apply_in_one_patch_never_run_the_old_plan() -> anyhow::Result<()> {
    let stage = Stage::quiet().await?;
    stage
        .edit(
            LOAD_AWARE,
            json!({ "action": "DryRun", "options": without_psi() }),
        )
        .await?;
    stage.reaches(LOAD_AWARE, Phase::ReviewRequired).await?;
    let options =
        json!({ "loadAware": { "enablePSIMetrics": false, "deschedulingIntervalSeconds": 777 } });
    stage
        .edit(LOAD_AWARE, json!({ "action": "Apply", "options": options }))
        .await?;
    let status = stage.reaches(LOAD_AWARE, Phase::Completed).await?;
    let live = stage.descheduler().await?.unwrap_or_default();
    assert_eq!(live["spec"]["deschedulingIntervalSeconds"], 777);
    // Created with it: the spec was never different.
    assert_eq!(live["metadata"]["generation"], 1);
    assert_eq!(
        status.revision,
        Some(1),
        "one plan was carried out, not two"
    );
    Ok(())
}

/// An approval by digest is valid for that plan only.
#[tokio::test(flavor = "multi_thread")]
async fn digest_approves_only_the_reviewed_plan() -> anyhow::Result<()> {
    let stage = Stage::quiet().await?;
    stage
        .edit(
            LOAD_AWARE,
            json!({ "action": "DryRun", "options": without_psi() }),
        )
        .await?;
    let reviewed = stage
        .reaches(LOAD_AWARE, Phase::ReviewRequired)
        .await?
        .plan_digest;
    // Approved, but for other options: another plan.
    let options = json!({ "loadAware": { "enablePSIMetrics": false, "mode": "Predictive" } });
    let approval = json!({ "planDigest": reviewed });
    stage
        .edit(
            LOAD_AWARE,
            json!({ "action": "Apply", "options": options, "approval": approval }),
        )
        .await?;
    let status = stage
        .until("another plan is not carried out", LOAD_AWARE, |status| {
            status.phase == Some(Phase::ReviewRequired)
                && condition(status, "Approved").1 == "OtherPlanApproved"
        })
        .await?;
    assert!(stage.descheduler().await?.is_none());
    let approval = json!({ "planDigest": status.plan_digest });
    stage
        .edit(LOAD_AWARE, json!({ "approval": approval }))
        .await?;
    stage.reaches(LOAD_AWARE, Phase::Completed).await?;
    let live = stage.descheduler().await?.unwrap_or_default();
    assert_eq!(live["spec"]["mode"], "Predictive");
    Ok(())
}

/// A rejected plan reports the rejection, and does not run when the action is set to Apply.
#[tokio::test(flavor = "multi_thread")]
async fn rejected_plan_is_not_applied() -> anyhow::Result<()> {
    let stage = Stage::quiet().await?;
    stage
        .edit(
            LOAD_AWARE,
            json!({ "action": "DryRun", "options": without_psi() }),
        )
        .await?;
    let plan = stage.reaches(LOAD_AWARE, Phase::ReviewRequired).await?;
    let rejected = json!({ "planDigest": plan.plan_digest, "reason": "not before the freeze" });
    stage
        .edit(LOAD_AWARE, json!({ "approval": { "rejected": rejected } }))
        .await?;
    let status = stage
        .until("the rejection shows", LOAD_AWARE, |status| {
            condition(status, "Approved").1 == "Rejected"
        })
        .await?;
    assert!(
        condition(&status, "Approved")
            .2
            .contains("not before the freeze")
    );
    stage.edit(LOAD_AWARE, json!({ "action": "Apply" })).await?;
    let status = stage.reaches(LOAD_AWARE, Phase::ReviewRequired).await?;
    assert_eq!(condition(&status, "Approved").1, "Rejected");
    assert!(stage.descheduler().await?.is_none());
    Ok(())
}

/// Items can be approved one by one; their dependencies are included, the others wait.
#[tokio::test(flavor = "multi_thread")]
async fn only_approved_items_are_applied() -> anyhow::Result<()> {
    let stage = Stage::lively(2).await?;
    stage
        .edit(LOAD_AWARE, json!({ "action": "DryRun" }))
        .await?;
    stage.reaches(LOAD_AWARE, Phase::ReviewRequired).await?;
    let approval = json!({ "items": ["enable-psi-metrics"] });
    stage
        .edit(
            LOAD_AWARE,
            json!({ "action": "Apply", "approval": approval }),
        )
        .await?;
    let status = stage
        .until(
            "the first item is in force, the second waits",
            LOAD_AWARE,
            |status| {
                status.phase == Some(Phase::ReviewRequired)
                    && status
                        .applied
                        .iter()
                        .any(|applied| applied.name == "enable-psi-metrics")
            },
        )
        .await?;
    assert!(stage.has_machine_config("99-worker-psi-karg").await?);
    assert!(stage.descheduler().await?.is_none());
    assert_eq!(item(&status, DESCHEDULER).state, ItemState::Pending);
    stage
        .edit(
            LOAD_AWARE,
            json!({ "approval": { "items": [DESCHEDULER] } }),
        )
        .await?;
    stage.reaches(LOAD_AWARE, Phase::Completed).await?;
    assert!(stage.descheduler().await?.is_some());
    Ok(())
}

/// B3, B4: an item times out: Abort leaves the others pending, Continue proceeds.
#[tokio::test(flavor = "multi_thread")]
async fn failure_policy_decides_after_failed_item() -> anyhow::Result<()> {
    for (policy, phase, second) in [
        ("Abort", Phase::Failed, ItemState::Pending),
        ("Continue", Phase::CompletedWithErrors, ItemState::Completed),
    ] {
        let stage = Stage::quiet().await?;
        stage
            .edit(
                LOAD_AWARE,
                json!({ "action": "Apply", "failurePolicy": policy, "waitTimeout": "1s" }),
            )
            .await?;
        // No rollout happens: the item times out, by a timer and not by an event.
        let status = stage.reaches(LOAD_AWARE, phase).await?;
        assert_eq!(states(&status), [ItemState::Failed, second], "{policy}");
        let message = item(&status, "enable-psi-metrics")
            .message
            .clone()
            .unwrap_or_default();
        assert!(
            message.starts_with("Timeout waiting for resource to become healthy (waited "),
            "{message}"
        );
        assert_eq!(
            stage.descheduler().await?.is_some(),
            second == ItemState::Completed
        );
    }
    Ok(())
}
