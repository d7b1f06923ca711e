//! Whether a machine is to have an instance.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use crate::operators::kubevirt::object::{began, condition, is_final, is_leaving, phase, text};

/// The first wait after an instance that never ran; it grows with the square of such failures.
const FIRST_WAIT: u32 = 10;
/// The longest wait.
const LONGEST_WAIT: u32 = 300;

/// What is known about a machine.
pub(super) struct Facts<'a> {
    pub(super) machine: &'a DynamicObject,
    pub(super) instance: Option<&'a DynamicObject>,
    pub(super) now: Timestamp,
    /// How many times as fast as in reality it waits.
    pub(super) speed: f64,
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Act {
    /// Nothing.
    Nothing,
    /// Make an instance.
    Start,
    /// Delete the instance.
    Stop,
    /// Let the machine go.
    Finish,
}

/// What is to be done about a machine, and what is to be said.
#[derive(Debug)]
pub(super) struct Verdict {
    pub(super) act: Act,
    pub(super) ready: bool,
    /// The status; null is what is to be taken back.
    pub(super) status: Value,
    /// When there is something to do again.
    pub(super) wake: Option<Timestamp>,
}

/// Decides about a machine.
pub(super) fn decide(facts: &Facts<'_>) -> Verdict {
    let Facts {
        machine, instance, ..
    } = *facts;
    let strategy = strategy(machine);
    let failure = start_failure(facts);
    let retry = retry_after(&failure).filter(|at| *at > facts.now);
    let request = text(machine, "/status/stateChangeRequests/0/action");
    let act = act(facts, strategy, request, retry);
    let ready = instance
        .is_some_and(|it| condition(it, "Ready").is_some_and(|ready| ready["status"] == "True"));
    // What was asked for is forgotten when it has come about.
    let answered = match request {
        "Start" => instance.is_some_and(|it| !is_leaving(it) && !is_final(it)),
        "Stop" => instance.is_none(),
        _ => false,
    };
    let mut status = json!({
        "created": instance.is_some(),
        "ready": ready,
        "runStrategy": strategy,
        "printableStatus": printable(facts, strategy, retry),
        "startFailure": failure,
    });
    if answered {
        status["stateChangeRequests"] = Value::Null;
    }
    Verdict {
        act,
        ready,
        status,
        wake: retry.filter(|_| instance.is_none()),
    }
}

fn act(facts: &Facts<'_>, strategy: &str, request: &str, retry: Option<Timestamp>) -> Act {
    let Some(instance) = facts.instance else {
        return match (is_leaving(facts.machine), strategy) {
            (true, _) => Act::Finish,
            (false, "Always" | "RerunOnFailure") if retry.is_some() => Act::Nothing,
            (false, "Always" | "RerunOnFailure" | "Once") if request != "Stop" => Act::Start,
            (false, "Manual") if request == "Start" => Act::Start,
            _ => Act::Nothing,
        };
    };
    let unwanted = is_leaving(facts.machine)
        || strategy == "Halted"
        || request == "Stop"
        || (is_final(instance)
            && match strategy {
                "Always" => true,
                "RerunOnFailure" => phase(instance) == "Failed",
                "Manual" => request == "Start",
                _ => false,
            });
    if unwanted && !is_leaving(instance) {
        Act::Stop
    } else {
        Act::Nothing
    }
}

/// When a machine is to run. `running` is an older way to say it.
fn strategy(machine: &DynamicObject) -> &str {
    match (
        text(machine, "/spec/runStrategy"),
        machine.data.pointer("/spec/running"),
    ) {
        ("", Some(Value::Bool(true))) => "Always",
        ("", _) => "Halted",
        (strategy, _) => strategy,
    }
}

/// How often in a row an instance ended before it ran, and when the next may be made.
fn start_failure(facts: &Facts<'_>) -> Value {
    let old = facts.machine.data.pointer("/status/startFailure");
    let old = old.cloned().unwrap_or_default();
    let Some(instance) = facts.instance else {
        return old;
    };
    if began(instance, "Running").is_some() {
        return Value::Null;
    }
    let uid = instance.metadata.uid.as_deref().unwrap_or_default();
    if phase(instance) != "Failed" || old["lastFailedVMIUID"] == uid {
        return old;
    }
    let count = old["consecutiveFailCount"].as_u64().unwrap_or_default() + 1;
    let seconds = u32::try_from(count.saturating_mul(count))
        .unwrap_or(u32::MAX)
        .saturating_mul(FIRST_WAIT)
        .min(LONGEST_WAIT);
    let wait = Duration::from_secs(seconds.into()).div_f64(facts.speed);
    json!({
        "consecutiveFailCount": count,
        "lastFailedVMIUID": uid,
        "retryAfterTimestamp": Time(facts.now.checked_add(wait).unwrap_or(facts.now)),
    })
}

fn retry_after(failure: &Value) -> Option<Timestamp> {
    failure["retryAfterTimestamp"].as_str()?.parse().ok()
}

/// How a machine is, in a word.
fn printable(facts: &Facts<'_>, strategy: &str, retry: Option<Timestamp>) -> &'static str {
    if is_leaving(facts.machine) {
        return "Terminating";
    }
    let Some(instance) = facts.instance else {
        let runs = matches!(strategy, "Always" | "RerunOnFailure" | "Once");
        return match retry {
            Some(_) if runs => "CrashLoopBackOff",
            None if runs => "Starting",
            _ => "Stopped",
        };
    };
    if is_leaving(instance) {
        return "Stopping";
    }
    let unschedulable =
        || condition(instance, "PodScheduled").is_some_and(|it| it["status"] == "False");
    match phase(instance) {
        "Running" if is_migrating(instance) => "Migrating",
        "Running" => "Running",
        "" | "Pending" | "Scheduling" | "Scheduled" if unschedulable() => "ErrorUnschedulable",
        "" | "Pending" | "Scheduling" | "Scheduled" => "Starting",
        "Failed" if retry.is_some() => "CrashLoopBackOff",
        _ => "Stopped",
    }
}

/// Whether an instance is on its way to another node.
fn is_migrating(instance: &DynamicObject) -> bool {
    let state = instance.data.pointer("/status/migrationState");
    state.is_some_and(|state| !state["migrationUid"].is_null() && state["completed"] != true)
}

#[cfg(test)]
mod tests;
