//! The stories of the proposal, and its examples.

use api::advisor::{Action, Impact, ItemState, Phase};
use serde_json::json;

use super::Simulation;
use super::profiles::machine_config;
use super::world::descheduler;

fn psi() -> api::advisor::TargetRef {
    machine_config("99-worker-psi-karg")
}

/// The first example of the proposal, applied and rolled out.
fn completed() -> Simulation {
    let mut world = Simulation::load_aware();
    world.action(Action::Apply);
    world.run();
    world.roll_out("worker", 10);
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
    world
}

/// Story 1, and the examples of the status at each step.
#[test]
fn plan_is_reviewed_before_anything_is_written() {
    let mut world = Simulation::load_aware();
    world.run();
    assert_eq!(
        world.trail,
        [Phase::Pending, Phase::Drafting, Phase::ReviewRequired]
    );
    let status = world.status();
    assert!(status.source_snapshot_hash.unwrap().starts_with("sha256:"));
    assert_eq!(status.impact_severity, Some(Impact::High));
    assert_eq!(status.operator_version.as_deref(), Some("v0.1.30"));
    assert_eq!(world.status_and_reason("UpgradeAvailable").0, "False");
    assert_eq!(
        world.status_and_reason("InputDependencyDrift"),
        ("False".into(), "NoChange".into())
    );
    let review = world.condition("ReviewRequired");
    assert_eq!(review.reason, "ReviewRequired");
    assert_eq!(
        review.message,
        "Plan ready for review. Change action to 'Apply' to execute."
    );
    assert_eq!(
        world.status_and_reason("Completed"),
        ("False".into(), "NotCompleted".into())
    );
    assert_eq!(
        world.status_and_reason("Drifted"),
        ("False".into(), "NoDrift".into())
    );
    assert_eq!(
        world.status_and_reason("PrerequisitesMet"),
        ("True".into(), "AllDependenciesFound".into())
    );

    // PSI comes first: the descheduler operator rejects its profile without it.
    let first = world.item("enable-psi-metrics");
    assert_eq!(world.status().items[0], first);
    assert_eq!(first.state, ItemState::Pending);
    assert_eq!(first.impact_severity, Some(Impact::High));
    assert_eq!(first.target_ref, psi());
    assert_eq!(first.managed_fields, ["spec.kernelArguments"]);
    let diff = first.diff.unwrap();
    for line in [
        "+apiVersion: machineconfiguration.openshift.io/v1",
        "+kind: MachineConfig",
        "+    machineconfiguration.openshift.io/role: worker",
        "+  name: 99-worker-psi-karg",
        "+  kernelArguments:",
        "+  - psi=1",
    ] {
        assert!(diff.lines().any(|found| found == line), "{line} in {diff}");
    }
    let second = world.item("enable-load-aware-descheduling");
    assert_eq!(second.state, ItemState::Pending);
    assert_eq!(second.impact_severity, Some(Impact::Low));
    let diff = second.diff.unwrap();
    for line in [
        "-  deschedulingIntervalSeconds: 30",
        "+  deschedulingIntervalSeconds: 60",
        "+  evictionLimits:",
        "+    node: 2",
        "+    total: 5",
        "+  - KubeVirtRelieveAndMigrate",
        "+    devDeviationThresholds: AsymmetricLow",
    ] {
        assert!(diff.lines().any(|found| found == line), "{line} in {diff}");
    }
    assert_eq!(world.written, [""; 0]);
    world.check_rest();

    world.action(Action::Apply);
    world.run();
    assert_eq!(world.phase(), Phase::InProgress);
    world.roll_out("worker", 2);
    world.run();
    assert_eq!(world.phase(), Phase::InProgress);
    let first = world.item("enable-psi-metrics");
    assert_eq!(first.state, ItemState::InProgress);
    let message = first.message.unwrap();
    assert!(
        message.contains("Updated: 2/10") && message.contains("Ready: 2/10"),
        "{message}"
    );
    assert_eq!(world.states(), [ItemState::InProgress, ItemState::Pending]);
    assert_eq!(world.written, ["enable-psi-metrics"]);
    world.check_rest();

    world.roll_out("worker", 10);
    world.run();
    assert_eq!(world.trail, [Phase::InProgress, Phase::Completed]);
    assert_eq!(world.states(), [ItemState::Completed; 2]);
    assert_eq!(
        world.item("enable-psi-metrics").message.unwrap(),
        "MachineConfigPool 'worker' is ready (all 10 nodes updated)"
    );
    assert_eq!(
        world
            .item("enable-load-aware-descheduling")
            .message
            .unwrap(),
        "Applied successfully"
    );
    let completed = world.condition("Completed");
    assert_eq!(completed.reason, "Completed");
    assert_eq!(
        completed.message,
        "Configuration successfully applied and in sync"
    );
    assert_eq!(
        world.condition("PrerequisiteFailed").message,
        "All prerequisites met"
    );
    assert_eq!(world.condition("Failed").message, "No failures occurred");
    assert_eq!(
        world.status_and_reason("ProfileActive"),
        ("True".into(), "Completed".into())
    );
    let annotations = world.live(&psi(), "/metadata/annotations");
    assert_eq!(
        annotations["advisor.kubevirt.io/governed-by"],
        "load-aware-rebalancing"
    );
    world.check_rest();
}

