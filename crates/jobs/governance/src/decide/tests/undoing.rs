//! Rollback to the state before a revision, as a plan like any other.

use api::advisor::{Action, ConsentedTakeover, FIELD_MANAGER, Impact, Operation, Phase};
use serde_json::{Value, json};

use super::Simulation;
use super::profiles::{config_map, machine_config};
use crate::decide::{Lock, lock};
use crate::record::PlanResult;

/// `third` existed before, with other values; `first` and `second` are ours.
fn completed() -> Simulation {
    let mut world = Simulation::steps();
    let patch = json!({ "data": { "interval": 1, "other": "x" } });
    world.edit(&config_map("third"), "", &patch);
    world.action(Action::Apply);
    world.run();
    world.roll_out("worker", 10);
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
    world
}

fn undo(world: &mut Simulation, revision: Option<i64>) {
    world.spec(|spec| spec.rollback_to = revision);
}

#[test]
fn rollback_restores_values_and_deletes_created_objects() {
    let mut world = completed();
    world.action(Action::DryRun);
    undo(&mut world, Some(1));
    world.run();
    assert_eq!(world.phase(), Phase::ReviewRequired);
    // The last change is undone first.
    let plan: Vec<_> = world
        .status()
        .items
        .iter()
        .map(|item| (item.name.clone(), item.operation))
        .collect();
    assert_eq!(
        plan,
        [
            ("restore-third".into(), Operation::Restore),
            ("remove-second".into(), Operation::Delete),
            ("remove-first".into(), Operation::Delete),
        ]
    );
    // Removing a MachineConfig reboots nodes as well.
    assert_eq!(world.status().impact_severity, Some(Impact::High));
    assert_eq!(world.written.len(), 3);
    let diff = world.item("restore-third").diff.unwrap();
    assert!(diff.contains("-  interval: 60\n+  interval: 1"), "{diff}");
    world.check_rest();

    world.action(Action::Apply);
    world.run();
    world.roll_out("worker", 10);
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
    let completed = world.condition("Completed");
    assert_eq!(completed.reason, "RolledBack");
    assert_eq!(
        completed.message,
        "Everything since revision 1 is undone. Remove spec.rollbackTo to plan again."
    );
    assert!(world.cluster.get(&machine_config("first")).is_none());
    assert!(world.cluster.get(&config_map("second")).is_none());
    let third = world.cluster.get(&config_map("third")).unwrap();
    assert_eq!(third["data"], json!({ "interval": 1, "other": "x" }));
    assert!(!crate::plan::owned(&third), "{third}");
    assert_eq!(world.status().rolled_back_to, Some(1));
    assert!(world.status().applied.is_empty());
    assert_eq!(world.records[1].rollback_to, Some(1));
    assert_eq!(
        world.records[1].outcome.as_ref().unwrap().result,
        PlanResult::Completed
    );
    world.check_rest();
}

fn undone() -> Simulation {
    let mut world = completed();
    undo(&mut world, Some(1));
    world.run();
    world.roll_out("worker", 10);
    world.run();
    assert_eq!(world.condition("Completed").reason, "RolledBack");
    world
}

/// Neither by itself, nor because of an unrelated edit.
#[test]
fn undone_changes_are_not_reapplied_during_rollback() {
    let mut world = undone();
    let written = world.written.len();
    world.edit(
        &config_map("third"),
        "kubectl",
        &json!({ "data": { "interval": 7 } }),
    );
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
    world.check_rest();
    world.spec(|spec| spec.wait_timeout = Some("1h".into()));
    world.run();
    assert_eq!(world.condition("Completed").reason, "RolledBack");
    world.action(Action::Ignore);
    world.run();
    world.action(Action::Apply);
    world.run();
    assert_eq!(world.condition("Completed").reason, "RolledBack");
    assert_eq!(world.written.len(), written);
    world.check_rest();
}

#[test]
fn removing_rollback_to_plans_again() {
    let mut world = undone();
    world.action(Action::DryRun);
    undo(&mut world, None);
    world.run();
    assert_eq!(world.phase(), Phase::ReviewRequired);
    assert_eq!(world.status().items.len(), 3);
    world.action(Action::Apply);
    world.run();
    world.roll_out("worker", 10);
    world.run();
    assert_eq!(world.condition("Completed").reason, "Completed");
    assert_eq!(
        world.live(&config_map("third"), "/data/interval"),
        json!(60)
    );
    // It can be undone again.
    undo(&mut world, Some(1));
    world.run();
    world.roll_out("worker", 10);
    world.run();
    assert_eq!(world.condition("Completed").reason, "RolledBack");
    assert_eq!(world.live(&config_map("third"), "/data/interval"), json!(1));
    assert!(world.cluster.get(&machine_config("first")).is_none());
}

