//! What a node does next about an instance.

use k8s_openapi::api::core::v1::Node;
use kube::api::DynamicObject;
use serde_json::Value;

use crate::model::{Cpu, is_known_model};
use crate::operators::kubevirt::labels::CPU_MODEL;
use crate::operators::kubevirt::launcher::{Launcher, model};
use crate::operators::kubevirt::object::{is_leaving, phase, text};

/// What is to be done.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step<'a> {
    /// Nothing until something changes.
    Nothing,
    /// Start the guest in this pod.
    Run(&'a Launcher),
    /// Stop the guest.
    ShutDown,
    /// The guest ended by itself.
    Ended,
    /// The guest is gone, and nobody asked for it.
    Crashed,
    /// libvirt does not start such a guest here, and says why.
    Refused(String),
}

/// What is to be done about an instance by the node it is on.
pub(super) fn step<'a>(
    instance: &DynamicObject,
    node: Option<&Node>,
    cpu: Option<&Cpu>,
    launchers: &'a [Launcher],
) -> Step<'a> {
    let starting = match phase(instance) {
        "Scheduled" => true,
        "Running" => false,
        _ => return Step::Nothing,
    };
    let on = text(instance, "/status/nodeName");
    let launcher = launchers.iter().find(|one| one.node == on);
    let Some((launcher, node)) = launcher.zip(node) else {
        return Step::Crashed;
    };
    match launcher.phase.as_str() {
        "Succeeded" => return Step::Ended,
        "Failed" => return Step::Crashed,
        _ => {}
    }
    // A launcher that is told to stop tells its guest.
    if is_leaving(instance) || launcher.leaving {
        return Step::ShutDown;
    }
    if !starting {
        return Step::Nothing;
    }
    let spec = instance.data.get("spec").unwrap_or(&Value::Null);
    match refusal(model(spec), node, cpu) {
        Some(why) => Step::Refused(why),
        None => Step::Run(launcher),
    }
}

/// What libvirt has against a model on a node. It knows nothing of what KubeVirt calls obsolete.
fn refusal(model: &str, node: &Node, cpu: Option<&Cpu>) -> Option<String> {
    if matches!(model, "" | "host-model" | "host-passthrough") {
        return None;
    }
    // A node of which nothing else is known has only its labels.
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
