use kube::api::DynamicObject;
use rstest::rstest;
use serde_json::{Value, json};

use super::{MigrationInputs, MigrationStep, step};
use crate::operators::kubevirt::fixtures::{launcher, object};
use crate::operators::kubevirt::launcher::Launcher;

fn migration(phase: &str) -> DynamicObject {
    object(json!({
        "metadata": { "name": "move", "uid": "m" },
        "spec": { "vmiName": "vm" },
        "status": { "phase": phase, "migrationState": { "sourcePod": "source" } },
    }))
}

fn instance(phase: &str, state: &Value) -> DynamicObject {
    object(json!({
        "metadata": { "name": "vm", "uid": "i" },
        "status": { "phase": phase, "nodeName": "a", "migrationState": state, "selinuxContext": "none" },
    }))
}

fn both() -> Vec<Launcher> {
    let target = Launcher {
        migration: Some("m".into()),
        ..launcher("target", "b")
    };
    vec![launcher("source", "a"), target]
}

/// Name of the next action.
fn does(
    migration: &DynamicObject,
    instance: Option<&DynamicObject>,
    launchers: &[Launcher],
) -> String {
    let inputs = MigrationInputs {
        migration,
        instance,
        launchers,
        overtaken: false,
        has_capacity: true,
    };
    match step(&inputs) {
        MigrationStep::Enter(phase) => format!("enter {phase}"),
        MigrationStep::Fail(why) => format!("fail: {why}"),
        MigrationStep::Clean(gone) => format!("clean {}", gone.name),
        other => format!("{other:?}")
            .split('(')
            .next()
            .unwrap_or_default()
            .to_owned(),
    }
}

#[rstest]
#[case("", json!(null), &["source"], "enter Pending")]
#[case("Pending", json!(null), &["source"], "Launch")]
#[case("Pending", json!(null), &["source", "target"], "enter Scheduling")]
#[case("Scheduling", json!(null), &["source", "target"], "enter Scheduled")]
#[case("Scheduling", json!(null), &["source"], "fail: Migration target pod was removed during active migration.")]
#[case("Scheduled", json!(null), &["source", "target"], "HandOver")]
// State left by an earlier migration is ignored.
#[case("Scheduled", json!({ "migrationUid": "old", "completed": true }), &["source", "target"], "HandOver")]
#[case("Scheduled", json!({ "migrationUid": "m" }), &["source", "target"], "enter PreparingTarget")]
#[case("PreparingTarget", json!({ "migrationUid": "m" }), &["source", "target"], "Nothing")]
#[case("PreparingTarget", json!({ "migrationUid": "m", "targetNodeAddress": "1.2.3.4" }), &["source", "target"], "enter TargetReady")]
#[case("TargetReady", json!({ "migrationUid": "m" }), &["source", "target"], "Nothing")]
#[case("TargetReady", json!({ "migrationUid": "m", "startTimestamp": "now" }), &["source", "target"], "enter Running")]
#[case("Running", json!({ "migrationUid": "m", "startTimestamp": "now" }), &["source", "target"], "Nothing")]
#[case("Running", json!({ "migrationUid": "m", "completed": true, "targetNodeDomainReadyTimestamp": "now" }), &["source", "target"], "Mark")]
#[case("Running", json!({ "migrationUid": "m", "completed": true }), &["source", "target"], "enter Succeeded")]
#[case("Running", json!({ "migrationUid": "m", "completed": true, "failed": true }), &["source", "target"], "fail: source node reported migration failed")]
#[case("Running", json!({ "migrationUid": "other" }), &["source", "target"], "fail: VMI's migration state was taken over by another migration job during active migration.")]
#[case("Running", json!({ "migrationUid": "m" }), &["source"], "fail: Migration target pod was removed during active migration.")]
#[case("Succeeded", json!({ "migrationUid": "m", "completed": true }), &["source", "target"], "Nothing")]
#[case("Failed", json!(null), &["source", "target"], "clean target")]
#[case("Failed", json!(null), &["source"], "Nothing")]
fn migration_advances_through_its_phases(
    #[case] phase: &str,
    #[case] state: Value,
    #[case] pods: &[&str],
    #[case] expected: &str,
) {
    let launchers: Vec<Launcher> = both()
        .into_iter()
        .filter(|one| pods.contains(&one.name.as_str()))
        .collect();
    let instance = instance("Running", &state);
    assert_eq!(
        does(&migration(phase), Some(&instance), &launchers),
        expected
    );
}

