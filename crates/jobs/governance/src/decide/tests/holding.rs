//! Work in flight holds disruptive items, and nothing else.

use api::advisor::{Action, Impact, Phase};
use api::approval::{ApprovalPolicySpec, GatePreset, InFlightGate};

use super::Simulation;
use crate::approval::Policy;
use crate::decide::{DecisionInputs, Execution, NextStep, held, probes};
use crate::explain::explain;
use crate::in_flight::{POLL_INTERVAL, Reading};

fn gated(impacts: Vec<Impact>) -> Vec<Policy> {
    let gate = InFlightGate {
        name: "migrations".to_owned(),
        preset: Some(GatePreset::Migrations),
        ..InFlightGate::default()
    };
    vec![Policy {
        name: "production".to_owned(),
        spec: ApprovalPolicySpec {
            impacts,
            in_flight_gates: vec![gate],
            ..ApprovalPolicySpec::default()
        },
    }]
}

/// A plan whose first item is about to start.
fn about_to_start(policies: Vec<Policy>) -> (Simulation, Execution) {
    let mut world = Simulation::steps();
    world.policies = policies;
    world.action(Action::Apply);
    let execution = world.run_until_execution();
    (world, execution)
}

fn ask<T>(world: &Simulation, question: impl FnOnce(&DecisionInputs<'_>) -> T) -> T {
    let snapshot = world.cluster.snapshot();
    question(&world.inputs(&snapshot, &world.records))
}

fn reading(names: &[&str]) -> Vec<Reading> {
    let found = names
        .iter()
        .map(|name| ("shop".to_owned(), (*name).to_owned()));
    vec![Reading {
        gate: "migrations of ApprovalPolicy production".to_owned(),
        kind: "VirtualMachineInstanceMigration".to_owned(),
        found: Ok(found.collect()),
    }]
}

#[test]
fn disruptive_item_waits_and_names_what_for() {
    let (mut world, execution) = about_to_start(gated(Vec::new()));
    assert_eq!(ask(&world, |facts| probes(facts, &execution)).len(), 1);
    let decision = ask(&world, |facts| held(facts, &execution, &reading(&["db"]))).unwrap();
    let wake = world.now.checked_add(POLL_INTERVAL).unwrap();
    assert!(matches!(decision.todo, NextStep::Rest(Some(at)) if at == wake));
    let reasons: Vec<_> = decision
        .notices
        .iter()
        .map(|it| it.reason.as_str())
        .collect();
    assert_eq!(reasons, ["WorkInFlight"]);
    world.config.status = Some(decision.status);
    assert_eq!(world.phase(), Phase::InProgress);
    let waits = "Waiting until it has finished: VirtualMachineInstanceMigration shop/db (gate migrations of ApprovalPolicy production)";
    assert_eq!(world.item("first").message.as_deref(), Some(waits));
    let explained = explain(&world.config);
    let line = format!("Item 'first': {waits}");
    assert!(explained.because.contains(&line), "{explained:#?}");
    assert!(
        explained.next[0].contains("when that has finished"),
        "{explained:#?}"
    );

    // Another migration instead: the message follows, and no second event is emitted.
    let decision = ask(&world, |facts| held(facts, &execution, &reading(&["web"]))).unwrap();
    assert_eq!(decision.notices, []);
    let message = decision.status.items[0].message.as_deref();
    assert!(message.unwrap_or_default().contains("shop/web"));
    // The same again changes nothing, so nothing is written every 15 seconds.
    world.config.status = Some(decision.status.clone());
    let again = ask(&world, |facts| held(facts, &execution, &reading(&["web"]))).unwrap();
    assert_eq!(again.status, decision.status);
    let next = world.decision();
    assert!(matches!(next.todo, NextStep::Execute(_)), "{:?}", next.todo);
    assert_eq!(next.status, decision.status);
}

#[test]
fn nothing_in_flight_holds_nothing() {
    let (world, execution) = about_to_start(gated(Vec::new()));
    assert!(ask(&world, |facts| held(facts, &execution, &reading(&[]))).is_none());
}

#[test]
fn unreadable_gate_holds() {
    let (world, execution) = about_to_start(gated(Vec::new()));
    let mut unreadable = reading(&[]);
    unreadable[0].found = Err("listing is forbidden".to_owned());
    let decision = ask(&world, |facts| held(facts, &execution, &unreadable)).unwrap();
    let message = decision.status.items[0].message.clone().unwrap_or_default();
    assert!(
        message.ends_with("cannot be evaluated: listing is forbidden"),
        "{message}"
    );
}

#[test]
fn items_of_low_impact_do_not_wait() {
    let (world, mut execution) = about_to_start(gated(Vec::new()));
    execution.item.impact_severity = Some(Impact::Low);
    assert_eq!(ask(&world, |facts| probes(facts, &execution)), []);
    execution.item.impact_severity = None;
    let unknown = ask(&world, |facts| probes(facts, &execution));
    assert_eq!(unknown.len(), 1, "an unknown impact counts as disruptive");
}

#[test]
fn policies_about_other_impacts_or_profiles_hold_nothing() {
    let (mut world, execution) = about_to_start(gated(vec![Impact::Low]));
    assert_eq!(ask(&world, |facts| probes(facts, &execution)), []);
    world.policies = gated(vec![Impact::High]);
    world.policies[0].spec.profiles = vec!["another".to_owned()];
    assert_eq!(ask(&world, |facts| probes(facts, &execution)), []);
}

#[test]
fn gate_with_invalid_expression_blocks_the_plan() {
    let mut policies = gated(Vec::new());
    let gate = &mut policies[0].spec.in_flight_gates[0];
    gate.preset = None;
    gate.objects = Some(api::approval::GateObjects {
        api_version: "batch/v1".to_owned(),
        kind: "Job".to_owned(),
    });
    gate.expression = Some("object.status.".to_owned());
    let mut world = Simulation::steps();
    world.policies = policies;
    world.action(Action::Apply);
    world.run();
    assert_eq!(world.phase(), Phase::ReviewRequired);
    let approved = world.condition("Approved");
    assert_eq!(approved.reason, "InvalidPolicy");
    let names = approved
        .message
        .contains("ApprovalPolicy production: gate migrations:");
    assert!(names, "{}", approved.message);
}
