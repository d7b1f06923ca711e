//! What pools report.

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

fn said(status: &MachineConfigPoolStatus, about: &str) -> (String, String) {
    let found = status.conditions.iter().find(|it| it.type_ == about);
    let found = found.unwrap();
    (found.status.clone(), found.message.clone())
}

/// Machines, updated, ready, unavailable, degraded.
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
fn counts_and_whether_that_is_all(
    #[case] machines: Vec<Machine<'static>>,
    #[case] expected: [i32; 5],
    #[case] done: bool,
) {
    let status = status(&pool(false, "new", "old"), &machines, Ok(()), &now());
    assert_eq!(counts(&status), expected);
    assert_eq!(
        said(&status, "Updated").0,
        if done { "True" } else { "False" }
    );
    assert_eq!(
        said(&status, "Updating").0,
        if done { "False" } else { "True" }
    );
    // What all run with is switched when all do.
    let runs_with = status.configuration.name.as_deref();
    assert_eq!(runs_with, Some(if done { "new" } else { "old" }));
    assert_eq!(status.observed_generation, 7);
}

#[test]
fn a_paused_pool_says_what_it_waits_with() {
    let paused = pool(true, "new", "old");
    let waiting = status(&paused, &[machine("old", DONE)], Ok(()), &now());
    assert_eq!(said(&waiting, "Updated").0, "False");
    let (updating, message) = said(&waiting, "Updating");
    assert_eq!(updating, "False");
    assert_eq!(
        message,
        "Pool is paused; will not update to MachineConfig new"
    );
    let content = status(&paused, &[machine("new", DONE)], Ok(()), &now());
    assert_eq!(said(&content, "Updated").0, "True");
}

#[test]
fn trouble_is_told_with_its_machines() {
    let mut failed = machine("old", DEGRADED);
    failed.ready = true;
    let troubled = status(&pool(false, "new", "old"), &[failed], Ok(()), &now());
    assert_eq!(counts(&troubled), [1, 0, 0, 0, 1]);
    let (degraded, message) = said(&troubled, "NodeDegraded");
    assert_eq!(degraded, "True");
    assert_eq!(message, r#"Node n is reporting: "no \"space\"""#);
    assert_eq!(said(&troubled, "Degraded"), ("True".to_owned(), message));
    assert_eq!(said(&troubled, "RenderDegraded").0, "False");
}

#[test]
fn what_cannot_be_rendered_leaves_the_rest_as_it_is() {
    let machines = [machine("new", DONE)];
    let wrong = status(&pool(false, "new", "new"), &machines, Err("why"), &now());
    assert_eq!(said(&wrong, "Updated").0, "True");
    assert_eq!(said(&wrong, "Degraded").0, "True");
    assert_eq!(
        said(&wrong, "RenderDegraded"),
        (
            "True".to_owned(),
            "Failed to render configuration for pool worker: why".to_owned()
        )
    );
    // Nobody can be updated to nothing, not even nobody.
    let never = status(&pool(false, "", ""), &[], Err("why"), &now());
    assert_eq!(said(&never, "Updated").0, "False");
    assert_eq!(said(&never, "Updating").0, "False");
}

#[test]
fn saying_it_again_changes_nothing() {
    let mut pool = pool(false, "new", "old");
    let machines = [machine("new", DONE)];
    let first = status(&pool, &machines, Ok(()), &now());
    pool.status = Some(first.clone());
    let later = Time(Timestamp::from_second(200).unwrap());
    assert_eq!(status(&pool, &machines, Ok(()), &later), first);
    // And it survives being written and read.
    let read: Value = json!(first);
    assert_eq!(
        serde_json::from_value::<MachineConfigPoolStatus>(read).unwrap(),
        first
    );
}
