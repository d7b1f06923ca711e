//! Execution of a plan: item order, locks, windows and timeouts.

use api::advisor::{Action, FailurePolicy, ItemState, MaintenanceWindow, Phase};
use jiff::SignedDuration;
use rstest::rstest;
use serde_json::json;

use super::Simulation;
use super::profiles::{config_map, machine_config};
use crate::record::PlanResult;

use ItemState::{Completed, Failed, InProgress, Pending};

/// The three steps, applied; the first waits for its pool.
fn begun(change: impl FnOnce(&mut Simulation)) -> Simulation {
    let mut world = Simulation::steps();
    world.action(Action::Apply);
    change(&mut world);
    world.run();
    world
}

fn ending(world: &Simulation, revision: i64) -> Option<PlanResult> {
    let mut records = world.records.iter();
    let record = records.find(|record| record.revision == revision)?;
    record.outcome.as_ref().map(|outcome| outcome.result)
}

/// Items behind one that has to be watched follow one another without a decision of their own.
#[test]
fn items_follow_in_a_batch_unless_anything_else_changes() {
    let mut world = begun(|world| world.batches = true);
    world.roll_out("worker", 10);
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
    assert_eq!(world.written, ["first", "second", "third"]);
    assert_eq!(world.followed, 1, "third follows second");

    // Another manager edits the last target while the item before is applied.
    let mut world = begun(|world| world.batches = true);
    world.roll_out("worker", 10);
    world.overtaken = Some((config_map("third"), json!({ "data": { "interval": 7 } })));
    world.run();
    assert_eq!(world.written, ["first", "second"]);
    assert_eq!(world.followed, 0);
    assert_eq!(
        world.status_and_reason("Failed"),
        ("True".into(), "PlanStale".into())
    );
}

/// B1, B2: right after the write the pool still reports that it is up to date.
#[test]
fn item_waits_for_the_previous_one() {
    let mut world = begun(|_| {});
    assert_eq!(world.states(), [InProgress, Pending, Pending]);
    assert_eq!(
        world.item("first").message.unwrap(),
        "Waiting for MachineConfigPool 'worker' to render 'first'"
    );
    for updated in [0, 2, 9] {
        world.roll_out("worker", updated);
        world.run();
        assert_eq!(world.states(), [InProgress, Pending, Pending]);
        let message = world.item("first").message.unwrap();
        assert!(message.contains(&format!("{updated}/10")), "{message}");
        assert_eq!(world.written, ["first"]);
        assert!(world.cluster.get(&config_map("second")).is_none());
        world.check_rest();
    }
    world.roll_out("worker", 10);
    world.run();
    assert_eq!(world.states(), [Completed, Completed, Completed]);
    assert_eq!(world.written, ["first", "second", "third"]);
}

/// B3, B4: a timeout requeues itself and is final.
#[test]
fn timeout_fails_the_plan() {
    let mut world = begun(|world| world.spec(|spec| spec.wait_timeout = Some("1h30m".into())));
    world.roll_out("worker", 2);
    let wake = world.run().unwrap();
    let waited = wake.duration_since(world.now);
    assert!(waited > SignedDuration::from_mins(89) && waited <= SignedDuration::from_mins(90));
    world.now = wake;
    world.run();
    assert_eq!(world.phase(), Phase::Failed);
    assert_eq!(world.states(), [Failed, Pending, Pending]);
    let message = world.item("first").message.unwrap();
    assert_eq!(
        message,
        "Timeout waiting for resource to become healthy (waited 1h30m0s, timeout 1h30m0s): MachineConfigPool 'worker' is updating (Updated: 2/10, Ready: 2/10)"
    );
    assert_eq!(
        world.condition("Failed").message,
        format!("Item 'first' failed: {message}")
    );
    assert_eq!(ending(&world, 1), Some(PlanResult::Failed));
    world.check_rest();
    // Nothing is retried without a request, even when the nodes are done at last.
    world.roll_out("worker", 10);
    world.run();
    assert_eq!(world.phase(), Phase::Failed);
    assert_eq!(world.written, ["first"]);
    // On request it resumes.
    world.spec(|spec| spec.wait_timeout = Some("2h".into()));
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
    assert_eq!(world.written, ["first", "second", "third"]);
}

