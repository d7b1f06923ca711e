//! The descheduler operator rejects what was applied: at once, or later.

use api::advisor::{Action, ItemState, Phase};
use serde_json::{Value, json};

use super::Simulation;
use super::world::descheduler;

const ITEM: &str = "enable-load-aware-descheduling";
const REASON: &str =
    "unable to get openshift-monitoring/prometheus-k8s route: route \"prometheus-k8s\" not found";

fn reports(world: &mut Simulation, status: &str, reason: &str) {
    let condition: Value =
        json!({ "type": "TargetConfigControllerDegraded", "status": status, "reason": reason });
    let status = json!({ "status": { "conditions": [condition] } });
    world.edit(&descheduler(), "operator", &status);
    world.run();
}

fn applied() -> Simulation {
    let mut world = Simulation::load_aware();
    world.action(Action::Apply);
    world.run();
    world.roll_out("worker", 10);
    world
}

#[test]
fn degraded_descheduler_is_not_completed() {
    let mut world = applied();
    reports(&mut world, "True", REASON);
    assert_eq!(world.phase(), Phase::InProgress);
    let message = world.item(ITEM).message.unwrap();
    assert_eq!(message, format!("KubeDescheduler is degraded: {REASON}"));
    reports(&mut world, "False", "");
    assert_eq!(world.phase(), Phase::Completed);
}

#[test]
fn descheduler_that_degrades_later_is_no_longer_completed() {
    let mut world = applied();
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
    let written = world.written.clone();

    reports(&mut world, "True", REASON);
    assert_eq!(world.phase(), Phase::CompletedWithErrors);
    assert_eq!(world.item(ITEM).state, ItemState::Failed);
    let message = world.item(ITEM).message.unwrap();
    let expected = format!("Health check failed: KubeDescheduler is degraded: {REASON}");
    assert_eq!(message, expected);
    world.check_rest();

    // It tries again by itself.
    reports(&mut world, "False", "");
    assert_eq!(world.phase(), Phase::Completed);
    assert_eq!(world.item(ITEM).state, ItemState::Completed);
    assert_eq!(world.written, written, "nothing is applied again");
    world.check_rest();
}
