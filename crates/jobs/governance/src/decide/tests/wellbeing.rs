//! The condition Healthy: what operators report about what is in force.

use api::advisor::{Action, ItemState, Phase};
use jiff::SignedDuration;
use rstest::rstest;
use serde_json::{Value, json};

use super::Simulation;
use super::world::{descheduler, hyper_converged};
use crate::profile::kinds::{HYPER_CONVERGED, MACHINE_CONFIG_POOL};

/// Load-aware rebalancing in force.
fn in_force() -> Simulation {
    let mut world = Simulation::load_aware();
    world.action(Action::Apply);
    world.run();
    world.roll_out("worker", 10);
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
    world
}

fn healthy(world: &Simulation) -> (String, String) {
    world.status_and_reason("Healthy")
}

fn events(world: &Simulation) -> Vec<&str> {
    let notices = world.notices.iter().map(|notice| notice.reason.as_str());
    notices
        .filter(|reason| ["Healthy", "Unhealthy", "HealthUnknown"].contains(reason))
        .collect()
}

fn pool(world: &mut Simulation, status: &Value) {
    let target = api::advisor::TargetRef {
        api_version: "machineconfiguration.openshift.io/v1".to_owned(),
        kind: MACHINE_CONFIG_POOL.kind.to_owned(),
        name: "worker".to_owned(),
        namespace: None,
    };
    world.edit(&target, "operator", &json!({ "status": status }));
    world.run();
}

#[test]
fn nothing_is_reported_before_anything_is_in_force() {
    let mut world = Simulation::load_aware();
    world.run();
    let conditions = world.status().conditions;
    assert!(
        conditions
            .iter()
            .all(|condition| condition.type_ != "Healthy")
    );
}

/// It is in the write that completes the plan, and it is no event: there was no transition from a fault.
#[test]
fn completed_plan_is_healthy_when_its_operators_say_so() {
    let mut world = Simulation::load_aware();
    world.action(Action::Apply);
    world.run();
    assert_eq!(healthy(&world), ("Unknown".into(), "Progressing".into()));
    world.roll_out("worker", 10);
    world.run();
    assert_eq!(healthy(&world), ("True".into(), "AsReported".into()));
    assert_eq!(events(&world), ["Healthy"]);
    world.check_rest();
}

/// Pools degraded after completion: the phase says what is applied, and does not change.
#[rstest]
#[case::degraded(
    json!({ "degradedMachineCount": 1 }),
    json!({ "degradedMachineCount": 0 }),
    "MachineConfigPool 'worker' is degraded (1 degraded machines)"
)]
#[case::unavailable(
    json!({ "unavailableMachineCount": 2, "readyMachineCount": 8 }),
    json!({ "unavailableMachineCount": 0, "readyMachineCount": 10 }),
    "MachineConfigPool 'worker' has 2 unavailable of 10 nodes"
)]
fn fault_after_completion_is_unhealthy(
    #[case] fault: Value,
    #[case] repaired: Value,
    #[case] message: &str,
) {
    let mut world = in_force();
    pool(&mut world, &fault);
    assert_eq!(healthy(&world), ("False".into(), "Degraded".into()));
    let condition = world.condition("Healthy");
    assert_eq!(condition.message, format!("enable-psi-metrics: {message}"));
    assert_eq!(world.phase(), Phase::Completed);
    assert_eq!(world.item("enable-psi-metrics").state, ItemState::Completed);
    world.check_rest();
    pool(&mut world, &repaired);
    assert_eq!(healthy(&world).0, "True");
    assert_eq!(events(&world), ["Healthy", "Unhealthy", "Healthy"]);
    world.check_rest();
}

/// Nodes that restart for another MachineConfig are no fault of this one.
#[test]
fn rollout_of_another_change_is_progress() {
    let mut world = in_force();
    world.pass(SignedDuration::from_mins(2));
    world.roll_out("worker", 4);
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
    assert_eq!(healthy(&world), ("Unknown".into(), "Progressing".into()));
    world.roll_out("worker", 10);
    world.run();
    assert_eq!(healthy(&world).0, "True");
}