/// Story 2.
#[test]
fn action_apply_runs_without_review() {
    let mut world = Simulation::load_aware();
    world.action(Action::Apply);
    world.run();
    assert_eq!(
        world.trail,
        [Phase::Pending, Phase::Drafting, Phase::InProgress]
    );
    assert_eq!(world.written, ["enable-psi-metrics"]);
    assert_eq!(
        world.status_and_reason("Approved"),
        ("True".into(), "Approved".into())
    );
}

/// Story 3.
#[test]
fn ignore_releases_and_resumes_control() {
    let mut world = completed();
    world.action(Action::Ignore);
    world.run();
    assert_eq!(world.phase(), Phase::Ignored);
    let ignored = world.condition("Ignored");
    assert_eq!(
        ignored.message,
        "Configuration is ignored - no management actions will be performed. Resources remain in their current state and are now under manual control. Change action to 'DryRun' or 'Apply' to resume operator management."
    );
    // Nothing is rolled back, and drift is not reported.
    assert_eq!(
        world.live(&psi(), "/spec/kernelArguments"),
        json!(["psi=1"])
    );
    world.edit(
        &descheduler(),
        "admin",
        &json!({ "spec": { "mode": "Predictive" } }),
    );
    world.migrations(20);
    let effects = world.effects;
    world.run();
    assert_eq!(world.effects, effects);
    assert_eq!(world.phase(), Phase::Ignored);
    world.check_rest();

    world.action(Action::DryRun);
    world.run();
    assert_eq!(
        world.trail,
        [Phase::Pending, Phase::Drafting, Phase::ReviewRequired]
    );
    let diff = world.item("enable-load-aware-descheduling").diff.unwrap();
    assert!(diff.contains("-  mode: Predictive"), "{diff}");
    assert!(diff.contains("+    total: 18"), "{diff}");
}

/// Ignored from the start: the impact is that of the profile.
#[test]
fn advertised_configuration_has_the_impact_of_its_profile() {
    let mut world = Simulation::load_aware();
    world.action(Action::Ignore);
    world.run();
    assert_eq!(world.trail, [Phase::Ignored]);
    assert_eq!(world.status().impact_severity, Some(Impact::Medium));
    world.check_rest();
}

/// The steps profile, applied by version 1 of its logic.
fn steps_completed() -> Simulation {
    let mut world = Simulation::steps();
    world.action(Action::Apply);
    world.run();
    world.roll_out("worker", 10);
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
    assert_eq!(world.written, ["first", "second", "third"]);
    world
}

fn upgrade(world: &mut Simulation, logic: i64) {
    world.version = "v0.1.31".to_owned();
    world.profile = Some(std::sync::Arc::new(super::profiles::Steps { logic }));
}

