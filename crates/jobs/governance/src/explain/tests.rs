//! Every phase is explained with a reason and a next step.

use std::collections::BTreeSet;

use api::advisor::{Action, FailurePolicy, MaintenanceWindow, Phase};
use serde_json::json;

use super::{Explanation, explain};
use crate::decide::tests::Simulation;
use crate::decide::tests::profiles::{Steps, config_map};
use crate::profile::kinds::CONFIG_MAP;

fn explained(world: &Simulation) -> Explanation {
    let explanation = explain(&world.config);
    assert!(!explanation.because.is_empty(), "{explanation:?}");
    assert!(!explanation.next.is_empty(), "{explanation:?}");
    for line in explanation.because.iter().chain(&explanation.next) {
        assert!(!line.trim().is_empty(), "{explanation:?}");
    }
    explanation
}

fn assert_contains(lines: &[String], text: &str) {
    assert!(
        lines.iter().any(|line| line.contains(text)),
        "{text:?} in {lines:#?}"
    );
}

fn completed() -> Simulation {
    let mut world = Simulation::steps();
    world.action(Action::Apply);
    world.run();
    world.roll_out("worker", 10);
    world.run();
    world
}

#[test]
fn missing_status_is_explained() {
    let world = Simulation::steps();
    let explanation = explained(&world);
    assert_eq!(explanation.state, "steps has not been reconciled yet.");
}

/// Every phase is reached, during a run or at its end.
#[test]
fn every_phase_has_a_reason_and_a_next_step() {
    let mut visited = BTreeSet::new();
    let mut visit = |world: &Simulation| {
        explained(world);
        visited.insert(world.phase());
    };
    for effects in 1..=2 {
        let mut world = Simulation::steps();
        world.kill_after = Some(effects);
        world.run_until_killed();
        visit(&world);
    }
    let mut world = Simulation::steps();
    world.run();
    visit(&world);
    world.action(Action::Ignore);
    world.run();
    visit(&world);
    world.action(Action::Apply);
    world.run();
    visit(&world);
    world.roll_out("worker", 10);
    world.run();
    visit(&world);
    world.edit(
        &config_map("third"),
        "kubectl",
        &json!({ "data": { "interval": 1 } }),
    );
    world.run();
    visit(&world);
    let mut world = completed();
    world.profile = Some(std::sync::Arc::new(Steps { logic: 2 }));
    world.run();
    visit(&world);
    world.cluster.uninstall(CONFIG_MAP);
    world.run();
    visit(&world);
    for policy in [FailurePolicy::Abort, FailurePolicy::Continue] {
        let mut world = Simulation::steps();
        world.refusals.insert("second".into(), "no way".into());
        world.action(Action::Apply);
        world.spec(|spec| spec.failure_policy = policy);
        world.run();
        world.roll_out("worker", 10);
        world.run();
        visit(&world);
        assert_contains(
            &explained(&world).because,
            "Item 'second': Failed to apply: no way",
        );
        assert_contains(&explained(&world).next, "medley rollback steps");
    }
    assert_eq!(visited, Phase::ALL.into_iter().collect());
}

/// A lock that failed before the first write leaves nothing to undo.
#[test]
fn stale_plan_suggests_renewal() {
    let mut world = Simulation::steps();
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
    let next = explained(&world).next;
    assert_contains(&next, "medley plan steps --renew");
    assert!(
        !next.iter().any(|line| line.contains("rollback")),
        "{next:?}"
    );
}

#[test]
fn unobserved_edit_is_explained() {
    let mut world = completed();
    world.action(Action::DryRun);
    let explanation = explained(&world);
    assert_contains(&explanation.because, "not reconciled yet");
    assert_contains(
        &explanation.because,
        "Not yet observed: the specification was changed",
    );
    assert_contains(&explanation.because, "(generation 3, observed 2)");
    assert_eq!(
        explanation.state,
        "steps is Completed (action DryRun), not yet observed."
    );
    // Advice for the earlier specification would do nothing.
    assert_eq!(explanation.next.len(), 1);
    assert_contains(
        &explanation.next,
        "takes up the new specification by itself",
    );
}

