//! The fields of a VirtualMachineInstance that matter for its CPU model.

mod future;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use api::kubevirt::{Feature, VirtualMachineInstance, phases};
use k8s_openapi::api::core::v1::{NodeSelector, Pod};

use crate::demand::{Demand, DemandInputs};
use crate::launcher;
use crate::machine::{Machine, Requested};
use crate::names::{
    BEST_MATCH_MODEL, MODEL_ANNOTATION, REASON_ANNOTATION, REQUESTED_MODEL_ANNOTATION,
};
use crate::resources;

impl Machine {
    /// The VM of an instance without a launcher pod: what its pod will demand, as far as the spec shows it.
    /// `everywhere` are the labels that every node for VMs must have (`developerConfiguration.nodeSelectors` of the
    /// KubeVirt).
    pub fn of_instance(
        instance: &VirtualMachineInstance,
        everywhere: &BTreeMap<String, String>,
    ) -> Self {
        let spec = &instance.spec;
        let mut labels = everywhere.clone();
        // The VM's own keys win, as in the launcher pod that KubeVirt renders.
        labels.extend(spec.node_selector.clone());
        let required = spec.affinity.as_ref().and_then(|affinity| {
            affinity.pointer("/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution")
        });
        // An unreadable affinity matches no node, like a selector without terms.
        let required = required.filter(|required| !required.is_null());
        let required: Option<NodeSelector> =
            required.map(|required| serde_json::from_value(required.clone()).unwrap_or_default());
        let cpu = spec.domain.cpu.as_ref();
        Self::demanding(
            instance,
            DemandInputs {
                node_selector: Some(&labels),
                required: required.as_ref(),
                tolerations: &spec.tolerations,
                dedicated_cpus: cpu.and_then(|cpu| cpu.dedicated_cpu_placement) == Some(true),
                resources: future::resources(spec),
                ..DemandInputs::default()
            },
        )
    }

    /// The VM of an instance with its launcher pod, whose own constraints decide: KubeVirt, its sidecars and other
    /// webhooks add to those of the instance.
    pub fn of_launcher(instance: &VirtualMachineInstance, pod: &Pod) -> Self {
        let spec = pod.spec.clone().unwrap_or_default();
        let affinity = spec.affinity.as_ref();
        let required = affinity.and_then(|it| it.node_affinity.as_ref());
        let required = required.and_then(|it| {
            it.required_during_scheduling_ignored_during_execution
                .as_ref()
        });
        let labels = launcher::lasting(spec.node_selector.as_ref());
        Self::demanding(
            instance,
            DemandInputs {
                node_selector: Some(&labels),
                required,
                tolerations: spec.tolerations.as_deref().unwrap_or_default(),
                resources: resources::requests(&spec),
                ..DemandInputs::default()
            },
        )
    }

    /// The VM that demands these parts, and what the spec of the instance says about its CPU.
    fn demanding(instance: &VirtualMachineInstance, parts: DemandInputs<'_>) -> Self {
        let spec = &instance.spec;
        let cpu = spec.domain.cpu.as_ref();
        let features = cpu.map(|cpu| cpu.features.as_slice()).unwrap_or_default();
        let with = |policies: &[&str]| -> Vec<String> {
            let policy = |feature: &Feature| feature.policy.clone().unwrap_or_default();
            let found = features.iter();
            let found = found.filter(|feature| policies.contains(&policy(feature).as_str()));
            found.map(|feature| feature.name.clone()).collect()
        };
        let demand = Demand::new(&DemandInputs {
            // As in pkg/virt-controller/services/nodeselectorrenderer.go. `force` selects no node:
            // libvirt claims the feature to the guest whether or not the host has it.
            required_features: &with(&["", "require"]),
            forbidden_features: &with(&["forbid"]),
            architecture: spec.architecture.as_deref(),
            machine_type: instance.machine_type(),
            ..parts
        });
        Self {
            namespace: instance.metadata.namespace.clone().unwrap_or_default(),
            name: instance.metadata.name.clone().unwrap_or_default(),
            // After the choice the spec has the chosen model in place of best-match-model.
            requested: if is_ours(instance) {
                Requested::BestMatch
            } else {
                Requested::new(spec.model())
            },
            demand: Arc::new(demand),
        }
    }
}

/// Whether an instance requests best-match-model, or did so before the choice.
pub fn is_ours(instance: &VirtualMachineInstance) -> bool {
    instance.spec.model() == Some(BEST_MATCH_MODEL) || recorded(instance).is_some()
}

/// The model chosen for an instance: a model name, `host-model` or `host-passthrough`.
///
/// The choice is written to the spec and recorded in annotations; an unmodified KubeVirt prunes
/// `status.prefferedModel`. An annotation that differs from the model of the spec was copied from
/// another instance, and is ignored.
pub fn recorded(instance: &VirtualMachineInstance) -> Option<&str> {
    let requested = annotation(instance, REQUESTED_MODEL_ANNOTATION);
    let chosen = annotation(instance, MODEL_ANNOTATION);
    // Annotations before the status, which an unmodified KubeVirt prunes.
    if requested == Some(BEST_MATCH_MODEL) && chosen.is_some() && chosen == instance.spec.model() {
        return chosen;
    }
    let status = instance.status.as_ref()?;
    let preferred = status.preffered_model.as_deref();
    preferred.filter(|model| !model.is_empty())
}

/// The reason for the choice recorded for an instance, in CamelCase; empty if none is.
pub fn reason(instance: &VirtualMachineInstance) -> &str {
    annotation(instance, REASON_ANNOTATION).unwrap_or_default()
}

/// How to repair an instance without a model that was admitted while the webhook was not called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repair {
    /// Wait until the webhook is registered: a replacement would be wrong in the same way before.
    AwaitWebhook,
    /// Write the instance, so that admission chooses a model: it was handed over without one.
    Rewrite,
    /// Delete its launchers that no node can run, so that KubeVirt creates others.
    DeleteLaunchers,
}

impl Repair {
    /// The repair of an instance without a model.
    pub fn of(instance: &VirtualMachineInstance, webhook_registered: bool) -> Self {
        match instance.phase() {
            _ if !webhook_registered => Self::AwaitWebhook,
            phases::SCHEDULED | phases::RUNNING => Self::Rewrite,
            _ => Self::DeleteLaunchers,
        }
    }
}

fn annotation<'a>(instance: &'a VirtualMachineInstance, name: &str) -> Option<&'a str> {
    let annotations = instance.metadata.annotations.as_ref()?;
    annotations.get(name).map(String::as_str)
}
