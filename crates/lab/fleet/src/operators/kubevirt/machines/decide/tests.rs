use k8s_openapi::jiff::Timestamp;
use kube::api::DynamicObject;
use rstest::rstest;
use serde_json::{Value, json};

use super::{Action, VirtualMachineDecision, VirtualMachineInputs, decide};
use crate::operators::kubevirt::fixtures::object;

fn machine(spec: &Value, status: &Value) -> DynamicObject {
    object(json!({ "metadata": { "name": "vm", "uid": "m" }, "spec": spec, "status": status }))
}

fn instance(phase: &str) -> DynamicObject {
    let before = match phase {
        "Succeeded" | "Running" => {
            json!([{ "phase": "Running", "phaseTransitionTimestamp": "2026-01-01T00:00:00Z" }])
        }
        _ => json!([]),
    };
    object(json!({
        "metadata": { "name": "vm", "uid": format!("i-{phase}") },
        "status": { "phase": phase, "phaseTransitionTimestamps": before },
    }))
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("a time")
}

fn decided(
    machine: &DynamicObject,
    instance: Option<&DynamicObject>,
    now: i64,
) -> VirtualMachineDecision {
    decide(&VirtualMachineInputs {
        machine,
        instance,
        now: at(now),
        speed: 1.0,
    })
}

#[rstest]
#[case::always(json!({ "runStrategy": "Always" }), None, Action::Start)]
#[case::always_runs(json!({ "runStrategy": "Always" }), Some("Running"), Action::Nothing)]
#[case::always_starts(json!({ "runStrategy": "Always" }), Some("Scheduling"), Action::Nothing)]
#[case::always_again(json!({ "runStrategy": "Always" }), Some("Succeeded"), Action::Stop)]
#[case::always_failed(json!({ "runStrategy": "Always" }), Some("Failed"), Action::Stop)]
#[case::running(json!({ "running": true }), None, Action::Start)]
#[case::not_running(json!({ "running": false }), None, Action::Nothing)]
#[case::not_running_any_more(json!({ "running": false }), Some("Running"), Action::Stop)]
#[case::nothing_said(json!({}), None, Action::Nothing)]
#[case::halted(json!({ "runStrategy": "Halted" }), Some("Running"), Action::Stop)]
#[case::rerun(json!({ "runStrategy": "RerunOnFailure" }), None, Action::Start)]
#[case::rerun_failed(json!({ "runStrategy": "RerunOnFailure" }), Some("Failed"), Action::Stop)]
#[case::rerun_done(json!({ "runStrategy": "RerunOnFailure" }), Some("Succeeded"), Action::Nothing)]
#[case::manual(json!({ "runStrategy": "Manual" }), None, Action::Nothing)]
#[case::manual_done(json!({ "runStrategy": "Manual" }), Some("Failed"), Action::Nothing)]
#[case::once(json!({ "runStrategy": "Once" }), None, Action::Start)]
#[case::once_done(json!({ "runStrategy": "Once" }), Some("Succeeded"), Action::Nothing)]
fn run_strategy_decides(
    #[case] spec: Value,
    #[case] phase: Option<&str>,
    #[case] expected: Action,
) {
    let machine = machine(&spec, &json!({}));
    let instance = phase.map(instance);
    assert_eq!(decided(&machine, instance.as_ref(), 0).act, expected);
}

#[rstest]
#[case("Manual", "Start", None, Action::Start)]
#[case("Manual", "Start", Some("Succeeded"), Action::Stop)]
#[case("Manual", "Stop", Some("Running"), Action::Stop)]
#[case("Always", "Stop", Some("Running"), Action::Stop)]
#[case("Always", "Stop", None, Action::Nothing)]
fn state_change_requests_are_executed(
    #[case] strategy: &str,
    #[case] request: &str,
    #[case] phase: Option<&str>,
    #[case] expected: Action,
) {
    let status = json!({ "stateChangeRequests": [{ "action": request }] });
    let machine = machine(&json!({ "runStrategy": strategy }), &status);
    let instance = phase.map(instance);
    assert_eq!(decided(&machine, instance.as_ref(), 0).act, expected);
}

#[test]
fn deleted_virtual_machine_deletes_its_instance() {
    let mut machine = machine(&json!({ "runStrategy": "Always" }), &json!({}));
    machine.metadata.deletion_timestamp =
        serde_json::from_value(json!("2026-01-01T00:00:00Z")).ok();
    let running = instance("Running");
    let verdict = decided(&machine, Some(&running), 0);
    assert_eq!(verdict.act, Action::Stop);
    assert_eq!(verdict.status["printableStatus"], "Terminating");
    assert_eq!(decided(&machine, None, 0).act, Action::Finish);
}

