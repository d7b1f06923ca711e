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

/// All instances that are not finished, by namespace and name, with those of the pods that are their launchers.
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
            let uid = instance.metadata.uid.as_deref().unwrap_or_default();
            let pods = launchers.get(uid).map(Vec::as_slice);
            placed(instance, pods.unwrap_or_default(), settings)
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

/// The VM of an instance, with the default model that KubeVirt's webhook fills in. Its launcher decides where it can
/// run; without one, the spec of the instance.
pub fn machine(
    instance: &VirtualMachineInstance,
    launcher: Option<&Pod>,
    settings: &Settings,
) -> Machine {
    let mut machine = match launcher {
        Some(pod) => Machine::of_launcher(instance, pod),
        None => Machine::of_instance(instance, &settings.node_selector),
    };
    // No model reads as host-model too; what KubeVirt's webhook has not completed gets the default.
    if machine.requested == Requested::HostModel {
        let spec = &instance.spec;
        machine.requested = settings.requested(spec.model(), spec.architecture.as_deref());
    }
    machine
}

/// An instance with its node, its recorded model and, of its pods, the launcher on that node.
pub fn placed<P: Borrow<Pod>>(
    instance: &VirtualMachineInstance,
    pods: &[P],
    settings: &Settings,
) -> RunningVm {
    let node = instance.node_name().unwrap_or_default().to_owned();
    let launcher = launcher::on_node(&node, pods);
    let machine = machine(instance, launcher, settings);
    let recorded = recorded(instance).map(str::to_owned);
    let has_host_model = match &recorded {
        Some(model) => model == HOST_MODEL,
        None => machine.requested == Requested::HostModel,
    };
    let selector = launcher.and_then(|pod| pod.spec.as_ref()?.node_selector.as_ref());
    RunningVm {
        machine,
        node,
        recorded,
        // The labels of other models follow from the model.
        carried: selector
            .filter(|_| has_host_model)
            .map(launcher::carried)
            .unwrap_or_default(),
    }
}
