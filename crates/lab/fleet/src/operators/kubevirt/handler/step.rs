//! The next action of a node for an instance.

use k8s_openapi::api::core::v1::Node;
use kube::api::DynamicObject;
use serde_json::Value;

use crate::model::{Cpu, is_known_model};
use crate::operators::kubevirt::labels::CPU_MODEL;
use crate::operators::kubevirt::launcher::{Launcher, current, model};
use crate::operators::kubevirt::object::{is_leaving, phase};

/// The next action.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum HandlerStep<'a> {
    /// Wait for a change.
    Nothing,
    /// Start the guest in this pod.
    Run(&'a Launcher),
    /// Stop the guest.
    ShutDown,
    /// The guest shut itself down.
    Ended,
    /// The guest is gone without a request to stop it.
    Crashed,
    /// libvirt does not start the guest on this node, with its error.
    Refused(String),
}

/// The next action for an instance on its node.
pub(super) fn step<'a>(
    instance: &DynamicObject,
    node: Option<&Node>,
    cpu: Option<&Cpu>,
    launchers: &'a [Launcher],
) -> HandlerStep<'a> {
    let starting = match phase(instance) {
        "Scheduled" => true,
        "Running" => false,
        _ => return HandlerStep::Nothing,
    };
    let launcher = current(instance, launchers);
    let Some((launcher, node)) = launcher.zip(node) else {
        return HandlerStep::Crashed;
    };
    match launcher.phase.as_str() {
        "Succeeded" => return HandlerStep::Ended,
        "Failed" => return HandlerStep::Crashed,
        _ => {}
    }
    // A launcher pod that is being deleted stops its guest.
    if is_leaving(instance) || launcher.leaving {
        return HandlerStep::ShutDown;
    }
    if !starting {
        return HandlerStep::Nothing;
    }
    let spec = instance.data.get("spec").unwrap_or(&Value::Null);
    match refusal(model(spec), node, cpu) {
        Some(why) => HandlerStep::Refused(why),
        None => HandlerStep::Run(launcher),
    }
}

/// libvirt's error for a model on a node. libvirt is not aware of KubeVirt's obsolete models.
fn refusal(model: &str, node: &Node, cpu: Option<&Cpu>) -> Option<String> {
    if matches!(model, "" | "host-model" | "host-passthrough") {
        return None;
    }
    // Without a CPU annotation the node's labels decide.
    let labelled = || {
        let labels = node.metadata.labels.as_ref();
        labels.is_some_and(|labels| labels.contains_key(&format!("{CPU_MODEL}{model}")))
    };
    let usable = cpu.map_or_else(labelled, |cpu| {
        cpu.models.iter().any(|usable| usable == model)
    });
    if usable {
        return None;
    }
    let known = is_known_model(model)
        || cpu.is_some_and(|cpu| cpu.known_models.iter().any(|known| known == model));
    Some(if known {
        let missing = cpu.map(|cpu| cpu.lacks(model)).unwrap_or_default();
        format!(
            "LibvirtError(Code=91, Domain=31, Message='the CPU is incompatible with host CPU: Host CPU does not provide required features: {}')",
            missing.join(", ")
        )
    } else {
        format!(
            "LibvirtError(Code=1, Domain=31, Message='internal error: Unknown CPU model {model}')"
        )
    })
}

#[cfg(test)]
mod tests;