#[test]
fn failed_starts_are_retried_with_backoff() {
    let spec = || json!({ "runStrategy": "Always" });
    let mut failure = Value::Null;
    for (uid, count, wait) in [
        ("a", 1, 10),
        ("b", 2, 40),
        ("c", 3, 90),
        ("d", 4, 160),
        ("e", 5, 250),
        ("f", 6, 300),
    ] {
        let machine = machine(&spec(), &json!({ "startFailure": failure }));
        let mut failed = instance("Failed");
        failed.metadata.uid = Some(uid.to_owned());
        let verdict = decided(&machine, Some(&failed), 1000);
        assert_eq!(verdict.act, Action::Stop);
        failure = verdict.status["startFailure"].clone();
        assert_eq!(failure["consecutiveFailCount"], count);
        let retry: Timestamp = failure["retryAfterTimestamp"]
            .as_str()
            .unwrap()
            .parse()
            .unwrap();
        assert_eq!(retry, at(1000 + wait));
    }
    let waiting = machine(&spec(), &json!({ "startFailure": failure }));
    let verdict = decided(&waiting, None, 1299);
    assert_eq!(verdict.act, Action::Nothing);
    assert_eq!(verdict.wake, Some(at(1300)));
    assert_eq!(verdict.status["printableStatus"], "CrashLoopBackOff");
    assert_eq!(decided(&waiting, None, 1300).act, Action::Start);
    // The same instance counts once, and a running instance resets the count.
    let mut failed = instance("Failed");
    failed.metadata.uid = Some("f".into());
    let again = decided(&waiting, Some(&failed), 1299);
    assert_eq!(
        again.status["startFailure"],
        waiting.data["status"]["startFailure"]
    );
    let runs = decided(&waiting, Some(&instance("Running")), 1299);
    assert_eq!(runs.status["startFailure"], Value::Null);
}

#[rstest]
#[case(None, "Stopped")]
#[case(Some("Scheduling"), "Starting")]
#[case(Some("Running"), "Running")]
#[case(Some("Succeeded"), "Stopped")]
fn printable_status_follows_the_phase(#[case] phase: Option<&str>, #[case] word: &str) {
    let machine = machine(&json!({ "runStrategy": "Always" }), &json!({}));
    let instance = phase.map(instance);
    let verdict = decided(&machine, instance.as_ref(), 0);
    assert_eq!(verdict.status["printableStatus"], word);
}

#[test]
fn printable_status_names_the_obstacle() {
    let machine = machine(&json!({ "runStrategy": "Always" }), &json!({}));
    let mut waiting = instance("Scheduling");
    waiting.data["status"]["conditions"] =
        json!([{ "type": "PodScheduled", "status": "False", "reason": "Unschedulable" }]);
    let word = |instance: &DynamicObject| {
        decided(&machine, Some(instance), 0).status["printableStatus"].clone()
    };
    assert_eq!(word(&waiting), "ErrorUnschedulable");
    let mut moving = instance("Running");
    moving.data["status"]["migrationState"] = json!({ "migrationUid": "x" });
    assert_eq!(word(&moving), "Running");
    moving.data["status"]["migrationState"]["startTimestamp"] = json!("2026-01-01T00:00:00Z");
    assert_eq!(word(&moving), "Migrating");
    moving.data["status"]["migrationState"]["endTimestamp"] = json!("2026-01-01T00:00:09Z");
    assert_eq!(word(&moving), "Running");
}

#[test]
fn conditions_are_those_of_the_instance() {
    let old = json!({ "conditions": [
        { "type": "Ready", "status": "True" }, { "type": "LiveMigratable", "status": "True" },
    ] });
    let machine = machine(&json!({ "runStrategy": "Always" }), &old);
    let mut starting = instance("Scheduling");
    let theirs = json!([
        { "type": "Ready", "status": "False", "reason": "GuestNotRunning", "lastProbeTime": null },
        { "type": "PodScheduled", "status": "False" },
    ]);
    starting.data["status"]["conditions"] = theirs.clone();
    let status = decided(&machine, Some(&starting), 0).status;
    assert_eq!(status["conditions"], theirs);
    assert_eq!(
        (&status["created"], &status["ready"]),
        (&json!(true), &Value::Null)
    );
    let without = decided(&machine, None, 0).status["conditions"].clone();
    assert_eq!(without[0]["reason"], "VMINotExists");
    assert_eq!(without[1]["type"], "LiveMigratable");
}
