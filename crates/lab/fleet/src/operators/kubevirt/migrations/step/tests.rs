use kube::api::DynamicObject;
use rstest::rstest;
use serde_json::{Value, json};

use super::{Facts, Step, step};
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
        "status": { "phase": phase, "nodeName": "a", "migrationState": state },
    }))
}

fn both() -> Vec<Launcher> {
    let target = Launcher {
        migration: Some("m".into()),
        ..launcher("target", "b")
    };
    vec![launcher("source", "a"), target]
}

/// What is done, without the details.
fn does(
    migration: &DynamicObject,
    instance: Option<&DynamicObject>,
    launchers: &[Launcher],
) -> String {
    let facts = Facts {
        migration,
        instance,
        launchers,
        overtaken: false,
        room: true,
    };
    match step(&facts) {
        Step::Enter(phase) => format!("enter {phase}"),
        Step::Fail(why) => format!("fail: {why}"),
        Step::Clean(gone) => {
            let names: Vec<&str> = gone.iter().map(|one| one.name.as_str()).collect();
            format!("clean {}", names.join(" "))
        }
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
// What an earlier migration left behind is not this one's.
#[case("Scheduled", json!({ "migrationUid": "old", "completed": true }), &["source", "target"], "HandOver")]
#[case("Scheduled", json!({ "migrationUid": "m" }), &["source", "target"], "enter PreparingTarget")]
#[case("PreparingTarget", json!({ "migrationUid": "m" }), &["source", "target"], "Prepare")]
#[case("PreparingTarget", json!({ "migrationUid": "m", "targetNodeAddress": "1.2.3.4" }), &["source", "target"], "enter TargetReady")]
#[case("TargetReady", json!({ "migrationUid": "m" }), &["source", "target"], "Begin")]
#[case("TargetReady", json!({ "migrationUid": "m", "startTimestamp": "now" }), &["source", "target"], "enter Running")]
#[case("Running", json!({ "migrationUid": "m", "startTimestamp": "now" }), &["source", "target"], "Move")]
#[case("Running", json!({ "migrationUid": "m", "completed": true }), &["source", "target"], "enter Succeeded")]
#[case("Running", json!({ "migrationUid": "m", "completed": true, "failed": true }), &["source", "target"], "fail: source node reported migration failed")]
#[case("Running", json!({ "migrationUid": "other" }), &["source", "target"], "fail: VMI's migration state was taken over by another migration job during active migration.")]
#[case("Running", json!({ "migrationUid": "m" }), &["source"], "fail: Migration target pod was removed during active migration.")]
#[case("Succeeded", json!({ "migrationUid": "m", "completed": true }), &["source", "target"], "clean source")]
#[case("Succeeded", json!({ "migrationUid": "m", "completed": true }), &["target"], "Nothing")]
#[case("Failed", json!(null), &["source", "target"], "clean target")]
#[case("Failed", json!(null), &["source"], "Nothing")]
fn a_migration_goes_its_way(
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
fn a_target_that_is_not_ready_is_waited_for() {
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
fn only_what_runs_in_one_pod_is_moved_and_only_where_there_is_room() {
    let pending = migration("Pending");
    let starting = instance("Scheduled", &json!(null));
    assert_eq!(
        does(&pending, Some(&starting), &[launcher("source", "a")]),
        "Nothing"
    );
    let running = instance("Running", &json!(null));
    let left_behind = [launcher("source", "a"), launcher("earlier", "c")];
    assert_eq!(does(&pending, Some(&running), &left_behind), "Nothing");
    let crowded = Facts {
        migration: &pending,
        instance: Some(&running),
        launchers: &[launcher("source", "a")],
        overtaken: false,
        room: false,
    };
    assert_eq!(step(&crowded), Step::Nothing);
}

#[test]
fn an_instance_has_one_migration_at_a_time() {
    let second = migration("");
    let running = instance("Running", &json!(null));
    let facts = Facts {
        migration: &second,
        instance: Some(&running),
        launchers: &[launcher("source", "a")],
        overtaken: true,
        room: true,
    };
    assert_eq!(
        step(&facts),
        Step::Fail(
            "VMI is not eligible for migration because another migration job is in progress."
        )
    );
}

#[rstest]
#[case(None, "fail: Migration failed because vmi does not exist.")]
#[case(
    Some("Succeeded"),
    "fail: Migration failed vmi shutdown during migration."
)]
fn without_an_instance_there_is_nothing_to_move(
    #[case] phase: Option<&str>,
    #[case] expected: &str,
) {
    let instance = phase.map(|phase| instance(phase, &json!(null)));
    for phase in ["", "Pending", "Scheduling", "Running"] {
        assert_eq!(
            does(&migration(phase), instance.as_ref(), &both()),
            expected
        );
    }
}

#[test]
fn a_migration_that_is_deleted_is_cancelled_unless_it_has_arrived() {
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
    assert_eq!(
        does(&gone, Some(&moving), &[launcher("source", "a")]),
        "Release"
    );
}