/// Story 4, scenario A. A lower impact alone is no change (B13): it was lowered by applying.
#[test]
fn changed_planning_logic_waits_for_a_request() {
    let mut world = steps_completed();
    upgrade(&mut world, 2);
    world.run();
    assert_eq!(world.trail, [Phase::CompletedWithUpgrade]);
    let condition = world.condition("UpgradeAvailable");
    assert_eq!(
        (condition.status.as_str(), condition.reason.as_str()),
        ("True", "LogicChanged")
    );
    assert!(
        condition.message.contains("data.logic from 1 to 2"),
        "{}",
        condition.message
    );
    assert_eq!(world.status().operator_version.as_deref(), Some("v0.1.30"));
    assert_eq!(world.status_and_reason("ProfileActive").0, "True");
    assert_eq!(world.written.len(), 3);
    world.check_rest();

    world.action(Action::DryRun);
    world.run();
    assert_eq!(world.phase(), Phase::ReviewRequired);
    let diff = world.item("second").diff.unwrap();
    assert!(diff.contains("-  logic: 1\n+  logic: 2"), "{diff}");
    assert_eq!(world.status_and_reason("UpgradeAvailable").0, "True");

    world.action(Action::Apply);
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
    assert_eq!(world.status().operator_version.as_deref(), Some("v0.1.31"));
    assert_eq!(
        world.status_and_reason("UpgradeAvailable"),
        ("False".into(), "Applied".into())
    );
    assert_eq!(
        world.live(&super::profiles::config_map("second"), "/data/logic"),
        json!(2)
    );
    world.check_rest();
}

/// Story 4, scenario B.
#[test]
fn unchanged_planning_logic_is_adopted_silently() {
    let mut world = steps_completed();
    upgrade(&mut world, 1);
    let notices = world.notices.len();
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
    assert_eq!(world.status().operator_version.as_deref(), Some("v0.1.31"));
    assert_eq!(
        world.status_and_reason("UpgradeAvailable"),
        ("False".into(), "NoLogicChange".into())
    );
    assert_eq!(world.notices.len(), notices);
    world.check_rest();
}

/// Story 4, scenario C; the prototype compares with the stored plan and cannot detect it (B13).
#[test]
fn manually_applied_upgrade_is_recognised() {
    let mut world = steps_completed();
    upgrade(&mut world, 2);
    world.run();
    let second = super::profiles::config_map("second");
    world.edit(&second, "kubectl", &json!({ "data": { "logic": 2 } }));
    world.run();
    assert_eq!(world.trail, [Phase::Completed]);
    assert_eq!(
        world.status_and_reason("UpgradeAvailable"),
        ("False".into(), "ManuallyAligned".into())
    );
    assert_eq!(world.status().operator_version.as_deref(), Some("v0.1.31"));
    assert_eq!(world.written.len(), 3);
    world.check_rest();
    // The desired state of this version is watched from now on.
    world.edit(&second, "kubectl", &json!({ "data": { "logic": 1 } }));
    world.run();
    assert_eq!(world.phase(), Phase::Drifted);
}

/// B18: drift and input changes are reported while an upgrade waits.
#[test]
fn drift_and_input_changes_are_reported_during_an_upgrade() {
    let mut world = steps_completed();
    upgrade(&mut world, 2);
    world.run();
    let third = super::profiles::config_map("third");
    world.edit(&third, "kubectl", &json!({ "data": { "interval": 1 } }));
    world.run();
    assert_eq!(world.phase(), Phase::Drifted);
    world.edit(&third, "kubectl", &json!({ "data": { "interval": 60 } }));
    world.run();
    assert_eq!(world.phase(), Phase::CompletedWithUpgrade);
    assert_ne!(
        world.item("third").message.as_deref(),
        Some("Configuration has drifted from desired state")
    );
    world.edit(
        &super::profiles::config_map("source"),
        "admin",
        &json!({ "data": { "limit": 7 } }),
    );
    world.run();
    assert_eq!(world.phase(), Phase::ReviewRequired);
    assert_eq!(world.status_and_reason("InputDependencyDrift").0, "True");
}
