//! Simulated KubeVirt: the stock release, which knows only libvirt's CPU models.
//!
//! ```text
//! KubeVirt, CPUs of nodes --labeller--> labels of nodes                               (virt-handler)
//! VirtualMachine --machines--> VirtualMachineInstance                               (virt-controller)
//! VirtualMachineInstance --instances--> launcher pod, Pending, Scheduling, Scheduled (virt-controller)
//!   Scheduled --handler--> Running, Succeeded, Failed                                  (virt-handler)
//! VirtualMachineInstanceMigration --migrations--> target pod, the instance moves       (both)
//! ```
//!
//! Names, selectors, phases and messages are KubeVirt's. Guests are not simulated: an instance runs
//! as long as its launcher pod. There are no webhooks: their defaults are set when a VirtualMachine
//! creates its instance, and in the first step of an instance created by another client.

mod config;
mod context;
mod defaults;
#[cfg(test)]
mod fixtures;
mod handler;
mod instances;
mod labeller;
mod labels;
mod launcher;
mod machines;
mod migrations;
mod object;

use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use runtime::{Change, Key, Manager, Queue};

use super::kinds::kubevirt;
use context::Context;
pub(crate) use labels::by_default as default_labels;

/// Instances and virtual machines reconciled concurrently.
const WORKERS: usize = 16;

/// Starts KubeVirt. Its CRDs have to be established.
pub(super) async fn start(manager: &Manager, client: Client, speed: f64) {
    let context = Context::start(manager, client, speed).await;
    let (machines, instances, handler): (Queue<Key>, Queue<Key>, Queue<Key>) =
        (Queue::new(), Queue::new(), Queue::new());
    let to = machines.clone();
    context.machines.on_change(move |change| {
        if let Some(machine) = change.object() {
            to.add(Key::of(&machine.metadata));
        }
    });
    // An instance has the name of its virtual machine, so one key enqueues both.
    let (to_machines, to, to_handler) = (machines.clone(), instances.clone(), handler.clone());
    context.instances.on_change(move |change| {
        if let Some(instance) = change.object() {
            let key = Key::of(&instance.metadata);
            to_machines.add(key.clone());
            to_handler.add(key.clone());
            to.add(key);
        }
    });
    let (to, to_handler) = (instances.clone(), handler.clone());
    context.pods.on_change(move |change| {
        if let Some(key) = launched_for(change) {
            to_handler.add(key.clone());
            to.add(key);
        }
    });
    labeller::start(manager, &context);
    migrations::start(manager, &context);
    manager.start(machines::Machines::new(context.clone()), &machines, WORKERS);
    manager.start(
        instances::Instances::new(context.clone()),
        &instances,
        WORKERS,
    );
    manager.start(handler::Handler::new(context), &handler, WORKERS);
}

/// The instance that a launcher pod belongs to.
fn launched_for(change: &Change<Pod>) -> Option<Key> {
    let pod = change.object()?;
    let annotations = pod.metadata.annotations.as_ref()?;
    let name = annotations.get(labels::DOMAIN)?;
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    Some(Key::new(namespace, name))
}
