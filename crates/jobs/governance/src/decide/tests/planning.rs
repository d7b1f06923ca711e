//! Generating a plan: prerequisites, and what makes a plan obsolete.

use api::advisor::{Action, Impact, Phase};
use jiff::SignedDuration;
use rstest::rstest;
use serde_json::json;

use super::Simulation;
use super::profiles::config_map;
use super::world::descheduler;
use crate::profile::kinds::{CONFIG_MAP, HYPER_CONVERGED, KUBE_DESCHEDULER};

#[test]
fn unknown_profile_is_reported() {
    let mut world = Simulation::steps();
    let profile = world.profile.take();
    let wake = world.run();
    assert_eq!(world.phase(), Phase::PrerequisiteFailed);
    assert_eq!(
        world.condition("PrerequisiteFailed").message,
        "Profile not found: steps"
    );
    assert_eq!(
        world.status_and_reason("PrerequisitesMet"),
        ("False".into(), "ProfileNotFound".into())
    );
    assert!(wake.is_some());
    world.check_rest();
    world.profile = profile;
    world.run();
    assert_eq!(world.phase(), Phase::ReviewRequired);
}

/// The proposal's texts; checked again after five minutes in case no watch event arrives.
#[test]
fn missing_kind_is_reported_and_detected_when_installed() {
    let mut world = Simulation::load_aware();
    world.cluster.uninstall(KUBE_DESCHEDULER);
    let wake = world.run();
    assert_eq!(
        world.trail,
        [Phase::Pending, Phase::Drafting, Phase::PrerequisiteFailed]
    );
    assert_eq!(
        wake,
        world.now.checked_add(SignedDuration::from_mins(5)).ok()
    );
    assert_eq!(
        world.condition("PrerequisiteFailed").message,
        "Missing required dependencies:\n  - KubeDescheduler (operator.openshift.io.v1): Please install the Descheduler Operator via OLM"
    );
    let met = world.condition("PrerequisitesMet");
    assert_eq!(met.reason, "MissingDependency");
    assert_eq!(
        met.message,
        "The CRD 'KubeDescheduler' is not found. Please install the Descheduler Operator via OLM."
    );
    assert_eq!(
        world.status_and_reason("ReviewRequired"),
        ("False".into(), "PrerequisitesFailed".into())
    );
    assert_eq!(world.status().impact_severity, Some(Impact::Medium));
    world.check_rest();

    // Another kind is missing: the message changes.
    world.cluster.uninstall(HYPER_CONVERGED);
    world.run();
    let message = world.condition("PrerequisiteFailed").message;
    assert!(
        message.contains("HyperConverged (hco.kubevirt.io.v1beta1)"),
        "{message}"
    );

    world.cluster.install(KUBE_DESCHEDULER, "v1", None);
    world.cluster.install(HYPER_CONVERGED, "v1beta1", None);
    world.run();
    assert_eq!(
        world.trail,
        [Phase::Pending, Phase::Drafting, Phase::ReviewRequired]
    );
    assert_eq!(world.status_and_reason("PrerequisitesMet").0, "True");
}

#[test]
fn removed_kind_is_detected_in_any_phase() {
    let mut world = Simulation::load_aware();
    world.run();
    world.cluster.uninstall(KUBE_DESCHEDULER);
    world.run();
    assert_eq!(world.phase(), Phase::PrerequisiteFailed);
}

#[rstest]
#[case::timeout(|world: &mut Simulation| world.spec(|spec| spec.wait_timeout = Some("-3m".into())), "spec.waitTimeout")]
#[case::window(|world: &mut Simulation| world.spec(|spec| spec.maintenance_windows = vec![api::advisor::MaintenanceWindow {
    schedule: "whenever".into(), duration: "1h".into(), time_zone: None,
}]), "spec.maintenanceWindows[0].schedule")]
#[case::rollback(|world: &mut Simulation| world.spec(|spec| spec.rollback_to = Some(3)), "spec.rollbackTo: 3 is not in the history; there is none")]
fn invalid_spec_is_rejected_before_planning(
    #[case] change: fn(&mut Simulation),
    #[case] expected_message: &str,
) {
    let mut world = Simulation::steps();
    world.action(Action::Apply);
    change(&mut world);
    world.run();
    assert_eq!(world.phase(), Phase::PrerequisiteFailed);
    let condition = world.condition("PrerequisitesMet");
    assert_eq!(condition.reason, "InvalidConfiguration");
    assert!(
        condition.message.contains(expected_message),
        "{}",
        condition.message
    );
    assert_eq!(world.written, [""; 0]);
    world.check_rest();
}

