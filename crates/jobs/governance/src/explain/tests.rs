//! Every phase says why it is so and what would move it on.

use std::collections::BTreeSet;

use api::advisor::{Action, FailurePolicy, MaintenanceWindow, Phase};
use serde_json::json;

use super::{Explanation, explain};
use crate::decide::tests::World;
use crate::decide::tests::profiles::{Steps, config_map};
use crate::profile::kinds::CONFIG_MAP;

fn told(world: &World) -> Explanation {
    let explanation = explain(&world.config);
    assert!(!explanation.because.is_empty(), "{explanation:?}");
    assert!(!explanation.next.is_empty(), "{explanation:?}");
    for line in explanation.because.iter().chain(&explanation.next) {
        assert!(!line.trim().is_empty(), "{explanation:?}");
    }
    explanation
}

fn says(lines: &[String], text: &str) {
    assert!(
        lines.iter().any(|line| line.contains(text)),
        "{text:?} in {lines:#?}"
    );
}

fn completed() -> World {
    let mut world = World::steps();
    world.action(Action::Apply);
    world.run();
    world.roll_out("worker", 10);
    world.run();
    world
}

#[test]
fn nobody_has_looked_yet() {
    let world = World::steps();
    let explanation = told(&world);
    assert_eq!(explanation.state, "steps has not been looked at yet.");
}

/// Every phase is reached, on the way or at rest.
#[test]
fn every_phase_has_a_reason_and_a_next_step() {
    let mut seen = BTreeSet::new();
    let mut look = |world: &World| {
        told(world);
        seen.insert(world.phase());
    };
    for effects in 1..=2 {
        let mut world = World::steps();
        world.kill_after = Some(effects);
        world.run_until_killed();
        look(&world);
    }
    let mut world = World::steps();
    world.run();
    look(&world);
    world.action(Action::Ignore);
    world.run();
    look(&world);
    world.action(Action::Apply);
    world.run();
    look(&world);
    world.roll_out("worker", 10);
    world.run();
    look(&world);
    world.edit(
        &config_map("third"),
        "kubectl",
        &json!({ "data": { "interval": 1 } }),
    );
    world.run();
    look(&world);
    let mut world = completed();
    world.profile = Some(std::sync::Arc::new(Steps { logic: 2 }));
    world.run();
    look(&world);
    world.cluster.uninstall(CONFIG_MAP);
    world.run();
    look(&world);
    for policy in [FailurePolicy::Abort, FailurePolicy::Continue] {
        let mut world = World::steps();
        world.refusals.insert("second".into(), "no way".into());
        world.action(Action::Apply);
        world.spec(|spec| spec.failure_policy = policy);
        world.run();
        world.roll_out("worker", 10);
        world.run();
        look(&world);
        says(
            &told(&world).because,
            "Item 'second': Failed to apply: no way",
        );
        says(&told(&world).next, "medley rollback steps");
    }
    assert_eq!(seen, Phase::ALL.into_iter().collect());
}

/// A lock that broke before anything was applied leaves nothing to undo.
#[test]
fn a_stale_plan_is_to_be_made_anew() {
    let mut world = World::steps();
    world.edit(
        &config_map("third"),
        "somebody",
        &json!({ "data": { "interval": 1 } }),
    );
    world.run();
    world.edit(
        &config_map("third"),
        "somebody",
        &json!({ "data": { "interval": 2 } }),
    );
    world.spec(|spec| {
        spec.action = Action::Apply;
        spec.approval = Some(api::advisor::Approval {
            takeovers: vec![api::advisor::ConsentedTakeover {
                item: "third".to_owned(),
                path: None,
                manager: None,
            }],
            ..api::advisor::Approval::default()
        });
    });
    world.run();
    assert_eq!(world.phase(), Phase::Failed);
    let next = told(&world).next;
    says(&next, "medley plan steps --renew");
    assert!(
        !next.iter().any(|line| line.contains("rollback")),
        "{next:?}"
    );
}

#[test]
fn an_edit_that_nobody_has_seen_is_told() {
    let mut world = completed();
    world.action(Action::DryRun);
    says(&told(&world).because, "about to be looked at");
}

#[test]
fn a_plan_that_waits_says_what_it_does_and_to_whom() {
    let mut world = World::steps();
    world.edit(
        &config_map("third"),
        "argocd",
        &json!({ "data": { "interval": 1 } }),
    );
    world.run();
    let explanation = told(&world);
    assert_eq!(
        explanation.state,
        "steps is ReviewRequired (action DryRun)."
    );
    says(
        &explanation.because,
        "Item 'first' changes MachineConfig first (impact High).",
    );
    says(
        &explanation.because,
        "It takes data.interval from argocd: 1 becomes 60.",
    );
    says(&explanation.next, "medley approve steps --take-over");
    says(&explanation.next, "set action to 'Apply'");
    world.action(Action::Apply);
    world.run();
    let explanation = told(&world);
    says(
        &explanation.next,
        "item 'third' would take data.interval from manager \"argocd\"",
    );
    world.edit(
        &config_map("third"),
        "argocd",
        &json!({ "data": { "interval": 2 } }),
    );
    world.run();
    let explanation = told(&world);
    says(&explanation.because, "data.interval changed from 1 to 2");
    says(&explanation.next, "Plan again");
}

#[test]
fn a_changed_input_is_told_with_what_acknowledges_it() {
    let mut world = completed();
    world.edit(
        &config_map("source"),
        "admin",
        &json!({ "data": { "limit": 9 } }),
    );
    world.run();
    let explanation = told(&world);
    says(&explanation.because, "limit changed (scaled 5 -> 9)");
    says(&explanation.next, "edit the specification");
}

#[test]
fn a_rollout_says_how_far_it_is_and_a_window_when_it_opens() {
    let mut world = World::steps();
    world.action(Action::Apply);
    world.run();
    world.roll_out("worker", 2);
    world.run();
    let explanation = told(&world);
    says(&explanation.because, "0 of 3 items are completed.");
    says(&explanation.because, "2/10");
    says(&explanation.next, "'DryRun' stops it before the next item");

    let mut world = World::steps();
    world.action(Action::Apply);
    world.spec(|spec| {
        spec.maintenance_windows = vec![MaintenanceWindow {
            schedule: "0 2 * * *".into(),
            duration: "1h".into(),
            time_zone: None,
        }];
    });
    world.run();
    says(
        &told(&world).next,
        "the maintenance window opens, at 2026-07-02T02:00:00Z",
    );
}

#[test]
fn drift_is_told_whatever_the_phase() {
    let mut world = completed();
    world.edit(
        &config_map("third"),
        "kubectl",
        &json!({ "data": { "interval": 1 } }),
    );
    world.run();
    let explanation = told(&world);
    says(
        &explanation.because,
        "third: data.interval is 1, applied was 60, changed by kubectl",
    );
    says(&explanation.next, "put it back by hand");
    says(&explanation.next, "medley adopt steps");
    world.action(Action::DryRun);
    world.run();
    assert_eq!(world.phase(), Phase::ReviewRequired);
    says(
        &told(&world).because,
        "Drift: data.interval of item 'third' is 1, applied was 60.",
    );
}

#[test]
fn what_is_undone_stays_so_until_somebody_says_otherwise() {
    let mut world = completed();
    world.spec(|spec| spec.rollback_to = Some(1));
    world.run();
    world.roll_out("worker", 10);
    world.run();
    let explanation = told(&world);
    says(
        &explanation.because,
        "Everything since revision 1 is undone",
    );
    says(&explanation.next, "Remove it to plan again");
}
