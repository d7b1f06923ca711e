//! Admission of virtual machines and instances: errors, warnings, and the model of an instance that is handed over.
//!
//! virt-controller hands an instance to virt-handler by writing the node and the phase `Scheduled` in one update, when
//! the launcher pod is ready on its node. The model is set in that update, so that virt-handler never sees the
//! instance without it.

#[cfg(test)]
mod tests;

use api::kubevirt::{VirtualMachineInstance, VirtualMachineInstanceSpec, phases};
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use crate::decide::{Decision, decide};
use crate::index::Index;
use crate::machine::Machine;
use crate::names::{
    BEST_MATCH_MODEL, MODEL_ANNOTATION, NODE_ANNOTATION, REASON_ANNOTATION,
    REQUESTED_MODEL_ANNOTATION,
};
use crate::prospects::prospects;
use crate::running::machine;
use crate::settings::{ARM64, Settings};

/// Phases in which virt-handler owns an instance.
pub const HANDED_OVER: [&str; 3] = [phases::SCHEDULED, phases::RUNNING, "Unknown"];

/// Whether an instance has been handed to virt-handler.
pub fn is_handed_over(instance: &Value) -> bool {
    let phase = instance.pointer("/status/phase").and_then(Value::as_str);
    phase.is_some_and(|phase| HANDED_OVER.contains(&phase))
}

/// KubeVirt's error for a model that its architecture does not support: arm64 has host-passthrough only.
pub fn unsupported_model(spec: &VirtualMachineInstanceSpec) -> Option<&'static str> {
    // The text of KubeVirt's own check (pkg/virt-api/webhooks/arm64.go), so that both refusals read
    // the same.
    let is_arm64 = spec.architecture.as_deref() == Some(ARM64);
    (is_arm64 && spec.model() == Some(BEST_MATCH_MODEL))
        .then_some("currently, host-passthrough is the only model supported on Arm64")
}

/// The warning for a VM that leaves the choice of its model to Medley, if none can be chosen.
pub fn warning(
    index: &Index,
    settings: &Settings,
    spec: VirtualMachineInstanceSpec,
) -> Option<String> {
    if !settings.asks_for_best_match(spec.model(), spec.architecture.as_deref()) {
        return None;
    }
    let instance = VirtualMachineInstance {
        spec,
        ..VirtualMachineInstance::default()
    };
    let machine = Machine::of_instance(&instance, &settings.node_selector);
    prospects(index, &settings.policy, &machine).warning()
}

/// The JSON patch that keeps `status.prefferedModel` of an instance when an update drops it: KubeVirt's own types do not
/// have the field, so its programs write the status without it.
pub fn kept_status(old: &Value, new: &Value) -> Vec<Value> {
    let path = "/status/prefferedModel";
    let before = old.pointer(path).filter(|model| model.is_string());
    let is_dropped = new["status"].is_object() && new.pointer(path).is_none();
    let kept = before.filter(|_| is_dropped);
    let patch = kept.map(|model| json!({ "op": "add", "path": path, "value": model }));
    patch.into_iter().collect()
}

/// The model chosen for an instance on its node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelChoice {
    /// A model name, `host-model` or `host-passthrough`.
    pub model: String,
    /// The node that it was chosen for.
    pub node: String,
    /// CamelCase reason.
    pub reason: String,
}

impl ModelChoice {
    /// Chooses the model of an instance that starts on this node, in its launcher pod.
    pub fn new(
        index: &Index,
        settings: &Settings,
        instance: &VirtualMachineInstance,
        launcher: Option<&Pod>,
        node: &str,
    ) -> Self {
        let machine = machine(instance, launcher, settings);
        let Decision { verdict, .. } = decide(index, &settings.policy, &machine, node);
        Self {
            model: verdict.model().to_owned(),
            node: node.to_owned(),
            reason: verdict.reason().to_owned(),
        }
    }

    /// The earlier choice of an instance that was handed over before: it stays even if the spec was overwritten.
    pub fn earlier(old: &Value) -> Option<Self> {
        let annotation = |name: &str| {
            let annotation = old["metadata"]["annotations"][name].as_str();
            annotation.map(str::to_owned)
        };
        // Before the hand-over the VM has not started, and a choice from an earlier attempt may be
        // for another node.
        if !is_handed_over(old) {
            return None;
        }
        Some(Self {
            model: annotation(MODEL_ANNOTATION)?,
            node: annotation(NODE_ANNOTATION)?,
            reason: annotation(REASON_ANNOTATION)?,
        })
    }

    /// The JSON patch that sets the model of an instance.
    pub fn patch(&self, instance: &Value) -> Vec<Value> {
        let mut annotations = instance["metadata"]["annotations"].clone();
        for (name, value) in [
            (REQUESTED_MODEL_ANNOTATION, BEST_MATCH_MODEL),
            (MODEL_ANNOTATION, &self.model),
            (NODE_ANNOTATION, &self.node),
            (REASON_ANNOTATION, &self.reason),
        ] {
            annotations[name] = value.into();
        }
        let add = |path: &str, value: Value| json!({ "op": "add", "path": path, "value": value });
        vec![
            add("/spec/domain/cpu/model", json!(self.model)),
            // KubeVirt releases without this status field prune it.
            add("/status/prefferedModel", json!(self.model)),
            // As a whole: the object may have none, and `add` to a missing map fails.
            add("/metadata/annotations", annotations),
        ]
    }
}