#[test]
fn malformed_object_fails_until_spec_changes() {
    let mut world = Simulation::steps();
    let source = config_map("source");
    world.edit(
        &source,
        "admin",
        &json!({ "data": { "limit": "unreadable" } }),
    );
    world.run();
    assert_eq!(world.phase(), Phase::Failed);
    let failed = world.condition("Failed");
    assert_eq!(failed.reason, "Failed");
    assert_eq!(
        failed.message,
        "Failed to generate plan items: source makes no sense"
    );
    world.check_rest();
    world.edit(&source, "admin", &json!({ "data": { "limit": 3 } }));
    world.run();
    assert_eq!(world.phase(), Phase::Failed);
    world.spec(|spec| spec.wait_timeout = Some("1h".to_owned()));
    world.run();
    assert_eq!(world.phase(), Phase::ReviewRequired);
}

/// In a dry run as well: there is nothing to review.
#[test]
fn desired_state_in_force_completes_at_once() {
    let mut world = Simulation::steps();
    world.action(Action::Apply);
    world.run();
    world.roll_out("worker", 10);
    world.run();
    let written = world.written.clone();
    world.action(Action::DryRun);
    world.run();
    // B8: a change of the spec is observed and planned.
    assert_eq!(
        world.trail,
        [Phase::Pending, Phase::Drafting, Phase::Completed]
    );
    for item in world.status().items {
        assert_eq!(item.message.as_deref(), Some("Already in desired state"));
    }
    assert_eq!(world.status().impact_severity, Some(Impact::Low));
    assert_eq!(world.written, written);
    world.check_rest();
}

#[test]
fn unhealthy_applied_item_is_waited_for() {
    let mut world = Simulation::steps();
    world.action(Action::Apply);
    world.run();
    world.roll_out("worker", 4);
    world.run();
    // The plan is generated again: its first item is in force and still rolling out.
    world.options(|options| options.descheduling_interval_seconds = Some(90));
    world.run();
    assert_eq!(world.phase(), Phase::InProgress);
    assert_eq!(world.written, ["first"]);
    world.roll_out("worker", 10);
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
    assert_eq!(world.written, ["first", "second", "third"]);
}

/// B5: options and approval in one patch.
#[test]
fn options_changed_with_the_approval_invalidate_it() {
    let mut world = Simulation::steps();
    world.run();
    let reviewed = world.digest();
    world.spec(|spec| {
        spec.action = Action::Apply;
        let options = spec.options.get_or_insert_default();
        options
            .load_aware
            .get_or_insert_default()
            .descheduling_interval_seconds = Some(300);
    });
    world.run();
    world.roll_out("worker", 10);
    world.run();
    assert_ne!(world.digest(), reviewed);
    assert_eq!(world.records.len(), 1);
    assert_ne!(world.records[0].plan_digest, reviewed);
    assert_eq!(
        world.live(&config_map("second"), "/data/interval"),
        json!(300)
    );
    let options = world.status().applied_options.unwrap();
    assert_eq!(options, world.config.spec.options.clone().unwrap());
}

/// B6, B7: every option is observed, in review and after completion.
#[rstest]
#[case::interval(json!({ "deschedulingIntervalSeconds": 120 }))]
#[case::mode(json!({ "mode": "Predictive" }))]
#[case::psi(json!({ "enablePSIMetrics": false }))]
#[case::thresholds(json!({ "devDeviationThresholds": "High" }))]
#[case::total(json!({ "evictionLimitTotal": 3 }))]
#[case::node(json!({ "evictionLimitNode": 1 }))]
fn every_option_changes_the_plan(#[case] options: serde_json::Value) {
    let options: api::advisor::ProfileOptions =
        serde_json::from_value(json!({ "loadAware": options })).unwrap();
    let mut world = Simulation::load_aware();
    world.run();
    let before = world.digest();
    world.spec(|spec| spec.options = Some(options.clone()));
    world.run();
    assert_eq!(world.phase(), Phase::ReviewRequired);
    assert_ne!(world.digest(), before);

    let mut world = Simulation::load_aware();
    world.action(Action::Apply);
    world.run();
    world.roll_out("worker", 10);
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
    world.spec(|spec| {
        spec.options = Some(options);
        spec.action = Action::DryRun;
    });
    world.run();
    assert_eq!(
        world.phase(),
        Phase::ReviewRequired,
        "{:#?}",
        world.status().items
    );
}