#[test]
fn rejection_is_explained_with_its_reason() {
    let mut world = Simulation::steps();
    world.run();
    for action in [Action::DryRun, Action::Apply] {
        let digest = world.status().plan_digest.unwrap();
        world.spec(|spec| {
            spec.action = action;
            spec.approval = Some(api::advisor::Approval {
                rejected: Some(api::advisor::Rejection {
                    plan_digest: digest,
                    reason: Some("not in December".to_owned()),
                }),
                ..api::advisor::Approval::default()
            });
        });
        world.run();
        // An edit under DryRun requests another plan, which is not rejected.
        if world.status_and_reason("Approved").1 != "Rejected" {
            continue;
        }
        let explanation = explained(&world);
        let state = &explanation.state;
        assert!(state.ends_with("and the plan is rejected."), "{state}");
        assert_contains(&explanation.next, "The plan was rejected: not in December.");
        assert_contains(&explanation.next, "`medley approve steps`");
        assert!(
            explanation
                .next
                .iter()
                .all(|line| !line.contains("set action to 'Apply'")),
            "a rejected plan is not applied by that"
        );
        return;
    }
    panic!("the plan was never rejected");
}

/// What is set already is not advised: it would be no edit.
#[test]
fn advice_depends_on_the_action() {
    let mut world = completed();
    let edit = json!({ "data": { "interval": 1 } });
    world.edit(&config_map("third"), "kubectl", &edit);
    world.run();
    assert_contains(&explained(&world).next, "set action to 'DryRun'");
    assert!(
        explained(&world)
            .next
            .iter()
            .all(|line| !line.contains("--renew"))
    );

    // In force without a request: it is watched, and the action is still DryRun.
    let mut world = Simulation::steps();
    world.run();
    for item in world.status().items {
        let desired = item.desired_state.unwrap();
        world.edit(&item.target_ref, "kubectl", &desired);
    }
    world.roll_out("worker", 10);
    world.run();
    world.roll_out("worker", 10);
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
    world.edit(&config_map("third"), "kubectl", &edit);
    world.run();
    assert_eq!(world.phase(), Phase::Drifted);
    let next = explained(&world).next;
    assert_contains(&next, "`medley plan steps --renew`");
    assert!(
        next.iter()
            .all(|line| !line.contains("set action to 'DryRun'")),
        "{next:?}"
    );
}

#[test]
fn retry_is_explained_with_its_time() {
    let mut world = Simulation::steps();
    world.refusals.insert("first".into(), "forbidden".into());
    world.action(Action::Apply);
    world.run();
    let next = explained(&world).next;
    assert_contains(&next, "It is tried again at 2026-07-01T12:00:30Z.");
    world.now = world.status().retry.unwrap().at.unwrap().0;
    world.run();
    let next = explained(&world).next;
    assert_contains(
        &next,
        "It failed 2 times, and is tried again at 2026-07-01T12:01:30Z.",
    );
}

#[test]
fn missing_namespace_is_explained() {
    let mut world = Simulation::steps();
    world.cluster.missing_namespaces.insert("there".into());
    world.run();
    let explanation = explained(&world);
    assert_contains(&explanation.because, "Missing required namespaces: there");
    assert_contains(
        &explanation.next,
        "Install the operator that the namespace belongs to",
    );
    assert_contains(&explanation.next, "It is tried again at");
}

#[test]
fn unhealthy_and_unreadable_are_explained() {
    let mut world = completed();
    assert_contains(
        &explained(&world).because,
        "Health not known: no operator reports on a ConfigMap",
    );
    world.cluster.delete(&config_map("third"));
    world.run();
    assert_contains(
        &explained(&world).because,
        "Not healthy: third: ConfigMap there/third not found",
    );
    let mut world = Simulation::load_aware();
    let kinds = &mut world.cluster.unreadable;
    kinds.insert(
        crate::profile::kinds::KUBE_DESCHEDULER,
        "forbidden".to_owned(),
    );
    world.run();
    let explanation = explained(&world);
    assert_contains(&explanation.because, "KubeDescheduler: forbidden");
    assert_contains(&explanation.next, "a permission of the operator");
}

/// Nothing is left that 'DryRun' could stop.
#[test]
fn last_item_is_only_awaited() {
    let mut world = Simulation::steps();
    world.run();
    for item in world.status().items {
        let desired = item.desired_state.unwrap();
        world.edit(&item.target_ref, "kubectl", &desired);
    }
    world.run();
    assert_eq!(world.phase(), Phase::InProgress);
    let next = explained(&world).next;
    assert_contains(&next, "as soon as the last item is healthy");
    assert!(next.iter().all(|line| !line.contains("DryRun")), "{next:?}");
}

