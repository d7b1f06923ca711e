//! Admission of a pod: allow it unchanged, allow it with node affinity, hold it at a scheduling gate, or deny it.

#[cfg(test)]
pub(crate) mod tests;

use std::collections::BTreeMap;

use api::placement::{Mode, OnMiss, OnNoMatch};
use serde_json::{Value, json};

use crate::change::ChangeStage;
use crate::decide::{Decision, LeaveReason, Placement, decide, is_for_one_node};
use crate::images::{ImageUse, Inspection};
use crate::liveness::Controller;
use crate::names;
use crate::no_fit::NoFit;
use crate::nodes::Nodes;
use crate::policy::{Policy, Skip};
use crate::settings::RuntimeClass;

/// The platforms of these images are unknown; inspect them and decide again.
#[derive(Debug, Clone, PartialEq)]
pub struct NeedsInspection(pub Vec<ImageUse>);

/// The admission decision for a pod.
#[derive(Debug, Clone, PartialEq)]
pub enum Admission {
    /// Allow the pod, possibly mutated.
    Allow(Allowed),
    /// Deny the pod.
    Deny {
        /// CamelCase reason, also the `outcome` label of the admission metrics.
        reason: &'static str,
        /// Message of the denial, shown by kubectl.
        message: String,
    },
}

/// An allowed pod.
#[derive(Debug, Clone, PartialEq)]
pub struct Allowed {
    /// Recorded in the `outcome` label of the admission metrics and in the audit annotation.
    pub outcome: &'static str,
    /// The mutated pod; `None` when it is admitted unchanged.
    pub mutated: Option<Value>,
    /// Admission warnings, shown by kubectl.
    pub warnings: Vec<String>,
    /// Audit annotation.
    pub audit_note: Option<String>,
}

impl Allowed {
    /// Allows a pod as it is.
    pub fn unchanged(outcome: &'static str) -> Self {
        Self {
            outcome,
            mutated: None,
            warnings: Vec::new(),
            audit_note: None,
        }
    }
}

impl From<Skip> for Admission {
    /// A pod without a policy is admitted unchanged.
    fn from(skip: Skip) -> Self {
        Self::Allow(Allowed::unchanged(skip.as_str()))
    }
}

/// Decides the admission of a new pod. `classes` are the RuntimeClasses of the cluster, by name. Without a running
/// controller no pod is gated.
pub fn admit<'n>(
    pod: &Value,
    policy: &Policy,
    controller: Controller,
    known: &BTreeMap<String, Inspection>,
    classes: &BTreeMap<String, RuntimeClass>,
    nodes: impl Into<Nodes<'n>>,
) -> Result<Admission, NeedsInspection> {
    Ok(match decide(pod, known, classes, nodes, &policy.settings) {
        Decision::Ask(unknown) => return Err(NeedsInspection(unknown)),
        Decision::Leave(why) => Admission::Allow(Allowed::unchanged(why.as_str())),
        Decision::Place(placement) => Admission::Allow(allow_placed(pod, policy, &placement)),
        Decision::NoFit(no_fit) => decide_no_fit(pod, policy, controller, &no_fit),
    })
}

fn allow_placed(pod: &Value, policy: &Policy, placement: &Placement) -> Allowed {
    let summary = describe_placement(placement);
    let mut allowed = Allowed {
        audit_note: Some(format!("{PLACED}: {summary}")),
        ..Allowed::unchanged(PLACED)
    };
    if policy.mode == Mode::Place {
        let mut changed = pod.clone();
        // An unchanged pod gets no annotation either: a patch makes the API server run all mutating plugins again.
        if placement.write(&mut changed, ChangeStage::Admission) {
            annotate_reason(&mut changed, PLACED, &summary);
            allowed.mutated = Some(changed);
        }
    }
    allowed
}

fn decide_no_fit(
    pod: &Value,
    policy: &Policy,
    controller: Controller,
    no_fit: &NoFit,
) -> Admission {
    let reason = no_fit.shortfall.reason();
    let message = match (policy.mode, policy.on_no_match, controller) {
        (Mode::Place, OnNoMatch::Hold, Controller::NotRunning) => {
            format!("{no_fit}; it is not held, because {NO_CONTROLLER}")
        }
        _ => no_fit.to_string(),
    };
    let note = Some(format!("{reason}: {message}"));
    let warned = || Allowed {
        warnings: vec![message.clone()],
        audit_note: note.clone(),
        ..Allowed::unchanged(reason)
    };
    let allowed = match (policy.mode, policy.on_no_match, controller) {
        (Mode::Audit, ..) => Allowed {
            audit_note: note,
            ..Allowed::unchanged(reason)
        },
        (Mode::Warn, ..) => warned(),
        (Mode::Place, OnNoMatch::Reject, _) => return Admission::Deny { reason, message },
        // Without the placement: nodes may change until the gate is removed, and required terms can only be narrowed
        // then.
        (Mode::Place, OnNoMatch::Hold, Controller::Running) => {
            let mut changed = pod.clone();
            add_gate(&mut changed);
            annotate_reason(&mut changed, reason, &message);
            Allowed {
                mutated: Some(changed),
                ..warned()
            }
        }
        // Restricted to the platforms of its images, so that the scheduler itself holds the pod until a node joins.
        (Mode::Place, OnNoMatch::Warn, _)
        | (Mode::Place, OnNoMatch::Hold, Controller::NotRunning) => {
            let mut changed = pod.clone();
            if let Some(placement) = &no_fit.placement {
                placement.write(&mut changed, ChangeStage::Admission);
            }
            annotate_reason(&mut changed, reason, &message);
            Allowed {
                mutated: Some(changed),
                ..warned()
            }
        }
    };
    Admission::Allow(allowed)
}