/// The rest of the plan is not applied, and the request is not mistaken for completed.
#[test]
fn rollback_stops_a_running_plan() {
    let mut world = Simulation::steps();
    world.action(Action::Apply);
    world.run();
    assert_eq!(world.written, ["first"]);
    undo(&mut world, Some(1));
    world.roll_out("worker", 10);
    world.run();
    world.roll_out("worker", 10);
    world.run();
    assert_eq!(world.written, ["first", "remove-first"]);
    assert_eq!(world.condition("Completed").reason, "RolledBack");
    assert!(world.cluster.get(&machine_config("first")).is_none());
    assert_eq!(
        world.records[0].outcome.as_ref().unwrap().result,
        PlanResult::Superseded
    );
    world.check_rest();
}

#[test]
fn foreign_object_of_the_same_name_is_not_deleted() {
    let mut world = completed();
    let second = config_map("second");
    world.cluster.delete(&second);
    world.edit(&second, "kubectl", &json!({ "data": { "mine": 1 } }));
    undo(&mut world, Some(1));
    world.run();
    world.roll_out("worker", 10);
    world.run();
    assert_eq!(world.condition("Completed").reason, "RolledBack");
    assert_eq!(world.live(&second, "/data"), json!({ "mine": 1 }));
    assert!(!world.written.contains(&"remove-second".to_owned()));
}

#[test]
fn rollback_of_a_later_revision_keeps_earlier_ones() {
    let mut world = completed();
    world.options(|options| options.descheduling_interval_seconds = Some(90));
    world.run();
    assert_eq!(world.status().revision, Some(2));
    undo(&mut world, Some(2));
    world.run();
    assert_eq!(world.condition("Completed").reason, "RolledBack");
    assert_eq!(
        world.live(&config_map("second"), "/data/interval"),
        json!(60)
    );
    assert_eq!(
        world.live(&config_map("third"), "/data/interval"),
        json!(60)
    );
    assert!(world.cluster.get(&machine_config("first")).is_some());
    world.check_rest();
}

/// The owner of a field before the first plan may differ from the owner before the revision that is undone.
#[test]
fn fields_are_restored_to_their_former_owners() {
    let mut world = undone();
    undo(&mut world, None);
    world.action(Action::DryRun);
    world.edit(
        &config_map("third"),
        "kubectl",
        &json!({ "data": { "interval": 33 } }),
    );
    world.run();
    world.spec(|spec| {
        spec.action = Action::Apply;
        let consent = ConsentedTakeover {
            item: "third".into(),
            path: None,
            manager: None,
        };
        spec.approval.get_or_insert_default().takeovers = vec![consent];
    });
    world.run();
    world.roll_out("worker", 10);
    world.run();
    assert_eq!(world.status().revision, Some(3));
    undo(&mut world, Some(3));
    world.run();
    world.roll_out("worker", 10);
    world.run();
    assert_eq!(world.condition("Completed").reason, "RolledBack");
    let third = world.cluster.get(&config_map("third")).unwrap();
    assert_eq!(third["data"]["interval"], json!(33));
    let owners = third["metadata"]["managedFields"].as_array().unwrap();
    let owns = |entry: &Value| entry["fieldsV1"]["f:data"].get("f:interval").is_some();
    let owners: Vec<_> = owners.iter().filter(|entry| owns(entry)).collect();
    assert_eq!(owners[0]["manager"], "kubectl");
}

#[test]
fn unknown_revision_cannot_be_undone() {
    let mut world = completed();
    undo(&mut world, Some(7));
    world.run();
    assert_eq!(world.phase(), Phase::PrerequisiteFailed);
    assert_eq!(
        world.condition("PrerequisiteFailed").message,
        "Invalid config: spec.rollbackTo: 7 is not in the history; there is 1"
    );
    world.check_rest();
}

#[test]
fn partly_restored_target_is_resumed() {
    let mut world = completed();
    world.action(Action::DryRun);
    undo(&mut world, Some(1));
    world.run();
    let mut item = world.item("restore-third");
    item.managed_fields = vec!["data.interval".to_owned(), "data.mode".to_owned()];
    let base = [("data.interval", json!(60)), ("data.mode", json!("fast"))];
    item.base = Some(base.map(|(path, value)| (path.to_owned(), value)).into());
    item.desired_state = Some(json!({ "data": { "interval": 1 } }));
    for (data, free) in [
        (json!({ "interval": 60, "mode": "fast" }), true),
        // One owner has its field back, the other one does not.
        (json!({ "interval": 1, "mode": "fast" }), true),
        (json!({ "interval": 60 }), true),
        (json!({ "interval": 1 }), true),
        // Another manager set another value.
        (json!({ "interval": 2, "mode": "fast" }), false),
        (json!({ "interval": 1, "mode": "slow" }), false),
    ] {
        let ours = json!({ "managedFields": [{ "manager": FIELD_MANAGER }] });
        let live = json!({ "metadata": ours, "data": data });
        let lock = lock(&item, Some(&live), "steps", false);
        assert_eq!(lock == Lock::Free, free, "{live}: {lock:?}");
    }
}