/// B3 with Continue: the failure is reported at the end, until the item is healthy.
#[test]
fn timeout_with_continue_completes_with_errors() {
    let mut world = begun(|world| {
        world.spec(|spec| {
            spec.wait_timeout = Some("30m".into());
            spec.failure_policy = FailurePolicy::Continue;
        });
    });
    world.now = world.run().unwrap();
    world.run();
    assert_eq!(world.phase(), Phase::CompletedWithErrors);
    assert_eq!(world.states(), [Failed, Completed, Completed]);
    assert_eq!(ending(&world, 1), Some(PlanResult::CompletedWithErrors));
    // B9.
    assert_eq!(
        world.status_and_reason("Completed"),
        ("False".into(), "CompletedWithErrors".into())
    );
    let message = world.condition("CompletedWithErrors").message;
    assert!(
        message.starts_with("Plan completed but some items failed"),
        "{message}"
    );
    world.check_rest();
    world.roll_out("worker", 10);
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
    assert_eq!(world.states(), [Completed, Completed, Completed]);
    world.check_rest();
}

#[rstest]
#[case::abort(FailurePolicy::Abort, Phase::Failed, [Completed, Failed, Pending], PlanResult::Failed)]
#[case::go_on(FailurePolicy::Continue, Phase::CompletedWithErrors, [Completed, Failed, Completed], PlanResult::CompletedWithErrors)]
fn rejected_write_fails_the_item(
    #[case] policy: FailurePolicy,
    #[case] phase: Phase,
    #[case] states: [ItemState; 3],
    #[case] end: PlanResult,
) {
    let mut world = begun(|world| {
        world.spec(|spec| spec.failure_policy = policy);
        world.refusals.insert("second".into(), "no way".into());
    });
    world.roll_out("worker", 10);
    world.run();
    assert_eq!(world.phase(), phase);
    assert_eq!(world.states(), states);
    assert_eq!(
        world.item("second").message.unwrap(),
        "Failed to apply: no way"
    );
    assert_eq!(ending(&world, 1), Some(end));
    world.check_rest();
    // B8: a failed item can be retried.
    world.refusals.clear();
    world.spec(|spec| spec.wait_timeout = Some("9h".into()));
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
    assert_eq!(world.live(&config_map("second"), "/data/limit"), json!(5));
}

#[test]
fn changed_target_makes_the_plan_stale() {
    let mut world = Simulation::steps();
    let third = config_map("third");
    world.edit(&third, "", &json!({ "data": { "interval": 1 } }));
    world.run();
    world.edit(&third, "", &json!({ "data": { "interval": 2 } }));
    world.action(Action::Apply);
    world.run();
    assert_eq!(world.phase(), Phase::Failed);
    let failed = world.condition("Failed");
    assert_eq!(failed.reason, "PlanStale");
    assert_eq!(
        failed.message,
        "Plan is stale: target resources have been modified since plan generation. Please regenerate the plan by changing action to DryRun, then review and re-approve. ConfigMap there/third: data.interval changed from 1 to 2"
    );
    let stale = world.condition("PlanStale");
    assert_eq!(
        (stale.status.as_str(), stale.reason.as_str()),
        ("True", "TargetChanged")
    );
    assert_eq!(
        stale.message,
        "ConfigMap there/third: data.interval changed from 1 to 2"
    );
    assert_eq!(world.states(), [Pending, Pending, Pending]);
    assert_eq!(world.written, [""; 0]);
    assert_eq!(world.records.len(), 0);
    world.check_rest();
    world.action(Action::DryRun);
    world.run();
    assert_eq!(world.phase(), Phase::ReviewRequired);
    assert_eq!(
        world.status_and_reason("PlanStale"),
        ("False".into(), "Replanned".into())
    );
}

#[rstest]
#[case::came(json!({ "data": { "interval": 9 } }), "ConfigMap there/second did not exist and was created")]
fn target_changed_before_the_write_is_not_written(
    #[case] patch: serde_json::Value,
    #[case] expected_message: &str,
) {
    let mut world = begun(|_| {});
    world.overtaken = Some((config_map("second"), patch.clone()));
    world.roll_out("worker", 10);
    world.run();
    assert_eq!(world.phase(), Phase::Failed);
    assert_eq!(world.condition("PlanStale").message, expected_message);
    assert_eq!(world.states(), [Completed, Pending, Pending]);
    assert_eq!(world.live(&config_map("second"), "/data"), patch["data"]);
    assert_eq!(ending(&world, 1), Some(PlanResult::Failed));
}

#[test]
fn bypassed_lock_is_not_checked() {
    let mut world = Simulation::steps();
    let third = config_map("third");
    world.edit(&third, "argocd", &json!({ "data": { "interval": 1 } }));
    world.run();
    world.edit(&third, "argocd", &json!({ "data": { "interval": 2 } }));
    world.spec(|spec| {
        spec.action = Action::Apply;
        spec.bypass_optimistic_lock = true;
    });
    world.run();
    world.roll_out("worker", 10);
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
    assert_eq!(world.live(&third, "/data/interval"), json!(60));
}