/// The dry run of the API server decides, not our own merge.
#[test]
fn plan_depends_on_live_objects() {
    let mut world = Simulation::load_aware();
    world.run();
    let before = world.digest();
    world.edit(
        &descheduler(),
        "",
        &json!({ "spec": { "deschedulingIntervalSeconds": 45 } }),
    );
    world.run();
    // The plan under review is not replaced without a request.
    assert_eq!(world.digest(), before);
    let stale = world.condition("PlanStale");
    assert_eq!(
        (stale.status.as_str(), stale.reason.as_str()),
        ("True", "TargetChanged")
    );
    assert_eq!(
        stale.message,
        "KubeDescheduler openshift-kube-descheduler-operator/cluster: spec.deschedulingIntervalSeconds changed from 30 to 45"
    );
    world.check_rest();
    // Reverting the edit makes the plan valid again.
    world.edit(
        &descheduler(),
        "",
        &json!({ "spec": { "deschedulingIntervalSeconds": 30 } }),
    );
    world.run();
    assert_eq!(world.status_and_reason("PlanStale").0, "False");
}

/// Another planning logic while a plan waits leads to another plan, which waits as well.
#[test]
fn upgrade_replans_a_waiting_plan() {
    let mut world = Simulation::steps();
    world.run();
    let before = world.digest();
    world.version = "v0.1.31".to_owned();
    world.profile = Some(std::sync::Arc::new(super::profiles::Steps { logic: 2 }));
    world.run();
    assert_eq!(world.phase(), Phase::ReviewRequired);
    assert_ne!(world.digest(), before);
    assert_eq!(world.status().operator_version.as_deref(), Some("v0.1.31"));
    world.check_rest();
}

#[test]
fn missing_kind_is_detected_during_execution() {
    let mut world = Simulation::steps();
    world.action(Action::Apply);
    world.run();
    world.cluster.uninstall(CONFIG_MAP);
    world.run();
    assert_eq!(world.phase(), Phase::PrerequisiteFailed);
    assert_eq!(world.written, ["first"]);
    let outcome = world.records[0].outcome.clone().unwrap();
    assert_eq!(outcome.result, crate::record::PlanResult::Superseded);
    world.check_rest();
}

/// Sets every target to its desired state by hand, except the last ones.
fn align(world: &mut Simulation, but: usize) {
    let items = world.status().items;
    for item in &items[..items.len() - but] {
        world.edit(
            &item.target_ref,
            "kubectl",
            item.desired_state.as_ref().unwrap(),
        );
    }
}

/// A plan that a user applied by hand has nothing left to approve.
#[rstest]
#[case::reviewed(Action::DryRun)]
#[case::waiting_for_approval(Action::Apply)]
fn manually_applied_plan_is_completed(#[case] action: Action) {
    let mut world = Simulation::steps();
    world.spec(|spec| {
        spec.action = action;
        let approval = spec.approval.get_or_insert_default();
        approval.plan_digest = Some("that of another plan".into());
    });
    world.run();
    assert_eq!(world.phase(), Phase::ReviewRequired);
    align(&mut world, 0);
    world.run();
    // The rollout is waited for, even though another manager wrote the MachineConfig.
    assert_eq!(world.phase(), Phase::InProgress);
    world.roll_out("worker", 10);
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
    assert_eq!(world.written, [""; 0]);
    assert!(world.records.is_empty());
    assert!(
        world
            .notices
            .iter()
            .any(|notice| notice.reason == "ManuallyAligned")
    );
    world.check_rest();
    // It is watched like any applied state.
    world.edit(
        &config_map("third"),
        "kubectl",
        &json!({ "data": { "interval": 1 } }),
    );
    world.run();
    assert_eq!(world.phase(), Phase::Drifted);
}

#[test]
fn partly_manually_applied_plan_is_stale() {
    let mut world = Simulation::steps();
    world.run();
    align(&mut world, 1);
    world.run();
    assert_eq!(world.phase(), Phase::ReviewRequired);
    let stale = world.condition("PlanStale");
    assert_eq!(
        (stale.status.as_str(), stale.reason.as_str()),
        ("True", "TargetChanged")
    );
    assert!(
        stale.message.contains("did not exist and was created"),
        "{}",
        stale.message
    );
    world.check_rest();
}