#[test]
fn migration_waits_for_its_target() {
    let mut pods = both();
    pods[1].ready = false;
    let instance = instance("Running", &json!(null));
    assert_eq!(
        does(&migration("Scheduling"), Some(&instance), &pods),
        "Await"
    );
    pods[1].phase = "Failed".into();
    assert_eq!(
        does(&migration("Scheduling"), Some(&instance), &pods),
        "fail: Migration failed because target pod shutdown during migration"
    );
}

#[test]
fn migration_needs_a_single_pod_and_a_free_slot() {
    let pending = migration("Pending");
    let starting = instance("Scheduled", &json!(null));
    assert_eq!(
        does(&pending, Some(&starting), &[launcher("source", "a")]),
        "Nothing"
    );
    let running = instance("Running", &json!(null));
    let left_behind = [launcher("source", "a"), launcher("earlier", "c")];
    assert_eq!(does(&pending, Some(&running), &left_behind), "Nothing");
    let crowded = MigrationInputs {
        migration: &pending,
        instance: Some(&running),
        launchers: &[launcher("source", "a")],
        overtaken: false,
        has_capacity: false,
    };
    assert_eq!(step(&crowded), MigrationStep::Nothing);
}

#[test]
fn instance_has_one_migration_at_a_time() {
    let second = migration("");
    let running = instance("Running", &json!(null));
    let inputs = MigrationInputs {
        migration: &second,
        instance: Some(&running),
        launchers: &[launcher("source", "a")],
        overtaken: true,
        has_capacity: true,
    };
    assert_eq!(
        step(&inputs),
        MigrationStep::Fail(
            "VMI is not eligible for migration because another migration job is in progress."
        )
    );
}

#[test]
fn migration_ends_with_its_instance() {
    let ended = instance("Succeeded", &json!(null));
    for phase in ["", "Pending", "Scheduling", "Running"] {
        assert_eq!(
            does(&migration(phase), Some(&ended), &both()),
            "fail: Migration failed vmi shutdown during migration."
        );
    }
    for phase in ["", "Running", "Succeeded"] {
        assert_eq!(does(&migration(phase), None, &[]), "Delete");
    }
}

#[test]
fn guest_without_a_context_does_not_migrate() {
    let mut starting = instance("Running", &json!(null));
    starting.data["status"]["selinuxContext"] = json!("");
    assert_eq!(
        does(
            &migration("Pending"),
            Some(&starting),
            &[launcher("source", "a")]
        ),
        "Nothing"
    );
}

#[test]
fn deleted_migration_is_cancelled_unless_complete() {
    let mut gone = migration("Running");
    gone.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).ok();
    gone.metadata.finalizers = Some(vec!["kubevirt.io/migrationJobFinalize".into()]);
    let moving = instance("Running", &json!({ "migrationUid": "m" }));
    assert_eq!(
        does(&gone, Some(&moving), &both()),
        "fail: Migration failed due to being canceled"
    );
    let arrived = instance(
        "Running",
        &json!({ "migrationUid": "m", "completed": true }),
    );
    assert_eq!(does(&gone, Some(&arrived), &both()), "enter Succeeded");
    gone.data["status"]["phase"] = json!("Failed");
    for instance in [Some(&moving), None] {
        assert_eq!(does(&gone, instance, &[launcher("source", "a")]), "Release");
    }
}