/// B17.
#[test]
fn dry_run_stops_the_plan_before_the_next_item() {
    let mut world = begun(|_| {});
    world.roll_out("worker", 5);
    world.action(Action::DryRun);
    world.run();
    assert_eq!(world.phase(), Phase::ReviewRequired);
    assert_eq!(world.written, ["first"]);
    assert_eq!(ending(&world, 1), Some(PlanResult::Superseded));
    world.roll_out("worker", 10);
    world.run();
    assert_eq!(world.phase(), Phase::ReviewRequired);
    assert_eq!(world.written, ["first"]);
    world.check_rest();
    world.action(Action::Apply);
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
    // Nothing is applied twice.
    assert_eq!(world.written, ["first", "second", "third"]);
}

/// B17: while nodes reboot, an edit of the applied state is not reverted.
#[test]
fn applied_item_is_not_reapplied_while_waiting() {
    let mut world = begun(|_| {});
    world.roll_out("worker", 3);
    world.run();
    let first = machine_config("first");
    world.edit(
        &first,
        "admin",
        &json!({ "spec": { "kernelArguments": ["psi=0"] } }),
    );
    world.run();
    assert_eq!(world.written, ["first"]);
    assert_eq!(
        world.live(&first, "/spec/kernelArguments"),
        json!(["psi=0"])
    );
}

/// B18: it is reported as drift afterwards.
#[test]
fn edit_during_rollout_is_drift_afterwards() {
    let mut world = begun(|_| {});
    let first = machine_config("first");
    world.edit(
        &first,
        "admin",
        &json!({ "spec": { "kernelArguments": ["psi=0"] } }),
    );
    world.roll_out("worker", 10);
    world.run();
    assert_eq!(world.phase(), Phase::Drifted);
    assert_eq!(world.written, ["first", "second", "third"]);
    world.check_rest();
}

#[test]
fn ignoring_stops_the_plan_at_once() {
    let mut world = begun(|_| {});
    world.action(Action::Ignore);
    world.run();
    assert_eq!(world.phase(), Phase::Ignored);
    assert_eq!(ending(&world, 1), Some(PlanResult::Superseded));
    world.roll_out("worker", 10);
    world.run();
    assert_eq!(world.written, ["first"]);
    world.check_rest();
}

#[test]
fn changed_inputs_stop_the_plan_for_review() {
    let mut world = begun(|_| {});
    world.edit(
        &config_map("source"),
        "admin",
        &json!({ "data": { "limit": 8 } }),
    );
    world.roll_out("worker", 10);
    world.run();
    assert_eq!(world.phase(), Phase::ReviewRequired);
    assert_eq!(world.written, ["first"]);
    assert_eq!(
        world.status_and_reason("InputDependencyDrift"),
        ("True".into(), "InputChanged".into())
    );
    world.check_rest();
}

fn nightly() -> MaintenanceWindow {
    MaintenanceWindow {
        schedule: "0 2 * * *".into(),
        duration: "1h".into(),
        time_zone: None,
    }
}

#[test]
fn disruptive_items_wait_for_their_window() {
    let mut world = begun(|world| world.spec(|spec| spec.maintenance_windows = vec![nightly()]));
    let opens = "2026-07-02T02:00:00Z".parse().unwrap();
    assert_eq!(world.run(), Some(opens));
    assert_eq!(world.phase(), Phase::InProgress);
    assert_eq!(world.states(), [Pending, Pending, Pending]);
    assert_eq!(world.status().next_window.unwrap().0, opens);
    assert_eq!(
        world.item("first").message.unwrap(),
        "Waiting for a maintenance window (the next one opens at 2026-07-02T02:00:00Z)"
    );
    assert_eq!(world.written, [""; 0]);
    world.check_rest();
    world.now = opens;
    world.run();
    assert_eq!(world.written, ["first"]);
    assert_eq!(world.status().next_window, None);
    // A started item continues after the window has closed, and items without disruption need none.
    world.pass(SignedDuration::from_hours(5));
    world.roll_out("worker", 10);
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
    assert_eq!(world.written, ["first", "second", "third"]);
}

#[test]
fn items_without_disruption_need_no_window() {
    let mut world = begun(|world| {
        world.spec(|spec| spec.maintenance_windows = vec![nightly()]);
        world.options(|options| options.enable_psi_metrics = Some(false));
    });
    assert_eq!(world.phase(), Phase::Completed);
    assert_eq!(world.written, ["second", "third"]);
    world.check_rest();
}

/// Unparsable windows let nothing start.
#[test]
fn invalid_window_does_not_open() {
    let mut world = begun(|world| world.spec(|spec| spec.maintenance_windows = vec![nightly()]));
    world.spec(|spec| spec.maintenance_windows[0].schedule = "whenever".into());
    world.run();
    assert_eq!(world.phase(), Phase::PrerequisiteFailed);
    assert_eq!(world.written, [""; 0]);
}

