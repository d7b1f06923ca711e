//! No dead ends: what failed is tried again, what is missing is awaited, and what cannot be read is named.

use api::advisor::{Action, FailurePolicy, ItemState, MaintenanceWindow, Phase};
use jiff::SignedDuration;
use rstest::rstest;
use serde_json::json;

use super::Simulation;
use super::profiles::config_map;
use crate::profile::kinds::{KUBE_DESCHEDULER, MACHINE_CONFIG_POOL};
use crate::record::PlanResult;

use ItemState::{Completed, Failed, InProgress, Pending};

/// The API server rejects the second of three items.
fn refused(policy: FailurePolicy) -> Simulation {
    let mut world = Simulation::steps();
    world.action(Action::Apply);
    world.spec(|spec| spec.failure_policy = policy);
    world.refusals.insert("second".into(), "forbidden".into());
    world.run();
    world.roll_out("worker", 10);
    world.run();
    world
}

fn outcomes(world: &Simulation) -> Vec<Option<PlanResult>> {
    let outcomes = world.records.iter();
    outcomes
        .map(|record| record.outcome.as_ref().map(|outcome| outcome.result))
        .collect()
}

/// Passes the time until the next attempt, and reconciles.
fn retry(world: &mut Simulation) {
    let at = world.status().retry.unwrap().at.unwrap().0;
    world.now = at;
    world.run();
}

#[rstest]
#[case::abort(FailurePolicy::Abort, Phase::Failed, PlanResult::Failed)]
#[case::go_on(
    FailurePolicy::Continue,
    Phase::CompletedWithErrors,
    PlanResult::CompletedWithErrors
)]
fn refused_item_is_tried_again_under_the_same_approval(
    #[case] policy: FailurePolicy,
    #[case] phase: Phase,
    #[case] result: PlanResult,
) {
    let mut world = refused(policy);
    assert_eq!(world.phase(), phase);
    let digest = world.digest();
    let wake = world.run().unwrap();
    assert_eq!(wake, world.status().retry.unwrap().at.unwrap().0);
    let wait = wake.duration_since(world.now);
    assert!(wait > SignedDuration::from_secs(28) && wait <= SignedDuration::from_secs(30));
    assert_eq!(
        outcomes(&world),
        [Some(result)],
        "the entry is not left open"
    );
    world.check_rest();

    // In vain: the interval doubles.
    retry(&mut world);
    assert_eq!(world.phase(), phase);
    let again = world.status().retry.unwrap();
    assert_eq!(again.attempts, 2);
    let wait = again.at.unwrap().0.duration_since(world.now);
    assert!(wait > SignedDuration::from_secs(58) && wait <= SignedDuration::from_secs(60));
    assert_eq!(outcomes(&world), [Some(result)]);
    world.check_rest();

    // The permission is granted.
    world.refusals.clear();
    retry(&mut world);
    assert_eq!(world.phase(), Phase::Completed);
    assert_eq!(world.states(), [Completed, Completed, Completed]);
    assert_eq!(world.digest(), digest, "it is the plan that was approved");
    assert_eq!(outcomes(&world), [Some(PlanResult::Completed)]);
    assert_eq!(world.status().retry, None);
    let mut written = world.written.clone();
    written.sort();
    assert_eq!(
        written,
        ["first", "second", "third"],
        "nothing is applied twice"
    );
    world.check_rest();
}

/// The wait for a healthy pool timed out. Each attempt waits for as long as the first.
#[test]
fn timed_out_item_is_awaited_again() {
    let mut world = Simulation::steps();
    world.action(Action::Apply);
    world.spec(|spec| spec.wait_timeout = Some("30m".into()));
    world.now = world.run().unwrap();
    world.run();
    assert_eq!(world.phase(), Phase::Failed);
    assert_eq!(world.states(), [Failed, Pending, Pending]);

    retry(&mut world);
    assert_eq!(world.phase(), Phase::InProgress);
    assert_eq!(world.states(), [InProgress, Pending, Pending]);
    assert_eq!(world.written, ["first"], "it is applied already");
    let ends = world.run().unwrap();
    assert!(ends.duration_since(world.now) > SignedDuration::from_mins(29));
    world.now = ends;
    world.run();
    assert_eq!(world.phase(), Phase::Failed);
    assert_eq!(world.status().retry.unwrap().attempts, 2);

    world.roll_out("worker", 10);
    retry(&mut world);
    assert_eq!(world.phase(), Phase::Completed);
    assert_eq!(world.written, ["first", "second", "third"]);
    assert_eq!(outcomes(&world), [Some(PlanResult::Completed)]);
}

