//! The user stories of the proposal: review, auto-approval, hand-over; advertising; prerequisites.

use api::advisor::{Action, Impact, ItemState, Phase, names as marks};
use fleet::operators::{DeschedulerRelease, HyperConvergedVersion, Installed};
use kube::ResourceExt as _;
use kube::api::DeleteParams;
use serde_json::json;
use testkit::wait_until;

use crate::stage::{DENSITY, LOAD_AWARE, Stage, WAIT_TIMEOUT, condition, item, states};

/// Story 1: a plan is created, reviewed and applied item by item (B1, B2).
#[tokio::test(flavor = "multi_thread")]
async fn plan_is_reviewed_before_anything_changes() -> anyhow::Result<()> {
    let stage = Stage::quiet().await?;
    stage
        .create_descheduler(
            "kubectl-create",
            json!({
                "deschedulingIntervalSeconds": 30,
                "managementState": "Managed",
                "profiles": ["LongLifecycle"],
            }),
        )
        .await?;
    stage
        .edit(LOAD_AWARE, json!({ "action": "DryRun" }))
        .await?;
    let status = stage.reaches(LOAD_AWARE, Phase::ReviewRequired).await?;
    assert_eq!(
        condition(&status, "ReviewRequired"),
        (
            "True".to_owned(),
            "ReviewRequired".to_owned(),
            "Plan ready for review. Change action to 'Apply' to execute.".to_owned()
        )
    );
    assert_eq!(status.impact_severity, Some(Impact::High));
    assert!(
        status
            .source_snapshot_hash
            .as_deref()
            .is_some_and(|hash| hash.starts_with("sha256:"))
    );
    let names: Vec<_> = status.items.iter().map(|item| item.name.as_str()).collect();
    assert_eq!(
        names,
        ["enable-psi-metrics", "enable-load-aware-descheduling"]
    );
    assert_eq!(states(&status), [ItemState::Pending, ItemState::Pending]);
    let descheduler = item(&status, "enable-load-aware-descheduling");
    assert_eq!(descheduler.impact_severity, Some(Impact::Low));
    let diff = descheduler.diff.clone().unwrap_or_default();
    for line in [
        "-  deschedulingIntervalSeconds: 30",
        "+  deschedulingIntervalSeconds: 60",
        "+  evictionLimits:",
        "+    total: 5",
        "-  - LongLifecycle",
        "+  - KubeVirtRelieveAndMigrate",
        "+    devDeviationThresholds: AsymmetricLow",
    ] {
        assert!(
            diff.lines().any(|found| found == line),
            "{line:?} is not in\n{diff}"
        );
    }
    let psi = item(&status, "enable-psi-metrics");
    assert_eq!(psi.impact_severity, Some(Impact::High));
    assert_eq!(psi.managed_fields, ["spec.kernelArguments"]);
    let diff = psi.diff.clone().unwrap_or_default();
    assert!(
        diff.starts_with("--- /dev/null\n+++ 99-worker-psi-karg (MachineConfig)\n"),
        "{diff}"
    );
    assert!(diff.contains("\n+  - psi=1"), "{diff}");
    assert!(
        !stage.has_machine_config("99-worker-psi-karg").await?,
        "nothing is touched before approval"
    );

    // The user created the object: the plan lists the fields it takes over, and has consent.
    let taken: Vec<_> = descheduler
        .takeovers
        .iter()
        .map(|one| (one.path.as_str(), one.manager.as_str()))
        .collect();
    assert!(
        taken.contains(&("spec.profiles", "kubectl-create")),
        "{taken:?}"
    );
    let approval = json!({ "takeovers": [{ "item": "enable-load-aware-descheduling" }] });
    stage
        .edit(
            LOAD_AWARE,
            json!({ "action": "Apply", "approval": approval }),
        )
        .await?;
    let status = stage
        .until("the first item waits for its pool", LOAD_AWARE, |status| {
            status.phase == Some(Phase::InProgress)
                && states(status) == [ItemState::InProgress, ItemState::Pending]
        })
        .await?;
    assert_eq!(status.revision, Some(1));
    assert!(stage.has_machine_config("99-worker-psi-karg").await?);

    // While 2 of 10 nodes are updated, the second item is pending and its target unchanged.
    stage.rolled_out("99-worker-psi-karg", 2, 10).await?;
    let status = stage
        .until("2 of 10 nodes are updated", LOAD_AWARE, |status| {
            let message = item(status, "enable-psi-metrics")
                .message
                .clone()
                .unwrap_or_default();
            message.contains("2/10")
        })
        .await?;
    assert_eq!(states(&status), [ItemState::InProgress, ItemState::Pending]);
    let untouched = stage.descheduler().await?.unwrap_or_default();
    assert_eq!(untouched["spec"]["profiles"], json!(["LongLifecycle"]));

    stage.rolled_out("99-worker-psi-karg", 10, 10).await?;
    let status = stage.reaches(LOAD_AWARE, Phase::Completed).await?;
    assert_eq!(
        states(&status),
        [ItemState::Completed, ItemState::Completed]
    );
    assert_eq!(
        item(&status, "enable-psi-metrics").message.as_deref(),
        Some("MachineConfigPool 'worker' is ready (all 10 nodes updated)")
    );
    let applied = stage.descheduler().await?.unwrap_or_default();
    assert_eq!(
        applied["spec"]["profiles"],
        json!(["KubeVirtRelieveAndMigrate"])
    );
    assert_eq!(
        applied["metadata"]["annotations"][marks::GOVERNED_BY],
        LOAD_AWARE
    );
    assert!(applied["metadata"]["annotations"][marks::APPLIED_PROFILE_HASH].is_string());
    assert_eq!(condition(&status, "ProfileActive").0, "True");
    Ok(())
}

