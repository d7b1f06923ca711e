//! Which approvals let a plan run, and which part of it.

use api::advisor::{
    Action, Approval, ApprovalPolicy, ConsentedTakeover, FailurePolicy, ItemState, Phase,
    Rejection, RequiredApprovals, names,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::json;

use super::Simulation;
use super::profiles::config_map;
use crate::approval::Entry;
use crate::recorder::Recorder;

fn approve(world: &mut Simulation, change: impl FnOnce(&mut Approval)) {
    world.spec(|spec| {
        spec.action = Action::Apply;
        change(spec.approval.get_or_insert_default());
    });
}

/// The annotation with one more approval.
fn record(existing: Option<&str>, user: &str, digest: &str, world: &Simulation) -> String {
    let entry = Entry {
        user: user.to_owned(),
        digest: digest.to_owned(),
        at: Time(world.now),
        groups: Vec::new(),
        unplanned: None,
    };
    crate::approval::record(existing, entry)
}

#[test]
fn approved_digest_runs_exactly_that_plan() {
    let mut world = Simulation::steps();
    world.run();
    let reviewed = world.digest();
    approve(&mut world, |approval| {
        approval.plan_digest = Some(reviewed.clone());
    });
    world.run();
    assert_eq!(world.phase(), Phase::InProgress);
    assert_eq!(world.records[0].plan_digest, reviewed);
    world.roll_out("worker", 10);
    world.run();
    assert_eq!(world.phase(), Phase::Completed);

    // The next plan has another digest.
    world.options(|options| options.descheduling_interval_seconds = Some(90));
    world.run();
    assert_eq!(world.phase(), Phase::ReviewRequired);
    assert_eq!(
        world.status_and_reason("Approved"),
        ("False".into(), "OtherPlanApproved".into())
    );
    assert_eq!(world.written.len(), 3);
    let (now, message) = (world.digest(), world.condition("ReviewRequired").message);
    assert!(
        message.contains(&now) && message.contains(&reviewed),
        "{message}"
    );
    world.check_rest();
    approve(&mut world, |approval| approval.plan_digest = Some(now));
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
}

/// An input changes between review and approval: nothing is applied.
#[test]
fn approved_digest_does_not_run_another_plan() {
    let mut world = Simulation::steps();
    world.run();
    let reviewed = world.digest();
    world.edit(
        &config_map("source"),
        "admin",
        &json!({ "data": { "limit": 9 } }),
    );
    approve(&mut world, |approval| approval.plan_digest = Some(reviewed));
    world.run();
    assert_eq!(world.phase(), Phase::ReviewRequired);
    assert_eq!(world.written, [""; 0]);
    world.check_rest();
}

#[test]
fn rejected_plan_waits_until_replaced() {
    let mut world = Simulation::steps();
    world.run();
    let digest = world.digest();
    approve(&mut world, |approval| {
        approval.rejected = Some(Rejection {
            plan_digest: digest,
            reason: Some("not on my watch".into()),
        });
    });
    world.run();
    assert_eq!(world.phase(), Phase::ReviewRequired);
    assert_eq!(
        world.status_and_reason("Approved"),
        ("False".into(), "Rejected".into())
    );
    assert!(
        world
            .condition("Approved")
            .message
            .contains("not on my watch")
    );
    assert_eq!(world.written, [""; 0]);
    world.check_rest();
    world.options(|options| options.descheduling_interval_seconds = Some(90));
    world.run();
    assert_eq!(world.phase(), Phase::InProgress);
}

/// `third` depends on `second`, and `first` waits.
#[test]
fn partial_approval_includes_dependencies() {
    let mut world = Simulation::steps();
    approve(&mut world, |approval| approval.items = vec!["third".into()]);
    world.run();
    assert_eq!(world.written, ["second", "third"]);
    assert_eq!(world.phase(), Phase::ReviewRequired);
    assert_eq!(world.item("first").state, ItemState::Pending);
    assert_eq!(
        world.status_and_reason("Approved"),
        ("False".into(), "PartlyApproved".into())
    );
    let message = world.condition("Approved").message;
    assert!(message.contains("first waits"), "{message}");
    assert_eq!(world.records.len(), 1);
    world.check_rest();
    // The applied part is watched for drift while the rest waits.
    world.edit(
        &config_map("third"),
        "kubectl",
        &json!({ "data": { "interval": 1 } }),
    );
    world.run();
    assert_eq!(world.status().drift.len(), 1);
    world.edit(
        &config_map("third"),
        "kubectl",
        &json!({ "data": { "interval": 60 } }),
    );
    approve(&mut world, |approval| approval.items.push("first".into()));
    world.run();
    world.roll_out("worker", 10);
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
    assert_eq!(world.written, ["second", "third", "first"]);
}

/// A failed item is not retried forever because another item waits.
#[test]
fn failed_partial_plan_is_not_retried() {
    let mut world = Simulation::steps();
    world.refusals.insert("second".into(), "no".into());
    approve(&mut world, |approval| approval.items = vec!["third".into()]);
    world.spec(|spec| spec.failure_policy = FailurePolicy::Continue);
    world.run();
    assert_eq!(world.phase(), Phase::CompletedWithErrors);
    assert_eq!(
        world.states(),
        [ItemState::Pending, ItemState::Failed, ItemState::Completed]
    );
    assert_eq!(world.records.len(), 1);
    world.check_rest();
}

#[test]
fn unknown_item_cannot_be_approved() {
    let mut world = Simulation::steps();
    approve(&mut world, |approval| {
        approval.items = vec!["fourth".into()];
    });
    world.run();
    assert_eq!(world.phase(), Phase::ReviewRequired);
    assert_eq!(world.status_and_reason("Approved").1, "UnknownItem");
    world.check_rest();
}

#[test]
fn required_number_of_approvals_is_enforced() {
    let mut world = Simulation::steps();
    world.recorder = Recorder::Trusted;
    world.annotate(names::AUTHORS, r#"["ann"]"#);
    world.spec(|spec| {
        spec.action = Action::Apply;
        spec.approval_policy = Some(ApprovalPolicy {
            required_approvals: RequiredApprovals {
                high: 2,
                ..RequiredApprovals::default()
            },
            author_may_approve: false,
        });
    });
    world.run();
    let digest = world.digest();
    let mut recorded = None;
    for (user, have) in [("ann", "0"), ("bob", "1")] {
        recorded = Some(record(recorded.as_deref(), user, &digest, &world));
        world.annotate(names::APPROVALS, recorded.as_deref().unwrap());
        world.run();
        assert_eq!(world.phase(), Phase::ReviewRequired);
        assert_eq!(world.status_and_reason("Approved").1, "TooFewApprovals");
        let message = world.condition("Approved").message;
        assert!(
            message.contains(&format!(
                "needs 2 approvals (spec.approvalPolicy), and has {have}"
            )),
            "{message}"
        );
        world.check_rest();
    }
    let recorded = record(recorded.as_deref(), "cat", &digest, &world);
    world.annotate(names::APPROVALS, &recorded);
    world.run();
    assert_eq!(world.phase(), Phase::InProgress);
    assert_eq!(world.records[0].approved_by, ["bob", "cat"]);
    assert_eq!(
        world.condition("Approved").message,
        "The plan is approved by bob, cat"
    );
}

/// B16: fields of other managers are taken over only with consent.
#[test]
fn takeover_needs_consent() {
    let mut world = Simulation::steps();
    let third = config_map("third");
    world.edit(&third, "argocd", &json!({ "data": { "interval": 1 } }));
    let before = world.cluster.get(&third);
    world.action(Action::Apply);
    world.run();
    assert_eq!(world.phase(), Phase::ReviewRequired);
    assert_eq!(
        world.status_and_reason("Approved").1,
        "TakeoverWithoutConsent"
    );
    let takeover = &world.item("third").takeovers[0];
    assert_eq!(
        (takeover.path.as_str(), takeover.manager.as_str()),
        ("data.interval", "argocd")
    );
    assert_eq!(
        (takeover.live.clone(), takeover.wanted.clone()),
        (Some(json!(1)), Some(json!(60)))
    );
    assert_eq!(world.written, [""; 0]);
    assert_eq!(world.cluster.get(&third), before);
    world.check_rest();
    approve(&mut world, |approval| {
        approval.takeovers = vec![ConsentedTakeover {
            item: "third".into(),
            path: Some("data.interval".into()),
            manager: None,
        }];
    });
    world.run();
    world.roll_out("worker", 10);
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
    assert_eq!(world.live(&third, "/data/interval"), json!(60));
}

/// Another manager takes a field between plan and write, without changing its value.
#[test]
fn field_taken_after_planning_needs_consent() {
    let mut world = Simulation::steps();
    let third = config_map("third");
    world.edit(&third, "", &json!({ "data": { "interval": 1 } }));
    world.action(Action::Apply);
    world.run();
    // Taken, and set back to the value in the plan: the lock holds, but the owner differs.
    world.edit(&third, "argocd", &json!({ "data": { "interval": 2 } }));
    world.edit(&third, "argocd", &json!({ "data": { "interval": 1 } }));
    world.roll_out("worker", 10);
    world.run();
    assert_eq!(world.phase(), Phase::ReviewRequired);
    assert_eq!(
        world.status_and_reason("Approved").1,
        "TakeoverWithoutConsent"
    );
    assert_eq!(world.written, ["first", "second"]);
    let outcome = world.records[0].outcome.clone().unwrap();
    assert_eq!(outcome.result, crate::record::PlanResult::Superseded);
    assert!(
        outcome.message.contains("data.interval from argocd"),
        "{}",
        outcome.message
    );
    world.check_rest();
}

/// Taking back a field that was ours needs no consent.
#[test]
fn reclaiming_our_field_needs_no_consent() {
    let mut world = Simulation::steps();
    world.action(Action::Apply);
    world.run();
    world.roll_out("worker", 10);
    world.run();
    world.edit(
        &config_map("third"),
        "kubectl",
        &json!({ "data": { "interval": 1 } }),
    );
    world.run();
    assert_eq!(world.phase(), Phase::Drifted);
    world.spec(|spec| spec.wait_timeout = Some("1h".into()));
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
    assert_eq!(
        world.live(&config_map("third"), "/data/interval"),
        json!(60)
    );
}

/// Withdrawing the approval stops the plan before the next item.
#[test]
fn rejection_stops_a_running_plan() {
    let mut world = Simulation::steps();
    world.action(Action::Apply);
    world.run();
    let digest = world.digest();
    approve(&mut world, |approval| {
        approval.rejected = Some(Rejection {
            plan_digest: digest,
            reason: None,
        });
    });
    world.roll_out("worker", 10);
    world.run();
    assert_eq!(world.phase(), Phase::ReviewRequired);
    assert_eq!(world.status_and_reason("Approved").1, "Rejected");
    assert_eq!(world.written, ["first"]);
    let outcome = world.records[0].outcome.clone().unwrap();
    assert_eq!(outcome.result, crate::record::PlanResult::Superseded);
    world.check_rest();
    approve(&mut world, |approval| approval.rejected = None);
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
    assert_eq!(world.written, ["first", "second", "third"]);
}