/// The operator processes an edit by another manager: no news until it takes too long.
#[test]
fn edit_is_processed_before_it_is_reported() {
    let mut world = in_force();
    let before = world.status();
    let notices = world.notices.len();
    world.pass(SignedDuration::from_mins(10));
    let edit = json!({ "metadata": { "generation": 1 }, "spec": { "logLevel": "Debug" } });
    world.edit(&descheduler(), "kubectl-edit", &edit);
    let wake = world.run().unwrap();
    assert_eq!(world.status(), before);
    assert_eq!(world.notices.len(), notices);
    assert!(wake.duration_since(world.now) <= SignedDuration::from_mins(1));
    world.check_rest();
    // Its operator does not run.
    world.now = wake;
    world.run();
    assert_eq!(healthy(&world), ("Unknown".into(), "Progressing".into()));
    let message = world.condition("Healthy").message;
    assert!(message.contains("take up generation 1"), "{message}");
}

/// A rejection by the operator of the target also fails its item, as before.
#[test]
fn rejected_descheduler_is_unhealthy() {
    let mut world = in_force();
    let condition =
        json!({ "type": "TargetConfigControllerDegraded", "status": "True", "reason": "no PSI" });
    world.edit(
        &descheduler(),
        "operator",
        &json!({ "status": { "conditions": [condition] } }),
    );
    world.run();
    assert_eq!(world.phase(), Phase::CompletedWithErrors);
    assert_eq!(healthy(&world), ("False".into(), "Degraded".into()));
    assert_eq!(world.status().retry, None, "its operator tries again");
}

#[test]
fn deleted_target_is_unhealthy_and_drifted() {
    let mut world = in_force();
    world.cluster.delete(&descheduler());
    world.run();
    assert_eq!(world.phase(), Phase::Drifted);
    assert_eq!(healthy(&world).0, "False");
}

/// Higher density, with this status of the HyperConverged.
fn density(status: &Value) -> Simulation {
    let mut world = Simulation::density();
    if !status.is_null() {
        world.edit(&hyper_converged(), "operator", &json!({ "status": status }));
    }
    world.action(Action::Apply);
    world.run();
    world.roll_out("worker", 10);
    world.run();
    world
}

#[test]
fn completed_without_a_report_says_so() {
    let mut world = density(&Value::Null);
    assert_eq!(world.phase(), Phase::Completed);
    let message = world.item("configure-higher-density").message.unwrap();
    assert_eq!(
        message,
        "Applied successfully (the HyperConverged operator reports no status)"
    );
    assert_eq!(healthy(&world), ("Unknown".into(), "NotReported".into()));
    world.check_rest();
}

#[test]
fn hyper_converged_is_watched_after_completion() {
    let report = |degraded: &str| {
        json!({ "observedGeneration": 0, "conditions": [
            { "type": "Available", "status": "True" },
            { "type": "Degraded", "status": degraded, "reason": "KubeVirtDegraded" },
        ] })
    };
    let mut world = density(&report("False"));
    assert_eq!(world.phase(), Phase::Completed);
    assert_eq!(healthy(&world).0, "True");
    world.edit(
        &hyper_converged(),
        "operator",
        &json!({ "status": report("True") }),
    );
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
    assert_eq!(healthy(&world).0, "False");
    let message = world.condition("Healthy").message;
    assert_eq!(
        message,
        "configure-higher-density: HyperConverged is degraded: KubeVirtDegraded"
    );
    // Also while the kind cannot be read.
    let kinds = &mut world.cluster.unreadable;
    kinds.insert(HYPER_CONVERGED, "forbidden".to_owned());
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
    assert_eq!(healthy(&world), ("Unknown".into(), "NotReported".into()));
    let message = world.condition("Healthy").message;
    assert_eq!(message, "HyperConverged cannot be read: forbidden");
}

#[test]
fn ignored_configuration_is_not_judged() {
    let mut world = in_force();
    world.action(Action::Ignore);
    world.run();
    assert_eq!(healthy(&world), ("Unknown".into(), "Ignored".into()));
    world.check_rest();
}

#[test]
fn rolled_back_configuration_has_nothing_in_force() {
    let mut world = in_force();
    world.spec(|spec| spec.rollback_to = Some(1));
    world.run();
    world.roll_out("worker", 10);
    world.run();
    world.pass(SignedDuration::from_mins(1));
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
    assert_eq!(healthy(&world), ("Unknown".into(), "NothingInForce".into()));
}
