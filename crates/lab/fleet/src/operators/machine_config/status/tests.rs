//! The status of pools.

use k8s_openapi::jiff::Timestamp;
use rstest::rstest;
use serde_json::{Value, json};

use super::super::machine::{DEGRADED, DONE, WORKING};
use super::*;

fn pool(paused: bool, target: &str, runs_with: &str) -> MachineConfigPool {
    let configuration = |name: &str| match name {
        "" => json!({}),
        name => json!({ "name": name, "source": [{ "name": format!("00-{name}") }] }),
    };
    let pool = json!({
        "apiVersion": "machineconfiguration.openshift.io/v1",
        "kind": "MachineConfigPool",
        "metadata": { "name": "worker", "generation": 7 },
        "spec": { "paused": paused, "configuration": configuration(target) },
        "status": { "configuration": configuration(runs_with) },
    });
    serde_json::from_value(pool).unwrap()
}

fn machine(current: &'static str, state: &'static str) -> Machine<'static> {
    let desired = if state == DONE { current } else { "new" };
    Machine {
        name: "n",
        current,
        desired,
        state,
        reason: if state == DEGRADED {
            "no \"space\""
        } else {
            ""
        },
        degrade: None,
        ready: state == DONE,
        unschedulable: false,
        cordoned: false,
        silent: false,
        psi: false,
    }
}

fn now() -> Time {
    Time(Timestamp::from_second(100).unwrap())
}

fn conditions_text(status: &MachineConfigPoolStatus, about: &str) -> (String, String) {
    let found = status.conditions.iter().find(|it| it.type_ == about);
    let found = found.unwrap();
    (found.status.clone(), found.message.clone())
}

/// Node counts: total, updated, ready, unavailable, degraded.
fn counts(status: &MachineConfigPoolStatus) -> [i32; 5] {
    [
        status.machine_count,
        status.updated_machine_count,
        status.ready_machine_count,
        status.unavailable_machine_count,
        status.degraded_machine_count,
    ]
}

#[rstest]
#[case::all(vec![machine("new", DONE); 3], [3, 3, 3, 0, 0], true)]
#[case::nobody(vec![], [0, 0, 0, 0, 0], true)]
#[case::one_left(vec![machine("new", DONE), machine("old", DONE)], [2, 1, 1, 0, 0], false)]
#[case::at_work(vec![machine("new", DONE), machine("old", WORKING)], [2, 1, 1, 1, 0], false)]
#[case::away(
    vec![Machine { ready: false, ..machine("new", DONE) }],
    [1, 1, 0, 1, 0],
    false
)]
fn counts_determine_the_updated_condition(
    #[case] machines: Vec<Machine<'static>>,
    #[case] expected: [i32; 5],
    #[case] done: bool,
) {
    let status = status(&pool(false, "new", "old"), &machines, Ok(()), &now());
    assert_eq!(counts(&status), expected);
    assert_eq!(
        conditions_text(&status, "Updated").0,
        if done { "True" } else { "False" }
    );
    assert_eq!(
        conditions_text(&status, "Updating").0,
        if done { "False" } else { "True" }
    );
    // The pool's current configuration changes once all nodes run it.
    let runs_with = status.configuration.name.as_deref();
    assert_eq!(runs_with, Some(if done { "new" } else { "old" }));
    assert_eq!(status.observed_generation, 7);
}

#[test]
fn paused_pool_reports_pending_nodes() {
    let paused = pool(true, "new", "old");
    let waiting = status(&paused, &[machine("old", DONE)], Ok(()), &now());
    assert_eq!(conditions_text(&waiting, "Updated").0, "False");
    let (updating, message) = conditions_text(&waiting, "Updating");
    assert_eq!(updating, "False");
    assert_eq!(
        message,
        "Pool is paused; will not update to MachineConfig new"
    );
    let content = status(&paused, &[machine("new", DONE)], Ok(()), &now());
    assert_eq!(conditions_text(&content, "Updated").0, "True");
}

#[test]
fn degraded_condition_lists_its_nodes() {
    let mut failed = machine("old", DEGRADED);
    failed.ready = true;
    let troubled = status(&pool(false, "new", "old"), &[failed], Ok(()), &now());
    assert_eq!(counts(&troubled), [1, 0, 0, 0, 1]);
    let (degraded, message) = conditions_text(&troubled, "NodeDegraded");
    assert_eq!(degraded, "True");
    assert_eq!(message, r#"Node n is reporting: "no \"space\"""#);
    assert_eq!(
        conditions_text(&troubled, "Degraded"),
        ("True".to_owned(), message)
    );
    assert_eq!(conditions_text(&troubled, "RenderDegraded").0, "False");
}

#[test]
fn render_failure_keeps_the_other_conditions() {
    let machines = [machine("new", DONE)];
    let wrong = status(&pool(false, "new", "new"), &machines, Err("why"), &now());
    assert_eq!(conditions_text(&wrong, "Updated").0, "True");
    assert_eq!(conditions_text(&wrong, "Degraded").0, "True");
    assert_eq!(
        conditions_text(&wrong, "RenderDegraded"),
        (
            "True".to_owned(),
            "Failed to render configuration for pool worker: why".to_owned()
        )
    );
    // Without a target even an empty pool is not updated.
    let never = status(&pool(false, "", ""), &[], Err("why"), &now());
    assert_eq!(conditions_text(&never, "Updated").0, "False");
    assert_eq!(conditions_text(&never, "Updating").0, "False");
}

#[test]
fn unchanged_status_is_stable() {
    let mut pool = pool(false, "new", "old");
    let machines = [machine("new", DONE)];
    let first = status(&pool, &machines, Ok(()), &now());
    pool.status = Some(first.clone());
    let later = Time(Timestamp::from_second(200).unwrap());
    assert_eq!(status(&pool, &machines, Ok(()), &later), first);
    // It survives serialization.
    let read: Value = json!(first);
    assert_eq!(
        serde_json::from_value::<MachineConfigPoolStatus>(read).unwrap(),
        first
    );
}
