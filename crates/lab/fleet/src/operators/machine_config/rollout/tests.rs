//! Selection of the nodes to update next.

use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use super::super::machine::{DEGRADED, DONE, WORKING};
use super::*;

fn pool(spec: &Value, runs_with: &str) -> MachineConfigPool {
    let mut pool = json!({
        "apiVersion": "machineconfiguration.openshift.io/v1",
        "kind": "MachineConfigPool",
        "metadata": { "name": "worker" },
        "spec": spec,
        "status": { "configuration": { "name": runs_with } },
    });
    if pool["spec"].get("configuration").is_none() {
        pool["spec"]["configuration"] = json!({ "name": "new" });
    }
    serde_json::from_value(pool).unwrap()
}

fn machine<'a>(name: &'a str, current: &'a str, desired: &'a str, state: &'a str) -> Machine<'a> {
    Machine {
        name,
        current,
        desired,
        state,
        reason: "",
        degrade: None,
        ready: true,
        unschedulable: false,
        cordoned: false,
        silent: false,
        psi: false,
    }
}

fn old(name: &str) -> Machine<'_> {
    machine(name, "old", "old", DONE)
}

#[test]
fn nodes_update_one_by_one_in_name_order() {
    let pool = pool(&json!({}), "old");
    let all = [old("b"), old("a"), old("c")];
    let plan = rollout(&pool, &all);
    assert_eq!(plan.next, ["a"]);
    assert_eq!(
        plan.held,
        Some(Hold::MaxUnavailable {
            unavailable: 0,
            most: 1
        })
    );
    let busy = [old("b"), machine("a", "old", "new", WORKING), old("c")];
    assert_eq!(rollout(&pool, &busy).next, Vec::<&str>::new());
    let done = [old("b"), machine("a", "new", "new", DONE), old("c")];
    assert_eq!(rollout(&pool, &done).next, ["b"]);
    let all_told = [
        machine("a", "new", "new", DONE),
        machine("b", "old", "new", DONE),
    ];
    assert_eq!(rollout(&pool, &all_told).held, Some(Hold::AllUpdating));
}

#[test]
fn paused_pool_selects_no_nodes() {
    let paused = pool(&json!({ "paused": true }), "old");
    let all = [old("a")];
    let plan = rollout(&paused, &all);
    assert_eq!((plan.next.len(), plan.held), (0, Some(Hold::Paused)));
    let aimless = pool(&json!({ "configuration": {} }), "");
    let plan = rollout(&aimless, &all);
    assert_eq!((plan.next.len(), plan.held), (0, Some(Hold::NoTarget)));
}

#[test]
fn new_nodes_start_with_the_current_configuration() {
    let fresh = [machine("a", "", "", "")];
    for (runs_with, expected) in [("old", "old"), ("", "new")] {
        for paused in [false, true] {
            let pool = pool(&json!({ "paused": paused }), runs_with);
            let plan = rollout(&pool, &fresh);
            assert_eq!((plan.new, plan.first), (vec!["a"], expected));
        }
    }
}

#[test]
fn degraded_nodes_count_as_unavailable() {
    let pool = pool(&json!({ "maxUnavailable": 2 }), "old");
    let failed = machine("f", "old", "new", DEGRADED);
    assert_eq!(rollout(&pool, &[failed, old("a"), old("b")]).next, ["a"]);
    let away = Machine {
        ready: false,
        ..old("z")
    };
    assert_eq!(rollout(&pool, &[away, old("a"), old("b")]).next, ["a"]);
    // A node degraded with another configuration gets the target.
    let stuck = machine("a", "old", "wrong", DEGRADED);
    assert_eq!(rollout(&pool, &[stuck]).next, ["a"]);
    // A node between two other configurations finishes first.
    let moving = machine("a", "old", "wrong", WORKING);
    assert_eq!(rollout(&pool, &[moving, old("b")]).next, ["b"]);
}

#[rstest]
#[case(Value::Null, 10, 1)]
#[case(json!(3), 10, 3)]
#[case(json!(0), 10, 1)]
#[case(json!(-1), 10, 1)]
#[case(json!("30%"), 10, 3)]
#[case(json!("33%"), 10, 3)]
#[case(json!("5%"), 10, 1)]
#[case(json!("100%"), 4, 4)]
#[case(json!("many"), 10, 1)]
#[case(json!("50%"), 0, 1)]
fn max_unavailable_is_resolved(
    #[case] max_unavailable: Value,
    #[case] machines: usize,
    #[case] expected: usize,
) {
    let pool = pool(&json!({ "maxUnavailable": max_unavailable }), "old");
    assert_eq!(most_unavailable(&pool, machines), expected);
}

proptest! {
    /// In every state of the nodes the maximum of unavailable nodes holds, and as long as nodes are
    /// left and the maximum allows it, another node is selected.
    #[test]
    fn max_unavailable_is_never_exceeded(
        states in prop::collection::vec((0..6usize, any::<bool>()), 1..12),
        most in 0..5i32,
    ) {
        let names: Vec<String> = (0..states.len()).map(|index| format!("n-{index:02}")).collect();
        let machines: Vec<Machine<'_>> = states
            .iter()
            .zip(&names)
            .map(|((state, ready), name)| {
                let (current, desired, state) = [
                    ("old", "old", DONE),
                    ("old", "new", DONE),
                    ("old", "new", WORKING),
                    ("old", "new", DEGRADED),
                    ("old", "wrong", DEGRADED),
                    ("new", "new", DONE),
                ][*state];
                Machine { ready: *ready, ..machine(name, current, desired, state) }
            })
            .collect();
        let pool = pool(&json!({ "maxUnavailable": most }), "old");
        let plan = rollout(&pool, &machines);
        let most = most_unavailable(&pool, machines.len());
        let away = machines.iter().filter(|it| it.is_unavailable()).count();
        prop_assert!(plan.next.is_empty() || away + plan.next.len() <= most);
        for name in &plan.next {
            let selected = machines.iter().find(|it| it.name == *name);
            prop_assert!(selected.is_some_and(|it| it.desired != "new"));
        }
        prop_assert!(!plan.next.is_empty() || plan.held.is_some());
    }
}