/// What was reviewed is not there any more: another write would overwrite the edit.
#[test]
fn edit_before_the_retry_makes_the_plan_stale() {
    let mut world = refused(FailurePolicy::Abort);
    world.refusals.clear();
    let third = config_map("third");
    world.edit(&third, "admin", &json!({ "data": { "interval": 7 } }));
    retry(&mut world);
    assert_eq!(world.phase(), Phase::Failed);
    assert_eq!(world.status_and_reason("Failed").1, "PlanStale");
    assert_eq!(world.status().retry, None);
    assert_eq!(world.live(&third, "/data/interval"), json!(7));
    assert_eq!(world.run(), None, "it waits for a review");
    world.check_rest();
}

/// A disruptive item that was not applied waits for its window again.
#[test]
fn retry_of_a_disruptive_item_needs_a_window() {
    let mut world = Simulation::steps();
    world.refusals.insert("first".into(), "forbidden".into());
    world.action(Action::Apply);
    world.spec(|spec| {
        spec.maintenance_windows = vec![MaintenanceWindow {
            schedule: "0 12 * * *".into(),
            duration: "1m".into(),
            time_zone: None,
        }];
    });
    world.run();
    assert_eq!(world.phase(), Phase::Failed);
    world.refusals.clear();
    world.pass(SignedDuration::from_mins(2));
    world.run();
    assert_eq!(world.phase(), Phase::InProgress);
    assert_eq!(world.written, [""; 0]);
    world.now = world.status().next_window.unwrap().0;
    world.run();
    assert_eq!(world.written, ["first"]);
}

#[rstest]
#[case::under_apply(Action::Apply)]
#[case::under_dry_run(Action::DryRun)]
fn dry_run_on_a_failed_plan_plans_again(#[case] before: Action) {
    let mut world = refused(FailurePolicy::Abort);
    if before == Action::DryRun {
        // Nothing can be planned, so that the plan fails under DryRun.
        let source = config_map("source");
        world.edit(
            &source,
            "admin",
            &json!({ "data": { "limit": "unreadable" } }),
        );
        world.action(Action::DryRun);
        world.run();
        assert_eq!(world.phase(), Phase::Failed);
        world.edit(&source, "admin", &json!({ "data": { "limit": 5 } }));
        // DryRun on DryRun is no edit: the plan is generated again by itself.
        retry(&mut world);
    } else {
        world.action(Action::DryRun);
        world.run();
    }
    assert_eq!(world.phase(), Phase::ReviewRequired);
    assert_eq!(world.status().retry, None);
    assert_eq!(outcomes(&world), [Some(PlanResult::Failed)]);
    world.check_rest();
}

/// The items of the earlier plan are in the status until there is another one.
#[test]
fn plan_that_cannot_be_generated_does_not_revive_the_one_before() {
    let mut world = refused(FailurePolicy::Abort);
    let source = config_map("source");
    world.edit(
        &source,
        "admin",
        &json!({ "data": { "limit": "unreadable" } }),
    );
    world.options(|options| options.descheduling_interval_seconds = Some(90));
    world.run();
    assert_eq!(world.phase(), Phase::Failed);
    world.refusals.clear();
    retry(&mut world);
    assert_eq!(world.phase(), Phase::Failed);
    assert_eq!(
        world.condition("Failed").message,
        "Failed to generate plan items: source makes no sense"
    );
    assert_eq!(world.written, ["first"]);
    world.edit(&source, "admin", &json!({ "data": { "limit": 5 } }));
    retry(&mut world);
    assert_eq!(world.phase(), Phase::Completed);
    assert_eq!(
        world.live(&config_map("second"), "/data/interval"),
        json!(90)
    );
}