/// B14.
#[test]
fn empty_paused_and_custom_pools() {
    // A pool without nodes is not disrupted, and not waited for.
    let mut world = Simulation::steps();
    world.pool("worker", 0);
    world.action(Action::Apply);
    world.run();
    world.roll_out("worker", 0);
    world.run();
    assert_eq!(world.phase(), Phase::Completed);

    // All pools that select the MachineConfig are waited for.
    let mut world = begun(|world| world.pool("infra", 3));
    world.roll_out("worker", 10);
    world.run();
    assert_eq!(world.states(), [InProgress, Pending, Pending]);
    let message = world.item("first").message.unwrap();
    assert!(message.contains("'infra'"), "{message}");

    // A paused pool is reported; it does not roll out by itself.
    world.pause_pool("infra", true);
    world.run();
    let message = world.item("first").message.unwrap();
    assert!(
        message.contains("MachineConfigPool 'infra' is paused"),
        "{message}"
    );
    world.pause_pool("infra", false);
    world.roll_out("infra", 3);
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
}

/// B19.
#[test]
fn every_started_plan_is_in_the_history() {
    let mut world = begun(|_| {});
    world.roll_out("worker", 10);
    world.run();
    for interval in [90, 120] {
        world.options(|options| options.descheduling_interval_seconds = Some(interval));
        world.run();
    }
    assert_eq!(world.phase(), Phase::Completed);
    let revisions: Vec<_> = world.records.iter().map(|record| record.revision).collect();
    assert_eq!(revisions, [1, 2, 3]);
    assert_eq!(world.status().revision, Some(3));
    for record in &world.records {
        let outcome = record.outcome.as_ref().unwrap();
        assert_eq!(outcome.result, PlanResult::Completed);
        assert_eq!(
            outcome.message,
            "Configuration successfully applied and in sync"
        );
        assert_eq!(record.operator_version, "v0.1.30");
    }
    let first = &world.records[0].items;
    assert_eq!(first.len(), 3);
    assert_eq!(first[0].before, None);
    let before = world.records[2].items[1].before.clone().unwrap();
    assert_eq!(before["data.interval"], json!(90));
    assert_eq!(world.records[0].inputs[0].derived, json!(5));
}

/// B15: what is no longer desired is removed, by an item that is reviewed like any other.
#[test]
fn disabled_option_removes_its_object() {
    let mut world = begun(|_| {});
    world.roll_out("worker", 10);
    world.run();
    world.spec(|spec| {
        spec.action = Action::DryRun;
        let options = spec.options.get_or_insert_default();
        options
            .load_aware
            .get_or_insert_default()
            .enable_psi_metrics = Some(false);
    });
    world.run();
    assert_eq!(world.phase(), Phase::ReviewRequired);
    let removal = world.item("remove-first");
    assert_eq!(removal.operation, api::advisor::Operation::Delete);
    assert_eq!(removal.impact_severity, Some(api::advisor::Impact::High));
    assert!(removal.diff.unwrap().contains("-  - psi=1"));
    world.action(Action::Apply);
    world.run();
    assert!(world.cluster.get(&machine_config("first")).is_none());
    assert_eq!(world.phase(), Phase::InProgress);
    world.roll_out("worker", 10);
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
    assert_eq!(world.item("remove-first").state, Completed);
    world.check_rest();
    // Its absence is no drift.
    assert!(
        world
            .status()
            .applied
            .iter()
            .all(|applied| applied.name != "first")
    );
}

/// B15, the converse: objects that existed before us are not removed.
#[test]
fn preexisting_objects_are_not_removed() {
    let mut world = Simulation::steps();
    let patch = json!({
        "metadata": { "labels": { "machineconfiguration.openshift.io/role": "worker" } },
        "spec": { "kernelArguments": ["psi=1"] },
    });
    world.edit(&machine_config("first"), "admin", &patch);
    world.edit(
        &config_map("second"),
        "admin",
        &json!({ "data": { "interval": 60, "limit": 5, "logic": 1 } }),
    );
    world.edit(
        &config_map("third"),
        "admin",
        &json!({ "data": { "interval": 60 } }),
    );
    world.roll_out("worker", 10);
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
    assert_eq!(world.records.len(), 0);
    world.action(Action::Apply);
    world.options(|options| options.enable_psi_metrics = Some(false));
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
    assert_eq!(
        world.live(&machine_config("first"), "/spec/kernelArguments"),
        json!(["psi=1"])
    );
    assert_eq!(world.written, [""; 0]);
}
