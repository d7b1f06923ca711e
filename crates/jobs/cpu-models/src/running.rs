//! Running VMs, from VirtualMachineInstances and pods.

#[cfg(test)]
mod tests;

use std::borrow::Borrow;
use std::collections::BTreeMap;

use api::kubevirt::{VirtualMachineInstance, labels, phases};
use k8s_openapi::api::core::v1::Pod;

use crate::instance::recorded;
use crate::launcher;
use crate::machine::{Machine, Requested, RunningVm};
use crate::names::HOST_MODEL;
use crate::settings::Settings;

/// All instances that are not finished, by namespace and name. `pods` supplies the selectors of the
/// launchers of those with `host-model`.
pub fn running<'a, P: Borrow<Pod>>(
    instances: impl IntoIterator<Item = &'a VirtualMachineInstance>,
    pods: &[P],
    settings: &Settings,
) -> Vec<RunningVm> {
    let mut launchers: BTreeMap<&str, Vec<&Pod>> = BTreeMap::new();
    for pod in pods {
        let pod: &Pod = pod.borrow();
        let labels = pod.metadata.labels.as_ref();
        if let Some(uid) = labels.and_then(|it| it.get(labels::CREATED_BY)) {
            launchers.entry(uid).or_default().push(pod);
        }
    }
    let alive = instances.into_iter().filter(|it| is_alive(it));
    let mut machines: Vec<RunningVm> = alive
        .map(|instance| {
            let mut running = placed(instance, settings);
            let uid = instance.metadata.uid.as_deref().unwrap_or_default();
            // Pods are needed for these only; the selectors of others follow from their model.
            if has_host_model(&running)
                && let Some(pods) = launchers.get(uid)
            {
                carry(&mut running, pods);
            }
            running
        })
        .collect();
    machines.sort_by(|a, b| {
        let (a, b) = (&a.machine, &b.machine);
        (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name))
    });
    machines
}

/// Whether an instance is neither Succeeded nor Failed.
pub fn is_alive(instance: &VirtualMachineInstance) -> bool {
    ![phases::SUCCEEDED, phases::FAILED].contains(&instance.phase())
}

/// The VM of an instance, with the default model that KubeVirt's webhook fills in.
pub fn machine(instance: &VirtualMachineInstance, settings: &Settings) -> Machine {
    let mut machine = Machine::of_instance(instance, &settings.node_selector);
    // No model reads as host-model too; what KubeVirt's webhook has not completed gets the default.
    if machine.requested == Requested::HostModel {
        let spec = &instance.spec;
        machine.requested = settings.requested(spec.model(), spec.architecture.as_deref());
    }
    machine
}

/// An instance with its node and recorded model.
pub fn placed(instance: &VirtualMachineInstance, settings: &Settings) -> RunningVm {
    RunningVm {
        machine: machine(instance, settings),
        node: instance.node_name().unwrap_or_default().to_owned(),
        recorded: recorded(instance).map(str::to_owned),
        carried: BTreeMap::new(),
    }
}

/// Whether the selector of its launcher pod determines where a VM can migrate.
pub fn has_host_model(running: &RunningVm) -> bool {
    match &running.recorded {
        Some(model) => model == HOST_MODEL,
        None => running.machine.requested == Requested::HostModel,
    }
}

/// Records the selector of the launcher pod on the node of a VM.
pub fn carry<P: Borrow<Pod>>(running: &mut RunningVm, pods: &[P]) {
    if let Some(selector) = launcher::selector_on(&running.node, pods) {
        running.carried = launcher::carried(&selector);
    }
}
