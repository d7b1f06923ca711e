//! Who lets a plan be carried out, and which part of it.

use api::advisor::{
    Action, Approval, ApprovalPolicy, ConsentedTakeover, FailurePolicy, ItemState, Phase,
    Rejection, RequiredApprovals, names,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::json;

use super::World;
use super::profiles::config_map;
use crate::approval::Entry;
use crate::recorder::Recorder;

fn approve(world: &mut World, change: impl FnOnce(&mut Approval)) {
    world.spec(|spec| {
        spec.action = Action::Apply;
        change(spec.approval.get_or_insert_default());
    });
}

/// The annotation with one more approval.
fn record(existing: Option<&str>, user: &str, digest: &str, world: &World) -> String {
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
fn an_approved_digest_lets_exactly_that_plan_be_carried_out() {
    let mut world = World::steps();
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

    // The next plan is another one.
    world.options(|options| options.descheduling_interval_seconds = Some(90));
    world.run();
    assert_eq!(world.phase(), Phase::ReviewRequired);
    assert_eq!(
        world.says("Approved"),
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

/// What the plan is made from changes between review and approval: nothing is carried out.
#[test]
fn an_approved_digest_does_not_let_another_plan_be_carried_out() {
    let mut world = World::steps();
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
fn a_rejected_plan_waits_until_it_is_another() {
    let mut world = World::steps();
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
    assert_eq!(world.says("Approved"), ("False".into(), "Rejected".into()));
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
fn a_part_of_a_plan_is_carried_out_with_what_it_depends_on() {
    let mut world = World::steps();
    approve(&mut world, |approval| approval.items = vec!["third".into()]);
    world.run();
    assert_eq!(world.written, ["second", "third"]);
    assert_eq!(world.phase(), Phase::ReviewRequired);
    assert_eq!(world.item("first").state, ItemState::Pending);
    assert_eq!(
        world.says("Approved"),
        ("False".into(), "PartlyApproved".into())
    );
    let message = world.condition("Approved").message;
    assert!(message.contains("first waits"), "{message}");
    assert_eq!(world.records.len(), 1);
    world.check_rest();
    // What is in force is watched also while the rest waits.
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

/// What failed is not tried for ever because another item waits.
#[test]
fn a_part_that_fails_comes_to_an_end() {
    let mut world = World::steps();
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
fn an_item_that_there_is_not_cannot_be_approved() {
    let mut world = World::steps();
    approve(&mut world, |approval| {
        approval.items = vec!["fourth".into()];
    });
    world.run();
    assert_eq!(world.phase(), Phase::ReviewRequired);
    assert_eq!(world.says("Approved").1, "UnknownItem");
    world.check_rest();
}

#[test]
fn so_many_have_to_approve() {
    let mut world = World::steps();
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
        assert_eq!(world.says("Approved").1, "TooFewApprovals");
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

/// B16: nothing is taken from others unless somebody agrees.
#[test]
fn what_others_own_stays_theirs_without_consent() {
    let mut world = World::steps();
    let third = config_map("third");
    world.edit(&third, "argocd", &json!({ "data": { "interval": 1 } }));
    let before = world.cluster.get(&third);
    world.action(Action::Apply);
    world.run();
    assert_eq!(world.phase(), Phase::ReviewRequired);
    assert_eq!(world.says("Approved").1, "TakeoverWithoutConsent");
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

/// Somebody takes a field between the plan and the write, without changing it from what it was.
#[test]
fn a_field_that_somebody_takes_meanwhile_is_asked_for() {
    let mut world = World::steps();
    let third = config_map("third");
    world.edit(&third, "", &json!({ "data": { "interval": 1 } }));
    world.action(Action::Apply);
    world.run();
    // Taken, and put back to what the plan was made from: the lock holds, the owner is another.
    world.edit(&third, "argocd", &json!({ "data": { "interval": 2 } }));
    world.edit(&third, "argocd", &json!({ "data": { "interval": 1 } }));
    world.roll_out("worker", 10);
    world.run();
    assert_eq!(world.phase(), Phase::ReviewRequired);
    assert_eq!(world.says("Approved").1, "TakeoverWithoutConsent");
    assert_eq!(world.written, ["first", "second"]);
    let outcome = world.records[0].outcome.clone().unwrap();
    assert_eq!(outcome.result, crate::record::Ending::Superseded);
    assert!(
        outcome.message.contains("data.interval from argocd"),
        "{}",
        outcome.message
    );
    world.check_rest();
}

/// What was ours and somebody took is only taken back.
#[test]
fn what_was_ours_is_taken_back_without_consent() {
    let mut world = World::steps();
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

/// An approval that is taken away stops the plan before the next item.
#[test]
fn a_rejection_stops_a_plan_that_is_being_carried_out() {
    let mut world = World::steps();
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
    assert_eq!(world.says("Approved").1, "Rejected");
    assert_eq!(world.written, ["first"]);
    let outcome = world.records[0].outcome.clone().unwrap();
    assert_eq!(outcome.result, crate::record::Ending::Superseded);
    world.check_rest();
    approve(&mut world, |approval| approval.rejected = None);
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
    assert_eq!(world.written, ["first", "second", "third"]);
}
