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
use crate::names::{annotation, namespace_of};
use context::Context;
pub(crate) use labels::by_default as default_labels;

/// Instances and virtual machines reconciled concurrently.
const WORKERS: usize = 16;

/// Starts KubeVirt. Its CRDs have to be established.
pub(super) async fn start(manager: &Manager, client: Client, speed: f64) {
    let context = Context::start(manager, client, speed).await;
    let (machines, instances, handler) = (Queue::new(), Queue::new(), Queue::new());
    machines.enqueue_objects(&context.machines.cache);
    // An instance has the name of its virtual machine, so one key enqueues both.
    for queue in [&machines, &instances, &handler] {
        queue.enqueue_objects(&context.instances.cache);
    }
    for queue in [&instances, &handler] {
        queue.enqueue_mapped(&context.pods, launched_for);
    }
    labeller::start(manager, &context);
    migrations::start(manager, &context);
    manager.start(machines::Machines(context.clone()), &machines, WORKERS);
    manager.start(instances::Instances(context.clone()), &instances, WORKERS);
    manager.start(handler::Handler(context), &handler, WORKERS);
}

/// The instance that a launcher pod belongs to.
fn launched_for(change: &Change<Pod>) -> Option<Key> {
    let meta = &change.object()?.metadata;
    let name = annotation(meta, labels::DOMAIN)?;
    Some(Key::new(namespace_of(meta), name))
}