/// Story 2: with action Apply the plan is applied without review.
#[tokio::test(flavor = "multi_thread")]
async fn action_apply_needs_no_review() -> anyhow::Result<()> {
    let stage = Stage::lively(3).await?;
    stage
        .edit(LOAD_AWARE, json!({ "action": "Apply", "options": { "loadAware": { "deschedulingIntervalSeconds": 120 } } }))
        .await?;
    let status = stage.reaches(LOAD_AWARE, Phase::Completed).await?;
    assert_eq!(
        states(&status),
        [ItemState::Completed, ItemState::Completed]
    );
    assert_eq!(status.operator_version.as_deref(), Some("v0.1.30"));
    let applied = stage.descheduler().await?.unwrap_or_default();
    assert_eq!(applied["spec"]["deschedulingIntervalSeconds"], 120);
    assert_eq!(applied["spec"]["managementState"], "Managed");
    // The object is not written any more.
    let before = stage.config(LOAD_AWARE).await?.resource_version();
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    assert_eq!(stage.config(LOAD_AWARE).await?.resource_version(), before);
    Ok(())
}

/// Story 3: Ignore hands the targets over to the user and reverts nothing; leaving it makes a new plan.
#[tokio::test(flavor = "multi_thread")]
async fn ignore_hands_over_and_replans() -> anyhow::Result<()> {
    let stage = Stage::lively(2).await?;
    stage.edit(LOAD_AWARE, json!({ "action": "Apply" })).await?;
    stage.reaches(LOAD_AWARE, Phase::Completed).await?;
    wait_until("the phase is in the metrics", WAIT_TIMEOUT, async || {
        let wanted =
            "medley_governance_phase{config=\"load-aware-rebalancing\",phase=\"Completed\"} 1";
        Ok(stage.metrics().contains(wanted).then_some(()))
    })
    .await?;
    stage
        .edit(LOAD_AWARE, json!({ "action": "Ignore" }))
        .await?;
    let status = stage.reaches(LOAD_AWARE, Phase::Ignored).await?;
    assert_eq!(condition(&status, "Ignored").0, "True");
    assert!(
        stage.has_machine_config("99-worker-psi-karg").await?,
        "nothing is taken back"
    );
    wait_until(
        "there are no metrics under Ignore",
        WAIT_TIMEOUT,
        async || Ok((!stage.metrics().contains("load-aware-rebalancing")).then_some(())),
    )
    .await?;
    // No drift detection.
    stage
        .edit_descheduler(
            "kubectl-edit",
            json!({ "deschedulingIntervalSeconds": 600 }),
        )
        .await?;
    let before = stage.config(LOAD_AWARE).await?.resource_version();
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    assert_eq!(stage.config(LOAD_AWARE).await?.resource_version(), before);

    stage
        .edit(LOAD_AWARE, json!({ "action": "DryRun" }))
        .await?;
    let status = stage.reaches(LOAD_AWARE, Phase::ReviewRequired).await?;
    let diff = item(&status, "enable-load-aware-descheduling")
        .diff
        .clone()
        .unwrap_or_default();
    assert!(
        diff.contains("-  deschedulingIntervalSeconds: 600"),
        "the plan starts from what is there:\n{diff}"
    );
    Ok(())
}