/// Decides the admission of a pod whose images could not be inspected in time: with `onMiss: Gate` or `Sync` it is held at the
/// scheduling gate until the controller has inspected them, if one is running. Audit and Warn mutate nothing.
pub fn admit_uninspected(
    pod: &Value,
    policy: &Policy,
    controller: Controller,
    unknown: &[ImageUse],
) -> Admission {
    let (Mode::Place, OnMiss::Gate | OnMiss::Sync) = (policy.mode, policy.on_miss) else {
        return Admission::Allow(Allowed::unchanged("NotKnown"));
    };
    // No other node can be chosen for it. A DaemonSet may run what the node needs to become ready.
    if is_for_one_node(pod.get("spec").unwrap_or(&Value::Null)) {
        return Admission::Allow(Allowed::unchanged(LeaveReason::OneNode.as_str()));
    }
    Admission::Allow(match controller {
        Controller::Running => Allowed {
            mutated: Some(with_gate(pod, unknown)),
            ..Allowed::unchanged("Gated")
        },
        Controller::NotRunning => admit_ungated(pod, unknown),
    })
}

/// Admits a pod that no controller would release from the gate. The annotation tells its owner, who may not see the
/// warning: most pods are created by controllers.
fn admit_ungated(pod: &Value, unknown: &[ImageUse]) -> Allowed {
    let message = format!(
        "the platforms of {} are not known yet, and {NO_CONTROLLER} to release the pod from the scheduling gate; it may be scheduled to a node that cannot run it",
        list_images(unknown)
    );
    let mut changed = pod.clone();
    annotate_reason(&mut changed, NOT_GATED, &message);
    Allowed {
        mutated: Some(changed),
        audit_note: Some(format!("{NOT_GATED}: {message}")),
        warnings: vec![message],
        ..Allowed::unchanged(NOT_GATED)
    }
}

/// The pod with the scheduling gate, to be admitted while its images are inspected.
fn with_gate(pod: &Value, unknown: &[ImageUse]) -> Value {
    let mut changed = pod.clone();
    add_gate(&mut changed);
    annotate_reason(
        &mut changed,
        names::WAITING,
        &format!("inspecting the platforms of {}", list_images(unknown)),
    );
    changed
}

pub(crate) fn list_images(images: &[ImageUse]) -> String {
    let images: Vec<&str> = images.iter().map(|used| used.image.as_str()).collect();
    images.join(", ")
}

/// Reason of a pod that would have been gated, had a controller been running.
const NOT_GATED: &str = "NotGated";
/// Why pods are not gated, or are released early.
pub(crate) const NO_CONTROLLER: &str = "no placement controller is running";

/// Reason of a pod that received a node affinity.
pub(crate) const PLACED: &str = "Placed";

/// Describes the nodes that a placement selects.
pub(crate) fn describe_placement(placement: &Placement) -> String {
    let all: Vec<&str> = placement.architectures().into_iter().collect();
    let where_to = if all.is_empty() {
        "on nodes of its runtime class".to_owned()
    } else {
        format!("on {}", all.join(", "))
    };
    match &placement.runtime_class {
        Some(class) => format!("its images run {where_to} with the runtime class {class}"),
        None => format!("its images run {where_to}"),
    }
}

/// Adds the scheduling gate to a pod.
fn add_gate(pod: &mut Value) {
    let gate = json!({ "name": names::GATE });
    let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) else {
        return;
    };
    let gates = spec.entry("schedulingGates").or_insert(Value::Null);
    if gates.is_null() {
        *gates = json!([]);
    }
    if let Some(gates) = gates.as_array_mut()
        // The webhook may be called twice (reinvocationPolicy), and the API server rejects duplicate gates.
        && !gates.contains(&gate)
    {
        gates.push(gate);
    }
}

/// Writes the placement reason and message into the pod's annotation.
pub(crate) fn annotate_reason(pod: &mut Value, reason: &str, message: &str) {
    if let Some(metadata) = pod.get_mut("metadata").and_then(Value::as_object_mut) {
        let annotations = metadata.entry("annotations").or_insert(Value::Null);
        if annotations.is_null() {
            *annotations = json!({});
        }
        if let Some(annotations) = annotations.as_object_mut() {
            let text = format!("{reason}: {message}");
            annotations.insert(names::WHY.to_owned(), text.into());
        }
    }
}

/// Splits the annotation written by [`annotate_reason`] into reason and message.
pub fn parse_reason(annotations: &BTreeMap<String, String>) -> Option<(&str, &str)> {
    annotations.get(names::WHY)?.split_once(": ")
}
