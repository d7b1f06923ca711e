//! Going back to what was there before a revision, as a plan like any other.

use api::advisor::{Action, ConsentedTakeover, FIELD_MANAGER, Impact, Operation, Phase};
use serde_json::{Value, json};

use super::World;
use super::profiles::{config_map, machine_config};
use crate::decide::{Lock, lock};
use crate::record::Ending;

/// `third` was there before, with other values; `first` and `second` are ours.
fn completed() -> World {
    let mut world = World::steps();
    let patch = json!({ "data": { "interval": 1, "other": "x" } });
    world.edit(&config_map("third"), "", &patch);
    world.action(Action::Apply);
    world.run();
    world.roll_out("worker", 10);
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
    world
}

fn undo(world: &mut World, revision: Option<i64>) {
    world.spec(|spec| spec.rollback_to = revision);
}

#[test]
fn the_inverse_plan_restores_what_was_there_and_deletes_what_we_created() {
    let mut world = completed();
    world.action(Action::DryRun);
    undo(&mut world, Some(1));
    world.run();
    assert_eq!(world.phase(), Phase::ReviewRequired);
    // What was done last is undone first.
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
    // Removing a MachineConfig reboots, too.
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
        Ending::Completed
    );
    world.check_rest();
}

fn undone() -> World {
    let mut world = completed();
    undo(&mut world, Some(1));
    world.run();
    world.roll_out("worker", 10);
    world.run();
    assert_eq!(world.condition("Completed").reason, "RolledBack");
    world
}

/// Neither by itself, nor because something else is edited.
#[test]
fn what_is_undone_is_not_done_again_while_that_is_asked_for() {
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
fn without_the_wish_to_undo_there_is_a_plan_again() {
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
    // And it can be undone once more.
    undo(&mut world, Some(1));
    world.run();
    world.roll_out("worker", 10);
    world.run();
    assert_eq!(world.condition("Completed").reason, "RolledBack");
    assert_eq!(world.live(&config_map("third"), "/data/interval"), json!(1));
    assert!(world.cluster.get(&machine_config("first")).is_none());
}

/// The rest of the plan is not carried out, and what is asked for is not mistaken for done.
#[test]
fn undoing_a_plan_that_is_being_carried_out_stops_it() {
    let mut world = World::steps();
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
        Ending::Superseded
    );
    world.check_rest();
}

#[test]
fn somebody_elses_object_of_the_same_name_is_left_alone() {
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
fn a_later_revision_is_undone_and_the_earlier_ones_stay() {
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

/// Who owned a field before the first plan need not be who owned it before the one that is undone.
#[test]
fn fields_go_back_to_those_who_owned_them_before_what_is_undone() {
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
fn a_revision_that_there_was_not_cannot_be_undone() {
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
fn a_target_that_is_partly_given_back_is_gone_on_with() {
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
        // Somebody else wants something else.
        (json!({ "interval": 2, "mode": "fast" }), false),
        (json!({ "interval": 1, "mode": "slow" }), false),
    ] {
        let ours = json!({ "managedFields": [{ "manager": FIELD_MANAGER }] });
        let live = json!({ "metadata": ours, "data": data });
        let lock = lock(&item, Some(&live), "steps", false);
        assert_eq!(lock == Lock::Free, free, "{live}: {lock:?}");
    }
}
