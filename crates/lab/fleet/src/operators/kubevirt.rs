//! Simulated KubeVirt: the stock release, which knows only libvirt's CPU models.
//!
//! ```text
//! KubeVirt, CPUs of nodes --labeller--> labels of nodes                               (virt-handler)
//! VirtualMachine --machines--> VirtualMachineInstance                               (virt-controller)
//! VirtualMachineInstance --instances--> launcher pod, Pending, Scheduling, Scheduled (virt-controller)
//!   Scheduled --handler--> Running, Succeeded, Failed                                  (virt-handler)
//! VirtualMachineInstanceMigration --migrations--> target pod, handed over           (virt-controller)
//!   handed over --handler::moves--> the instance moves                                 (virt-handler)
//! ```
//!
//! Names, selectors, phases and messages are KubeVirt's. virt-controller's part is compared with KubeVirt 1.7.0:
//! `recordings/kubevirt` has what that wrote, and `tests/recordings.rs` holds this to it. Guests are not simulated: an
//! instance runs as long as its launcher pod.
//!
//! There are no webhooks. Their defaults are set when a VirtualMachine creates its instance, and for objects of other clients
//! in a request of the field manager `virt-api`. So unlike virt-api, which only lets the accounts of KubeVirt change the spec
//! and the status of an instance, this lets everyone. Not imitated: ControllerRevisions, hotplug, pausing, changes that need
//! a restart, and pods that stay when their guest has moved away.

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
    start_controllers(manager, &context);
    start_handlers(manager, &context);
}

/// Starts virt-controller, and what virt-api does, alone: nothing labels nodes or runs guests. The CRDs have to be
/// established. `speed` is the speed of simulated time, as a multiple of real time.
pub async fn start_virt_controller(manager: &Manager, client: Client, speed: f64) {
    let context = Context::start(manager, client, speed).await;
    start_controllers(manager, &context);
}

fn start_controllers(manager: &Manager, context: &Context) {
    let (machines, instances) = (Queue::new(), Queue::new());
    machines.enqueue_objects(&context.machines.cache);
    // An instance has the name of its virtual machine, so one key enqueues both.
    machines.enqueue_objects(&context.instances.cache);
    instances.enqueue_objects(&context.instances.cache);
    instances.enqueue_mapped(&context.pods, launched_for);
    migrations::start(manager, context);
    let controller = machines::Machines(context.clone());
    manager.start(controller, &machines, WORKERS);
    let controller = instances::Instances(context.clone());
    manager.start(controller, &instances, WORKERS);
}

fn start_handlers(manager: &Manager, context: &Context) {
    let (handled, moving) = (Queue::new(), Queue::new());
    for queue in [&handled, &moving] {
        queue.enqueue_objects(&context.instances.cache);
        queue.enqueue_mapped(&context.pods, launched_for);
    }
    labeller::start(manager, context);
    manager.start(handler::Handler(context.clone()), &handled, WORKERS);
    let moves = handler::moves::Moves(context.clone());
    manager.start(moves, &moving, WORKERS);
}

/// The instance that a launcher pod belongs to.
fn launched_for(change: &Change<Pod>) -> Option<Key> {
    let meta = &change.object()?.metadata;
    let name = annotation(meta, labels::DOMAIN)?;
    Some(Key::new(namespace_of(meta), name))
}