#[test]
fn waiting_plan_lists_items_and_takeovers() {
    let mut world = Simulation::steps();
    world.edit(
        &config_map("third"),
        "argocd",
        &json!({ "data": { "interval": 1 } }),
    );
    world.run();
    let explanation = explained(&world);
    assert_eq!(
        explanation.state,
        "steps is ReviewRequired (action DryRun)."
    );
    assert_contains(
        &explanation.because,
        "Item 'first' changes MachineConfig first (impact High).",
    );
    assert_contains(
        &explanation.because,
        "It takes data.interval from argocd, its owner since 2026-07-01T12:00:00Z: 1 becomes 60.",
    );
    assert_contains(&explanation.next, "medley approve steps --take-over");
    assert_contains(&explanation.next, "set action to 'Apply'");
    // Without the named plan, Apply after the review would be consent.
    let digest = world.status().plan_digest;
    world.spec(|spec| {
        spec.action = Action::Apply;
        spec.approval.get_or_insert_default().plan_digest = digest;
    });
    world.run();
    let explanation = explained(&world);
    assert_contains(
        &explanation.next,
        "item 'third' would take data.interval from manager \"argocd\"",
    );
    world.edit(
        &config_map("third"),
        "argocd",
        &json!({ "data": { "interval": 2 } }),
    );
    world.run();
    let explanation = explained(&world);
    assert_contains(&explanation.because, "data.interval changed from 1 to 2");
    assert_contains(&explanation.next, "Plan again");
}

#[test]
fn changed_input_is_explained_with_its_acknowledgement() {
    let mut world = completed();
    world.edit(
        &config_map("source"),
        "admin",
        &json!({ "data": { "limit": 9 } }),
    );
    world.run();
    let explanation = explained(&world);
    assert_contains(&explanation.because, "limit changed (scaled 5 -> 9)");
    assert_contains(&explanation.next, "edit the specification");
}

#[test]
fn rollout_progress_and_next_window_are_explained() {
    let mut world = Simulation::steps();
    world.action(Action::Apply);
    world.run();
    world.roll_out("worker", 2);
    world.run();
    let explanation = explained(&world);
    assert_contains(&explanation.because, "0 of 3 items are completed.");
    assert_contains(&explanation.because, "2/10");
    assert_contains(&explanation.next, "'DryRun' stops it before the next item");

    let mut world = Simulation::steps();
    world.action(Action::Apply);
    world.spec(|spec| {
        spec.maintenance_windows = vec![MaintenanceWindow {
            schedule: "0 2 * * *".into(),
            duration: "1h".into(),
            time_zone: None,
        }];
    });
    world.run();
    assert_contains(
        &explained(&world).next,
        "the maintenance window opens, at 2026-07-02T02:00:00Z",
    );
    let explanation = explained(&world);
    assert_contains(
        &explanation.next,
        "It has been waiting since 2026-07-01T12:00:00Z.",
    );
    let state = &explanation.state;
    assert!(
        state.ends_with("and waits for a maintenance window."),
        "{state}"
    );
}

#[test]
fn drift_is_explained_in_any_phase() {
    let mut world = completed();
    world.edit(
        &config_map("third"),
        "kubectl",
        &json!({ "data": { "interval": 1 } }),
    );
    world.run();
    let explanation = explained(&world);
    assert_contains(
        &explanation.because,
        "third: data.interval is 1, applied was 60, changed by kubectl",
    );
    assert_contains(&explanation.next, "put it back by hand");
    assert_contains(&explanation.next, "medley adopt steps");
    world.action(Action::DryRun);
    world.run();
    assert_eq!(world.phase(), Phase::ReviewRequired);
    assert_contains(
        &explained(&world).because,
        "Drift: data.interval of item 'third' is 1, applied was 60.",
    );
}

#[test]
fn rollback_is_explained_until_removed() {
    let mut world = completed();
    world.spec(|spec| spec.rollback_to = Some(1));
    world.run();
    world.roll_out("worker", 10);
    world.run();
    let explanation = explained(&world);
    assert_contains(
        &explanation.because,
        "Everything since revision 1 is undone",
    );
    assert_contains(&explanation.next, "Remove it to plan again");
}