#[test]
fn missing_namespace_is_a_prerequisite_and_awaited() {
    let mut world = Simulation::steps();
    world.cluster.missing_namespaces.insert("there".into());
    world.action(Action::Apply);
    let wake = world.run().unwrap();
    assert_eq!(world.phase(), Phase::PrerequisiteFailed);
    let condition = world.condition("PrerequisitesMet");
    assert_eq!(condition.reason, "MissingNamespace");
    assert!(
        condition.message.contains("'there'"),
        "{}",
        condition.message
    );
    assert!(wake.duration_since(world.now) <= SignedDuration::from_secs(30));
    assert!(world.records.is_empty());
    world.check_rest();
    // However long it takes, and without an event for each attempt.
    let notices = world.notices.len();
    for _ in 0..12 {
        retry(&mut world);
        let next = world.status().retry.unwrap().at.unwrap().0;
        assert!(next.duration_since(world.now) <= SignedDuration::from_mins(5));
    }
    assert_eq!(world.notices.len(), notices);
    world.cluster.missing_namespaces.clear();
    retry(&mut world);
    assert_eq!(world.phase(), Phase::InProgress);
    assert_eq!(world.status_and_reason("PrerequisitesMet").0, "True");
    world.roll_out("worker", 10);
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
}

/// A namespace that is deleted while the plan waits for an item.
#[test]
fn namespace_deleted_during_execution_is_retried() {
    let mut world = Simulation::steps();
    world.action(Action::Apply);
    world.run();
    world.cluster.missing_namespaces.insert("there".into());
    world.roll_out("worker", 10);
    world.run();
    assert_eq!(world.phase(), Phase::Failed);
    let message = world.item("second").message.unwrap();
    assert_eq!(message, "Failed to apply: namespace there not found");
    world.cluster.missing_namespaces.clear();
    retry(&mut world);
    assert_eq!(world.phase(), Phase::Completed);
}

#[test]
fn unreadable_kind_is_named_and_awaited() {
    let mut world = Simulation::load_aware();
    let forbidden = "deschedulers is forbidden";
    let kinds = &mut world.cluster.unreadable;
    kinds.insert(KUBE_DESCHEDULER, forbidden.to_owned());
    world.run();
    assert_eq!(world.phase(), Phase::PrerequisiteFailed);
    let condition = world.condition("PrerequisitesMet");
    assert_eq!(condition.reason, "KindUnreadable");
    assert!(
        condition
            .message
            .contains("KubeDescheduler: deschedulers is forbidden")
    );
    world.check_rest();
    world.cluster.unreadable.clear();
    world.run();
    assert_eq!(world.phase(), Phase::ReviewRequired);
    assert_eq!(world.status_and_reason("PrerequisitesMet").0, "True");
}

/// Nothing is decided from what cannot be seen: a plan in progress is neither dropped nor continued.
#[test]
fn unreadable_kind_holds_a_plan_in_progress() {
    let mut world = Simulation::load_aware();
    world.action(Action::Apply);
    world.run();
    let states = world.states();
    let kinds = &mut world.cluster.unreadable;
    kinds.insert(MACHINE_CONFIG_POOL, "conversion webhook failed".to_owned());
    let wake = world.run().unwrap();
    assert_eq!(
        wake.duration_since(world.now),
        SignedDuration::from_secs(30)
    );
    assert_eq!(world.phase(), Phase::InProgress);
    assert_eq!(world.states(), states);
    assert_eq!(
        world.status_and_reason("PrerequisitesMet").1,
        "KindUnreadable"
    );
    let named = |reason: &str| {
        let notices = world.notices.iter();
        notices.filter(|notice| notice.reason == reason).count()
    };
    assert_eq!(named("KindUnreadable"), 1);
    world.check_rest();
    world.cluster.unreadable.clear();
    world.roll_out("worker", 10);
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
    assert_eq!(world.status_and_reason("PrerequisitesMet").0, "True");
}

/// The configuration was deleted in the middle of a plan and created again: its entry is closed.
#[test]
fn entry_of_a_lost_status_is_closed() {
    let mut world = Simulation::steps();
    world.action(Action::Apply);
    world.run();
    assert_eq!(outcomes(&world), [None]);
    world.config.status = None;
    world.action(Action::DryRun);
    world.run();
    assert_eq!(outcomes(&world), [Some(PlanResult::Superseded)]);
}
