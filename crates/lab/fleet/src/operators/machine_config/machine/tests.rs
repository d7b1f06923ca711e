//! Configuration state of nodes, and their next step.

use rstest::rstest;
use serde_json::{Value, json};

use super::*;

fn node(annotations: &Value) -> Node {
    serde_json::from_value(json!({ "metadata": { "name": "n", "annotations": annotations } }))
        .unwrap()
}

fn at(current: &str, desired: &str, state: &str) -> Node {
    node(&json!({ CURRENT_CONFIG: current, DESIRED_CONFIG: desired, STATE: state }))
}

fn also(mut node: Node, key: &str, value: &str) -> Node {
    let annotations = node.metadata.annotations.get_or_insert_default();
    annotations.insert(key.to_owned(), value.to_owned());
    node
}

#[rstest]
#[case::new(node(&json!({})), NodeConfigStep::Nothing(IdleReason::New))]
#[case::done(at("a", "a", DONE), NodeConfigStep::Nothing(IdleReason::Done))]
#[case::assigned(at("a", "b", DONE), NodeConfigStep::Begin)]
#[case::working(at("a", "b", WORKING), NodeConfigStep::Reboot)]
#[case::back(at("b", "b", WORKING), NodeConfigStep::Settle)]
#[case::still_cordoned(also(at("b", "b", DONE), CORDONED, "true"), NodeConfigStep::Settle)]
#[case::silent(
    also(at("a", "b", DONE), FAILED, "true"),
    NodeConfigStep::Nothing(IdleReason::Silent)
)]
#[case::to_fail(
    also(at("a", "b", WORKING), DEGRADE, "no"),
    NodeConfigStep::Degrade("no")
)]
#[case::to_fail_while_done(also(at("a", "a", DONE), DEGRADE, "no"), NodeConfigStep::Degrade("no"))]
#[case::failed(
    also(also(at("a", "b", DEGRADED), DEGRADE, "no"), REASON, "no"),
    NodeConfigStep::Nothing(IdleReason::Degraded)
)]
#[case::fails_otherwise(
    also(also(at("a", "b", DEGRADED), DEGRADE, "never"), REASON, "no"),
    NodeConfigStep::Degrade("never")
)]
#[case::recovers_on_the_way(also(at("a", "b", DEGRADED), REASON, "no"), NodeConfigStep::Begin)]
#[case::recovers_where_it_is(also(at("a", "a", DEGRADED), REASON, "no"), NodeConfigStep::Settle)]
fn the_next_step(#[case] node: Node, #[case] expected: NodeConfigStep<'_>) {
    assert_eq!(Machine::of(&node).step(), expected);
}

/// Updated to `b`, unavailable, degraded.
#[rstest]
#[case::done(at("b", "b", DONE), (true, false, false))]
#[case::elsewhere(at("a", "a", DONE), (false, false, false))]
#[case::assigned(at("a", "b", DONE), (false, true, false))]
#[case::working(at("a", "b", WORKING), (false, true, false))]
#[case::failed(at("a", "b", DEGRADED), (false, false, true))]
#[case::failed_afterwards(at("b", "b", DEGRADED), (false, false, true))]
#[case::new(node(&json!({})), (false, true, false))]
fn nodes_are_counted_by_state(#[case] node: Node, #[case] expected: (bool, bool, bool)) {
    let machine = Machine::of(&node);
    assert_eq!(
        (
            machine.is_updated("b"),
            machine.is_unavailable(),
            machine.is_degraded()
        ),
        expected
    );
}

#[rstest]
#[case::says_nothing(json!({}), true)]
#[case::ready(json!({ "status": { "conditions": [{ "type": "Ready", "status": "True" }] } }), true)]
#[case::unknown(json!({ "status": { "conditions": [{ "type": "Ready", "status": "Unknown" }] } }), false)]
#[case::other(json!({ "status": { "conditions": [{ "type": "DiskPressure", "status": "False" }] } }), true)]
#[case::cordoned(json!({ "spec": { "unschedulable": true } }), false)]
fn readiness(#[case] mut node: Value, #[case] expected: bool) {
    node["metadata"] = json!({ "name": "n", "annotations": {
        CURRENT_CONFIG: "a", DESIRED_CONFIG: "a", STATE: DONE,
    } });
    let node: Node = serde_json::from_value(node).unwrap();
    let machine = Machine::of(&node);
    assert_eq!(machine.ready, expected);
    assert_eq!(machine.is_unavailable(), !expected);
}
