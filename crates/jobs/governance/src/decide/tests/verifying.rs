//! The approved plan is verified again before workloads are disrupted.

use api::advisor::{
    Action, ConsentedTakeover, Impact, ItemState, MaintenanceWindow, Phase, RequiredApprovals,
};
use api::approval::ApprovalPolicySpec;
use jiff::SignedDuration;
use serde_json::json;

use super::Simulation;
use super::profiles::config_map;
use crate::approval::Policy;

/// At noon, the nightly window is closed.
fn at_night() -> Vec<MaintenanceWindow> {
    vec![MaintenanceWindow {
        schedule: "0 2 * * *".to_owned(),
        duration: "4h".to_owned(),
        time_zone: None,
    }]
}

/// A plan that waits for its window.
fn waiting() -> Simulation {
    let mut world = Simulation::steps();
    world.spec(|spec| {
        spec.action = Action::Apply;
        spec.maintenance_windows = at_night();
    });
    world.run();
    assert_eq!(world.phase(), Phase::InProgress);
    assert_eq!(world.written, [""; 0]);
    world
}

fn opens(world: &mut Simulation) {
    world.pass(SignedDuration::from_hours(15));
    world.run();
}

#[test]
fn changed_target_of_a_later_item_stops_the_first() {
    let mut world = waiting();
    world.edit(
        &config_map("third"),
        "admin",
        &json!({ "data": { "interval": 7 } }),
    );
    opens(&mut world);
    assert_eq!(world.written, [""; 0]);
    assert_eq!(world.phase(), Phase::Failed);
    assert_eq!(
        world.status_and_reason("Failed"),
        ("True".into(), "PlanStale".into())
    );
    let why = world.condition("PlanStale").message;
    assert!(why.contains("ConfigMap there/third"), "{why}");
    world.check_rest();
}

#[test]
fn recreated_target_stops_the_plan() {
    let mut world = Simulation::steps();
    world.edit(
        &config_map("third"),
        "",
        &json!({ "data": { "interval": 7 } }),
    );
    let with_uid = |world: &mut Simulation, uid: &str| {
        world.edit(
            &config_map("third"),
            "",
            &json!({ "metadata": { "uid": uid } }),
        );
    };
    with_uid(&mut world, "one");
    world.spec(|spec| {
        spec.action = Action::Apply;
        spec.maintenance_windows = at_night();
    });
    world.run();
    with_uid(&mut world, "two");
    opens(&mut world);
    assert_eq!(world.written, [""; 0]);
    let why = world.condition("PlanStale").message;
    assert!(why.contains("deleted and created again"), "{why}");
}

#[test]
fn higher_impact_stops_a_waiting_plan() {
    let mut world = Simulation::steps();
    world.pool("worker", 0);
    // Held by a policy for items of low impact, as this one is while the pool is empty.
    world.policies = vec![Policy {
        name: "night".to_owned(),
        spec: ApprovalPolicySpec {
            impacts: vec![Impact::Low],
            maintenance_windows: at_night(),
            ..ApprovalPolicySpec::default()
        },
    }];
    world.action(Action::Apply);
    world.run();
    assert_eq!(world.phase(), Phase::InProgress);
    assert_eq!(world.item("first").impact_severity, Some(Impact::Low));
    world.pool("worker", 10);
    opens(&mut world);
    assert_eq!(world.written, [""; 0]);
    assert_eq!(
        world.status_and_reason("Failed"),
        ("True".into(), "PlanStale".into())
    );
    let why = world.condition("PlanStale").message;
    assert!(
        why.contains("the impact of item 'first' was Low and is High"),
        "{why}"
    );
    world.check_rest();
}

#[test]
fn changed_impact_under_review_changes_the_plan() {
    let mut world = Simulation::steps();
    world.pool("worker", 0);
    world.run();
    let (before, impact) = (world.digest(), world.status().impact_severity);
    assert_eq!(impact, Some(Impact::Low));
    world.pool("worker", 10);
    world.run();
    assert_ne!(world.digest(), before);
    assert_eq!(world.status().impact_severity, Some(Impact::High));
    world.check_rest();
}

#[test]
fn policy_windows_hold_items() {
    let mut world = Simulation::steps();
    world.policies = vec![Policy {
        name: "night".to_owned(),
        spec: ApprovalPolicySpec {
            maintenance_windows: at_night(),
            ..ApprovalPolicySpec::default()
        },
    }];
    world.action(Action::Apply);
    let wake = world.run();
    assert_eq!(world.written, [""; 0]);
    assert_eq!(wake.unwrap().to_string(), "2026-07-02T02:00:00Z");
    world.check_rest();
    opens(&mut world);
    assert_eq!(world.written, ["first"]);
}

/// Consent was given to take the field over from argocd.
#[test]
fn field_taken_by_another_manager_stops_the_plan() {
    let mut world = Simulation::steps();
    let third = config_map("third");
    world.edit(&third, "argocd", &json!({ "data": { "interval": 1 } }));
    world.spec(|spec| {
        spec.action = Action::Apply;
        spec.maintenance_windows = at_night();
        spec.approval.get_or_insert_default().takeovers = vec![ConsentedTakeover {
            item: "third".into(),
            path: Some("data.interval".into()),
            manager: None,
        }];
    });
    world.run();
    assert_eq!(world.phase(), Phase::InProgress);
    // Another manager takes it, with the value recorded in the plan.
    world.edit(&third, "flux", &json!({ "data": { "interval": 2 } }));
    world.edit(&third, "flux", &json!({ "data": { "interval": 1 } }));
    opens(&mut world);
    assert_eq!(world.written, [""; 0]);
    let why = world.condition("PlanStale").message;
    assert!(
        why.contains("owned by flux now, and was by argocd"),
        "{why}"
    );
}

#[test]
fn tightened_policy_stops_a_plan_before_its_next_item() {
    let mut world = Simulation::steps();
    world.action(Action::Apply);
    world.run();
    assert_eq!(world.written, ["first"]);
    world.policies = vec![Policy {
        name: "two".to_owned(),
        spec: ApprovalPolicySpec {
            required_approvals: 2,
            ..ApprovalPolicySpec::default()
        },
    }];
    world.roll_out("worker", 10);
    world.run();
    assert_eq!(world.written, ["first"]);
    assert_eq!(world.phase(), Phase::ReviewRequired);
    assert_eq!(world.item("second").state, ItemState::Pending);
    assert_eq!(
        world.status_and_reason("Approved").1,
        "ApprovalsNotRecorded"
    );
    world.check_rest();
}

/// Terms are approved with the plan: changing them during execution needs another approval.
#[test]
fn changed_terms_supersede_a_running_plan() {
    let mut world = Simulation::steps();
    world.action(Action::Apply);
    world.run();
    let before = world.digest();
    world.spec(|spec| {
        let own = spec.approval_policy.get_or_insert_default();
        own.required_approvals = RequiredApprovals {
            high: 1,
            medium: 1,
            low: 1,
        };
    });
    world.run();
    assert_eq!(world.phase(), Phase::ReviewRequired);
    assert_ne!(world.digest(), before);
    assert_eq!(world.written, ["first"]);
}
