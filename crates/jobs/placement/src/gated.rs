//! The decision for a pod at the scheduling gate.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use api::placement::{Mode, OnNoMatch};
use serde_json::{Value, json};

use crate::admit::{NO_CONTROLLER, PLACED, annotate_reason, describe_placement, list_images};
use crate::change::ChangeStage;
use crate::decide::{Decision, decide};
use crate::explain::describe_leave;
use crate::images::{ImageUse, Inspection, images};
use crate::names;
use crate::nodes::Nodes;
use crate::policy::Policy;
use crate::settings::RuntimeClass;

/// The decision for a gated pod.
#[derive(Debug, Clone, PartialEq)]
pub enum GatedDecision {
    /// The platforms of these images are unknown; inspect them and decide again.
    Ask(Vec<ImageUse>),
    /// Remove the gate.
    Release {
        /// The pod without the gate, with its constraints.
        pod: Value,
        /// The event to emit.
        notice: Notice,
    },
    /// Keep the gate.
    Hold {
        /// The pod with the reason in its annotation.
        pod: Value,
        /// The event to emit.
        notice: Notice,
    },
}

/// An event on a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// Whether it is a Warning event.
    pub warning: bool,
    /// CamelCase reason.
    pub reason: &'static str,
    /// Event message.
    pub message: String,
}

/// Event reason: an image of the pod could not be inspected.
pub const NOT_INSPECTED: &str = "ImageNotInspected";
/// Event reason: no policy applies to the pod any more.
const NOT_PLACED: &str = "NotPlaced";

/// Decides about a gated pod. Without a policy the gate is removed and nothing else changes: placement was switched off
/// for the pod after admission.
pub fn decide_gated<'n>(
    pod: &Value,
    policy: Option<&Policy>,
    known: &BTreeMap<String, Inspection>,
    classes: &BTreeMap<String, RuntimeClass>,
    nodes: impl Into<Nodes<'n>>,
) -> GatedDecision {
    let Some(policy) = policy.filter(|policy| policy.mode == Mode::Place) else {
        return release(
            pod.clone(),
            false,
            NOT_PLACED,
            "no policy applies to it any more",
        );
    };
    let mut changed = pod.clone();
    // With `later`: a RuntimeClass cannot be set any more.
    match decide(pod, known, classes, nodes, &policy.later) {
        Decision::Ask(unknown) => GatedDecision::Ask(unknown),
        // Released even if images are unknown: a registry that is down must not keep pods from starting. The
        // multiarch-tuning-operator releases them as well, after 5 attempts (`MaxRetryCount`).
        Decision::Leave(why) => match uninspected(pod, known, policy) {
            Some(sentence) => release(changed, true, NOT_INSPECTED, &sentence),
            None => release(changed, false, NOT_PLACED, describe_leave(why)),
        },
        Decision::Place(placement) => {
            placement.write(&mut changed, ChangeStage::Gated);
            match uninspected(pod, known, policy) {
                Some(sentence) => release(changed, true, NOT_INSPECTED, &sentence),
                None => release(changed, false, PLACED, &describe_placement(&placement)),
            }
        }
        Decision::NoFit(no_fit) => {
            let (reason, message) = (no_fit.shortfall.reason(), no_fit.to_string());
            // An admitted pod is not deleted: where admission would deny it now, it stays gated.
            if policy.on_no_match != OnNoMatch::Warn {
                annotate_reason(&mut changed, reason, &message);
                let notice = Notice {
                    warning: true,
                    reason,
                    message,
                };
                return GatedDecision::Hold {
                    pod: changed,
                    notice,
                };
            }
            if let Some(placement) = &no_fit.placement {
                placement.write(&mut changed, ChangeStage::Gated);
            }
            release(changed, true, reason, &message)
        }
    }
}

fn release(mut pod: Value, warning: bool, reason: &'static str, message: &str) -> GatedDecision {
    annotate_reason(&mut pod, reason, message);
    remove_gate(&mut pod);
    GatedDecision::Release {
        pod,
        notice: Notice {
            warning,
            reason,
            message: message.to_owned(),
        },
    }
}

