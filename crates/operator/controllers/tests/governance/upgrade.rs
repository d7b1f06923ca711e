//! Story 4: a new version of the operator changes nothing, asks for review, or finds the change done.

use std::sync::Arc;

use api::advisor::{Phase, ProfileOptions};
use governance::profile::{KindUse, Prerequisite, ProfileInfo, Refusal};
use governance::{Intents, Profile, Registry, Snapshot};
use serde_json::json;

use crate::stage::{LOAD_AWARE, Stage, condition, item};

const DESCHEDULER: &str = "enable-load-aware-descheduling";

/// The profile of a later version: it limits evictions to ten.
struct Later(Arc<dyn Profile>);

impl Profile for Later {
    fn about(&self) -> &ProfileInfo {
        self.0.about()
    }

    fn uses(&self) -> &[KindUse] {
        self.0.uses()
    }

    fn prerequisites(&self, options: &ProfileOptions) -> Vec<Prerequisite> {
        self.0.prerequisites(options)
    }

    fn intents(&self, options: &ProfileOptions, snapshot: &Snapshot) -> Result<Intents, Refusal> {
        let mut intents = self.0.intents(options, snapshot)?;
        for intent in &mut intents.items {
            if intent.name == DESCHEDULER {
                intent.desired["spec"]["evictionLimits"]["total"] = json!(10);
            }
        }
        Ok(intents)
    }
}

fn later() -> anyhow::Result<Registry> {
    let none: [&str; 0] = [];
    let registry = Registry::standard(&none)?;
    let profiles = registry
        .iter()
        .map(|profile| {
            if profile.about().name == LOAD_AWARE {
                Arc::new(Later(Arc::clone(profile)))
            } else {
                Arc::clone(profile)
            }
        })
        .collect();
    Ok(Registry::new(profiles))
}

async fn applied_by_the_old_version() -> anyhow::Result<Arc<Stage>> {
    let stage = Stage::quiet().await?;
    let options = json!({ "loadAware": { "enablePSIMetrics": false } });
    stage
        .edit(LOAD_AWARE, json!({ "action": "Apply", "options": options }))
        .await?;
    let status = stage.reaches(LOAD_AWARE, Phase::Completed).await?;
    assert_eq!(status.operator_version.as_deref(), Some("v0.1.30"));
    Ok(stage)
}

/// Scenario A: the logic changed; this is reported, reviewed and approved.
#[tokio::test(flavor = "multi_thread")]
async fn changed_logic_waits_for_review() -> anyhow::Result<()> {
    let stage = applied_by_the_old_version().await?;
    stage.operator_with("v0.1.31", later()?).await?;
    let status = stage
        .reaches(LOAD_AWARE, Phase::CompletedWithUpgrade)
        .await?;
    let (on, reason, message) = condition(&status, "UpgradeAvailable");
    assert_eq!((on.as_str(), reason.as_str()), ("True", "LogicChanged"));
    assert!(
        message.contains("spec.evictionLimits.total from 5 to 10"),
        "{message}"
    );
    assert_eq!(status.operator_version.as_deref(), Some("v0.1.30"));
    let live = stage.descheduler().await?.unwrap_or_default();
    assert_eq!(
        live["spec"]["evictionLimits"]["total"], 5,
        "nothing changes by an upgrade"
    );

    stage
        .edit(LOAD_AWARE, json!({ "action": "DryRun" }))
        .await?;
    let status = stage.reaches(LOAD_AWARE, Phase::ReviewRequired).await?;
    let diff = item(&status, DESCHEDULER).diff.clone().unwrap_or_default();
    assert!(diff.contains("-    total: 5\n+    total: 10"), "{diff}");
    stage.edit(LOAD_AWARE, json!({ "action": "Apply" })).await?;
    let status = stage.reaches(LOAD_AWARE, Phase::Completed).await?;
    assert_eq!(status.operator_version.as_deref(), Some("v0.1.31"));
    assert_eq!(condition(&status, "UpgradeAvailable").0, "False");
    let live = stage.descheduler().await?.unwrap_or_default();
    assert_eq!(live["spec"]["evictionLimits"]["total"], 10);
    Ok(())
}

/// Scenario B: the same plan; no review, although its impact was reduced by applying it (B13).
#[tokio::test(flavor = "multi_thread")]
async fn unchanged_logic_needs_no_review() -> anyhow::Result<()> {
    let stage = applied_by_the_old_version().await?;
    stage.operator("v0.1.31").await?;
    let status = stage
        .until("the version is taken over", LOAD_AWARE, |status| {
            status.operator_version.as_deref() == Some("v0.1.31")
        })
        .await?;
    assert_eq!(status.phase, Some(Phase::Completed));
    assert_eq!(condition(&status, "UpgradeAvailable").1, "NoLogicChange");
    Ok(())
}

/// Scenario C: the user makes the change of the new version manually (B13).
#[tokio::test(flavor = "multi_thread")]
async fn manual_alignment_is_recognised() -> anyhow::Result<()> {
    let stage = applied_by_the_old_version().await?;
    stage.operator_with("v0.1.31", later()?).await?;
    stage
        .reaches(LOAD_AWARE, Phase::CompletedWithUpgrade)
        .await?;
    stage
        .edit_descheduler(
            "kubectl-patch",
            json!({ "evictionLimits": { "total": 10 } }),
        )
        .await?;
    let status = stage.reaches(LOAD_AWARE, Phase::Completed).await?;
    assert_eq!(condition(&status, "UpgradeAvailable").0, "False");
    assert_eq!(condition(&status, "UpgradeAvailable").1, "ManuallyAligned");
    assert_eq!(status.operator_version.as_deref(), Some("v0.1.31"));
    Ok(())
}

/// B18: while an upgrade waits for review, drift is still detected.
#[tokio::test(flavor = "multi_thread")]
async fn drift_is_seen_while_an_upgrade_waits() -> anyhow::Result<()> {
    let stage = applied_by_the_old_version().await?;
    stage.operator_with("v0.1.31", later()?).await?;
    stage
        .reaches(LOAD_AWARE, Phase::CompletedWithUpgrade)
        .await?;
    stage
        .edit_descheduler("kubectl-edit", json!({ "mode": "Predictive" }))
        .await?;
    let status = stage.reaches(LOAD_AWARE, Phase::Drifted).await?;
    assert!(status.drift.iter().any(|drift| drift.path == "spec.mode"));
    Ok(())
}
