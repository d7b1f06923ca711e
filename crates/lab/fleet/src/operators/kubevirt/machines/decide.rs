//! Whether a virtual machine should have an instance.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use crate::operators::kubevirt::object::{
    began, condition, is_final, is_leaving, phase, set_condition_in, text,
};

/// Base of the backoff in seconds after instances that never ran; it grows with the square of the
/// failures.
const BASE_BACKOFF_SECONDS: u32 = 10;
/// Upper bound of the backoff in seconds.
// `defaultMaxCrashLoopBackoffDelaySeconds` in KubeVirt's `pkg/virt-controller/watch/vm/vm.go`.
const MAX_BACKOFF_SECONDS: u32 = 300;

/// Inputs of the decision about a virtual machine.
pub(super) struct VirtualMachineInputs<'a> {
    pub(super) machine: &'a DynamicObject,
    pub(super) instance: Option<&'a DynamicObject>,
    pub(super) now: Timestamp,
    /// Speed of simulated time, which also divides the backoff.
    pub(super) speed: f64,
}

/// The next action for a virtual machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    /// Keep the current state.
    Nothing,
    /// Create an instance.
    Start,
    /// Delete the instance.
    Stop,
    /// Remove the finalizer.
    Finish,
}

/// The next action for a virtual machine, and its new status.
#[derive(Debug)]
pub(super) struct VirtualMachineDecision {
    pub(super) act: Action,
    /// The status patch; null removes a field.
    pub(super) status: Value,
    /// When the backoff ends.
    pub(super) wake: Option<Timestamp>,
}

/// Decides the next action and the status of a virtual machine.
pub(super) fn decide(inputs: &VirtualMachineInputs<'_>) -> VirtualMachineDecision {
    let VirtualMachineInputs {
        machine, instance, ..
    } = *inputs;
    let strategy = strategy(machine);
    let failure = start_failure(inputs);
    let retry = retry_after(&failure).filter(|at| *at > inputs.now);
    let request = text(machine, "/status/stateChangeRequests/0/action");
    let act = act(inputs, strategy, request, retry);
    let ready = instance
        .is_some_and(|it| condition(it, "Ready").is_some_and(|ready| ready["status"] == "True"));
    // A state change request is removed once it is fulfilled.
    let answered = match request {
        "Start" => instance.is_some_and(|it| !is_leaving(it) && !is_final(it)),
        "Stop" => instance.is_none(),
        _ => false,
    };
    // Go leaves out what is false.
    let if_true = |holds: bool| if holds { json!(true) } else { Value::Null };
    let mut status = json!({
        "created": if_true(instance.is_some()),
        "ready": if_true(ready),
        "runStrategy": strategy,
        "printableStatus": printable(inputs, &failure),
        "startFailure": failure,
        "conditions": conditions(inputs),
    });
    if answered {
        status["stateChangeRequests"] = Value::Null;
    }
    VirtualMachineDecision {
        act,
        status,
        wake: retry.filter(|_| instance.is_none()),
    }
}

fn act(
    inputs: &VirtualMachineInputs<'_>,
    strategy: &str,
    request: &str,
    retry: Option<Timestamp>,
) -> Action {
    let Some(instance) = inputs.instance else {
        return match (is_leaving(inputs.machine), strategy) {
            (true, _) => Action::Finish,
            (false, "Always" | "RerunOnFailure") if retry.is_some() => Action::Nothing,
            (false, "Always" | "RerunOnFailure" | "Once") if request != "Stop" => Action::Start,
            (false, "Manual") if request == "Start" => Action::Start,
            _ => Action::Nothing,
        };
    };
    let unwanted = is_leaving(inputs.machine)
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
        Action::Stop
    } else {
        Action::Nothing
    }
}

/// The run strategy. `spec.running` is its deprecated form.
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

/// The number of consecutive instances that ended before they ran, and the end of the backoff; of VMs that are started again.
fn start_failure(inputs: &VirtualMachineInputs<'_>) -> Value {
    let old = inputs.machine.data.pointer("/status/startFailure");
    let old = old.cloned().unwrap_or_default();
    if !matches!(
        strategy(inputs.machine),
        "Always" | "RerunOnFailure" | "Once"
    ) {
        return Value::Null;
    }
    let Some(instance) = inputs.instance else {
        return old;
    };
    // An instance that ran once resets the count: the backoff is for VMs that cannot start, not for
    // those that crash.
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
        .saturating_mul(BASE_BACKOFF_SECONDS)
        .min(MAX_BACKOFF_SECONDS);
    let wait = Duration::from_secs(seconds.into()).div_f64(inputs.speed);
    json!({
        "consecutiveFailCount": count,
        "lastFailedVMIUID": uid,
        "retryAfterTimestamp": Time(inputs.now.checked_add(wait).unwrap_or(inputs.now)),
    })
}

fn retry_after(failure: &Value) -> Option<Timestamp> {
    failure["retryAfterTimestamp"].as_str()?.parse().ok()
}

/// The conditions: those of the instance, and one that says that there is none.
fn conditions(inputs: &VirtualMachineInputs<'_>) -> Value {
    let list = |object: &DynamicObject| {
        let all = object.data.pointer("/status/conditions");
        all.and_then(Value::as_array).cloned().unwrap_or_default()
    };
    let mut all = list(inputs.machine);
    let theirs = inputs.instance.map(list);
    if let Some(theirs) = &theirs {
        let is_theirs = |one: &Value| theirs.iter().any(|it| it["type"] == one["type"]);
        all.retain(|one| one["type"] == "Ready" || is_theirs(one));
    }
    let now = json!(Time(inputs.now));
    let ready = |reason: &str, message: &str| {
        json!({
            "type": "Ready", "status": "False", "reason": reason, "message": message,
            "lastProbeTime": now, "lastTransitionTime": now,
        })
    };
    match theirs {
        None => set_condition_in(&mut all, ready("VMINotExists", "VMI does not exist")),
        Some(theirs) => {
            if !theirs.iter().any(|one| one["type"] == "Ready") {
                let message = "VMI is missing the Ready condition";
                set_condition_in(&mut all, ready("VMIConditionMissing", message));
            }
            for condition in theirs {
                set_condition_in(&mut all, condition);
            }
        }
    }
    json!(all)
}

/// `status.printableStatus`, KubeVirt's one-word summary.
fn printable(inputs: &VirtualMachineInputs<'_>, failure: &Value) -> &'static str {
    if is_leaving(inputs.machine) {
        return "Terminating";
    }
    // Also before the instance is created: this looks at what there is.
    let stopped = || {
        if failure.is_null() {
            "Stopped"
        } else {
            "CrashLoopBackOff"
        }
    };
    let Some(instance) = inputs.instance else {
        return stopped();
    };
    if is_leaving(instance) && !is_final(instance) {
        return "Stopping";
    }
    let unschedulable =
        || condition(instance, "PodScheduled").is_some_and(|it| it["reason"] == "Unschedulable");
    match phase(instance) {
        "Running" if is_migrating(instance) => "Migrating",
        "Running" => "Running",
        "" | "Pending" | "Scheduling" | "Scheduled" if unschedulable() => "ErrorUnschedulable",
        "" | "Pending" | "Scheduling" | "Scheduled" => "Starting",
        _ => stopped(),
    }
}

/// Whether the guest moves.
fn is_migrating(instance: &DynamicObject) -> bool {
    let state = instance.data.pointer("/status/migrationState");
    state.is_some_and(|state| !state["startTimestamp"].is_null() && state["endTimestamp"].is_null())
}

#[cfg(test)]
mod tests;
