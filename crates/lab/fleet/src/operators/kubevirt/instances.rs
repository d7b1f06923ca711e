//! virt-controller's part of an instance: from creation until a node takes over, and deletion.

mod observe;
mod step;

use kube::api::DynamicObject;
use runtime::{Error, Key, Next, Reconcile};
use serde_json::json;

use super::context::Context;
use super::defaults;
use super::launcher;
use super::object::{enter, status};
use crate::operators::report::now;
use observe::observed;
use step::{InstanceStep, step};

/// Keeps an instance until its pods are gone. Set by virt-api.
pub(super) const ADMITTED_FINALIZER: &str = "foregroundDeleteVirtualMachine";
/// Keeps a virtual machine until its instance is gone, and that until the virtual machine reports how it ended.
pub(super) const MACHINE_FINALIZER: &str = "kubevirt.io/virtualMachineControllerFinalize";

pub(super) struct Instances(pub(super) Context);

impl Reconcile for Instances {
    fn name(&self) -> &'static str {
        "virt-controller-instances"
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        let context = &self.0;
        // Each step follows from the objects alone. After a crash the next reconcile goes on with
        // the step that was not written.
        loop {
            let Some(instance) = context.instances.cache.find(key) else {
                return Ok(Next::Wait);
            };
            let launchers = context.launchers(&instance.metadata);
            match step(&instance, &launchers) {
                InstanceStep::Observe => {}
                InstanceStep::Accept => {
                    self.accept(&instance).await?;
                    continue;
                }
                InstanceStep::Launch => {
                    // virt-controller writes all objects once, so that they are stored in the version that it knows.
                    if !context.mark_observed(&context.instances, &instance).await? {
                        self.launch(&instance).await?;
                    }
                    continue;
                }
                InstanceStep::Clean(launchers) => {
                    for launcher in launchers {
                        context.delete_pod(&key.namespace, launcher).await?;
                    }
                    continue;
                }
            }
            if context.mark_observed(&context.instances, &instance).await? {
                continue;
            }
            if let Some(launcher) = launcher::current(&instance, &launchers)
                && context.sync_launcher(&instance, launcher).await?
            {
                continue;
            }
            let has_machine = context.machine_of(&instance).is_some();
            let changed = observed(&instance, &launchers, has_machine, &now());
            if changed == *instance {
                return Ok(Next::Wait);
            }
            context.update_instance(&changed).await?;
        }
    }
}

/// Whether a virtual machine owns the instance. Another client may have created one of the same name.
pub(super) fn is_owned(instance: &DynamicObject, machine: &DynamicObject) -> bool {
    let mut owners = instance.metadata.owner_references.iter().flatten();
    owners.any(|owner| {
        owner.controller == Some(true) && Some(&owner.uid) == machine.metadata.uid.as_ref()
    })
}

impl Instances {
    /// Accepts an instance that another client has created, as virt-api does in its request.
    async fn accept(&self, instance: &DynamicObject) -> Result<(), Error> {
        let mut changed = instance.clone();
        let mut spec = changed.data["spec"].take();
        defaults::fill(&mut spec, &self.0.config());
        let refusal = defaults::refusal(&spec);
        changed.data["spec"] = spec;
        // In the same update as the phase: no instance beyond the first phase lacks the finalizer.
        let finalizers = changed.metadata.finalizers.get_or_insert_default();
        if !finalizers.iter().any(|one| one == ADMITTED_FINALIZER) {
            finalizers.push(ADMITTED_FINALIZER.to_owned());
        }
        defaults::accept(status(&mut changed), &now());
        if let Some(refusal) = refusal {
            // KubeVirt's webhook would have denied it. An invalid instance fails instead.
            let kind = &self.0.instances.kind;
            let events = &self.0.controller;
            events.warning_of_kind(instance, kind, "Invalid", refusal.clone());
            status(&mut changed)["reason"] = json!(refusal);
            enter(&mut changed, "Failed", &now());
        }
        self.0.admit_instance(&changed).await
    }

    async fn launch(&self, instance: &DynamicObject) -> Result<(), Error> {
        let key = Key::of(&instance.metadata);
        let pod = launcher::render(instance, &self.0.config());
        let made = self.0.create_pod(&key.namespace, pod).await;
        let (events, kind) = (&self.0.controller, &self.0.instances.kind);
        match &made {
            Ok(pod) => {
                let name = pod.metadata.name.as_deref().unwrap_or_default();
                let text = format!("Created virtual machine pod {name}");
                events.normal_of_kind(instance, kind, "SuccessfulCreate", text);
            }
            Err(error) => {
                let text = format!("Error creating pod: {error}");
                events.warning_of_kind(instance, kind, "FailedCreate", text);
            }
        }
        made.map(drop)
    }
}