/// Every advertised profile has a configuration, which is recreated after deletion; the example has none.
#[tokio::test(flavor = "multi_thread")]
async fn profiles_are_advertised_at_start_and_after_deletion() -> anyhow::Result<()> {
    let stage = Stage::quiet().await?;
    let status = stage.reaches(DENSITY, Phase::Ignored).await?;
    assert_eq!(status.impact_severity, Some(Impact::High));
    let advertised = stage.config(LOAD_AWARE).await?;
    assert_eq!(advertised.spec.action, Action::Ignore);
    assert_eq!(
        advertised.labels().get(marks::CATEGORY).map(String::as_str),
        Some("scheduling")
    );
    for annotation in [
        marks::DESCRIPTION,
        marks::IMPACT_SUMMARY,
        marks::DOCUMENTATION_URL,
        marks::AUTO_CREATED,
    ] {
        assert!(
            advertised.annotations().contains_key(annotation),
            "{annotation} is missing"
        );
    }
    assert!(stage.configs().get_opt("example-profile").await?.is_none());
    assert!(
        stage
            .configs()
            .get_opt("node-health-remediation")
            .await?
            .is_none(),
        "off unless switched on"
    );
    let uid = advertised.uid();
    stage
        .configs()
        .delete(LOAD_AWARE, &DeleteParams::default())
        .await?;
    wait_until(
        "the profile is advertised again",
        WAIT_TIMEOUT,
        async || {
            let found = stage.configs().get_opt(LOAD_AWARE).await?;
            Ok(found.filter(|found| found.uid() != uid && found.spec.action == Action::Ignore))
        },
    )
    .await?;
    Ok(())
}

/// A missing CRD stops the plan with advice; installing it resumes the plan without a restart.
#[tokio::test(flavor = "multi_thread")]
async fn missing_crds_are_reported_and_picked_up() -> anyhow::Result<()> {
    let without = Installed {
        descheduler: None,
        hyperconverged: Some(HyperConvergedVersion::V1Beta1),
        ..Installed::demo()
    };
    let stage = Stage::with(without).await?;
    stage.operator("v0.1.30").await?;
    stage
        .edit(LOAD_AWARE, json!({ "action": "DryRun" }))
        .await?;
    let status = stage.reaches(LOAD_AWARE, Phase::PrerequisiteFailed).await?;
    assert_eq!(
        condition(&status, "PrerequisiteFailed").2,
        "Missing required dependencies:\n  - KubeDescheduler (operator.openshift.io.v1): Please install the Descheduler Operator via OLM"
    );
    assert_eq!(
        condition(&status, "PrerequisitesMet"),
        (
            "False".to_owned(),
            "MissingDependency".to_owned(),
            "The CRD 'KubeDescheduler' is not found. Please install the Descheduler Operator via OLM.".to_owned()
        )
    );
    let with = Installed {
        descheduler: Some(DeschedulerRelease::V5_32),
        ..without
    };
    fleet::operators::install(&stage.cluster.client(), &with).await?;
    let status = stage.reaches(LOAD_AWARE, Phase::ReviewRequired).await?;
    assert_eq!(condition(&status, "PrerequisitesMet").0, "True");
    Ok(())
}