/// Releases a gated pod while no placement controller is running: with the node affinity that follows from what is
/// known. No pod is held: one that no node runs is restricted to the platforms of its images, so that the scheduler
/// holds it.
pub fn release_abandoned<'n>(
    pod: &Value,
    policy: Option<&Policy>,
    known: &BTreeMap<String, Inspection>,
    classes: &BTreeMap<String, RuntimeClass>,
    nodes: impl Into<Nodes<'n>>,
) -> (Value, Notice) {
    let mut lenient = policy.cloned();
    if let Some(policy) = &mut lenient {
        policy.on_no_match = OnNoMatch::Warn;
    }
    let unknown = match decide_gated(pod, lenient.as_ref(), known, classes, nodes) {
        GatedDecision::Release { mut pod, notice } => {
            let message = format!("{}; released because {NO_CONTROLLER}", notice.message);
            annotate_reason(&mut pod, notice.reason, &message);
            return (pod, Notice { message, ..notice });
        }
        GatedDecision::Ask(unknown) => unknown,
        // Not reached with a policy that warns; if it were, the pod would still have to be released.
        GatedDecision::Hold { notice, .. } => {
            return release_without_affinity(pod, &notice.message);
        }
    };
    let why = format!(
        "the platforms of {} are not known, and {NO_CONTROLLER}",
        list_images(&unknown)
    );
    release_without_affinity(pod, &why)
}

/// The pod without the gate and otherwise unchanged, and the event about it. For a pod whose node affinity the API
/// server rejects or that a user releases: no other controller removes the gate, and the pod would stay unscheduled.
pub fn release_without_affinity(pod: &Value, why: &str) -> (Value, Notice) {
    let mut pod = pod.clone();
    let message = format!("released without node affinity: {why}");
    annotate_reason(&mut pod, NOT_PLACED, &message);
    remove_gate(&mut pod);
    let notice = Notice {
        warning: true,
        reason: NOT_PLACED,
        message,
    };
    (pod, notice)
}

/// Removes our scheduling gate.
fn remove_gate(pod: &mut Value) {
    let gates = pod.pointer_mut("/spec/schedulingGates");
    if let Some(gates) = gates.and_then(Value::as_array_mut) {
        gates.retain(|gate| gate.get("name").and_then(Value::as_str) != Some(names::GATE));
    }
}

/// Whether a pod has our scheduling gate.
pub fn is_gated(pod: &Value) -> bool {
    has_gate(pod, names::GATE)
}

/// Whether a pod has a scheduling gate.
pub(crate) fn has_gate(pod: &Value, gate: &str) -> bool {
    let gates = pod.pointer("/spec/schedulingGates");
    let gates = gates.and_then(Value::as_array).into_iter().flatten();
    let mut names = gates.filter_map(|gate| gate.get("name").and_then(Value::as_str));
    names.any(|name| name == gate)
}

/// The message about images that could not be inspected, if there are any.
fn uninspected(
    pod: &Value,
    known: &BTreeMap<String, Inspection>,
    policy: &Policy,
) -> Option<String> {
    let used = images(pod.get("spec").unwrap_or(&Value::Null));
    let mut failed: Vec<String> = used
        .iter()
        .filter_map(|used| match known.get(&used.image)? {
            Inspection::Uninspectable(why) => Some(format!(
                "image {} of {} cannot be inspected: {}",
                used.image, used.by, why.message
            )),
            Inspection::Platforms(_) | Inspection::Anywhere => None,
        })
        .collect();
    failed.dedup();
    if failed.is_empty() {
        return None;
    }
    let then = match &policy.later.fallback_architecture {
        Some(architecture) => format!("assuming {architecture}"),
        None => "placing the pod by its other images".to_owned(),
    };
    Some(format!("{}; {then}", failed.join("; ")))
}

/// The JSON patch from one pod to the other, limited to the fields that placement writes.
pub fn changes<'a>(before: &'a Value, after: &'a Value) -> Vec<Value> {
    const FIELDS: [(&str, &str); 5] = [
        ("metadata", "annotations"),
        ("spec", "affinity"),
        ("spec", "tolerations"),
        ("spec", "runtimeClassName"),
        ("spec", "schedulingGates"),
    ];
    let changed = FIELDS.iter().filter_map(|(part, field)| {
        let of = |pod: &'a Value| pod.get(part)?.get(field);
        let (old, new) = (of(before), of(after));
        if old == new {
            return None;
        }
        let path = format!("/{part}/{field}");
        match new {
            // Removed instead of set to an empty list: both mean the same, and every API server accepts it.
            Some(Value::Array(list)) if list.is_empty() => {
                old.map(|_| json!({ "op": "remove", "path": path }))
            }
            Some(new) => Some(json!({ "op": "add", "path": path, "value": new })),
            None => old.map(|_| json!({ "op": "remove", "path": path })),
        }
    });
    changed.collect()
}
