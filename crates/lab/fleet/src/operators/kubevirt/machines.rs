//! virt-controller's part of a virtual machine: it has an instance while it should run.

mod decide;

use k8s_openapi::jiff::Timestamp;
use kube::api::DynamicObject;
use runtime::{Error, Key, Next, Reconcile};
use serde_json::{Value, json};

use super::context::Context;
use super::defaults;
use super::instances::FINALIZER as INSTANCE_FINALIZER;
use super::labels::MACHINE_NAME;
use super::object::is_leaving;
use crate::names::name_of;
use crate::operators::conditions::NewCondition;
use crate::operators::report::{conditions, generation};
use decide::{Action, VirtualMachineInputs, decide};

/// Keeps a virtual machine until its instance is gone.
const FINALIZER: &str = "kubevirt.io/virtualMachineControllerFinalize";

pub(super) struct Machines(pub(super) Context);

impl Reconcile for Machines {
    fn name(&self) -> &'static str {
        "virt-controller-machines"
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        let context = &self.0;
        loop {
            let Some(machine) = context.machines.cache.find(key) else {
                return Ok(Next::Wait);
            };
            let machines = &context.machines;
            // Before an instance exists: deleted without the finalizer, the VM would disappear
            // while its guest runs.
            if !is_leaving(&machine) && !is_finalized(&machine) {
                machines.set_finalizer(&machine, FINALIZER, true).await?;
                continue;
            }
            let instance = context.instances.cache.find(key);
            let instance = instance.filter(|it| is_owned(it, &machine));
            let verdict = decide(&VirtualMachineInputs {
                machine: &machine,
                instance: instance.as_deref(),
                now: Timestamp::now(),
                speed: context.speed,
            });
            let ready = verdict.ready;
            let ready_condition = if ready {
                NewCondition::without_reason("Ready", true)
            } else {
                let (reason, message) = match &instance {
                    None => ("VMINotExists", "VMI does not exist"),
                    Some(_) => ("GuestNotRunning", "Guest VM is not reported as running"),
                };
                NewCondition::with_reason("Ready", false, reason, message)
            };
            let mut status = verdict.status;
            status["observedGeneration"] = json!(generation(&machine));
            status["desiredGeneration"] = json!(generation(&machine));
            status["conditions"] = conditions(&machine, vec![ready_condition]);
            // The status holds the backoff state, so it is written before acting on it.
            if machines.report(&machine, status).await? {
                continue;
            }
            match (verdict.act, instance) {
                (Action::Start, _) => self.start(&machine).await?,
                (Action::Stop, Some(instance)) => {
                    context.delete_instance(&instance).await?;
                    let name = &key.name;
                    let text = format!(
                        "Stopped the virtual machine by deleting the virtual machine instance {name}"
                    );
                    let events = &context.controller;
                    events.normal_of_kind(&*machine, &machines.kind, "SuccessfulDelete", text);
                }
                (Action::Finish, _) => {
                    machines.set_finalizer(&machine, FINALIZER, false).await?;
                    return Ok(Next::Wait);
                }
                (Action::Nothing | Action::Stop, _) => {
                    return Ok(verdict.wake.map_or(Next::Wait, Next::at));
                }
            }
        }
    }
}

fn is_finalized(machine: &DynamicObject) -> bool {
    let mut all = machine.metadata.finalizers.iter().flatten();
    all.any(|one| one == FINALIZER)
}

/// Whether the virtual machine owns the instance. Another client may have created one of the same
/// name.
fn is_owned(instance: &DynamicObject, machine: &DynamicObject) -> bool {
    let mut owners = instance.metadata.owner_references.iter().flatten();
    owners.any(|owner| {
        owner.controller == Some(true) && Some(&owner.uid) == machine.metadata.uid.as_ref()
    })
}

impl Machines {
    /// Creates the instance of a virtual machine.
    async fn start(&self, machine: &DynamicObject) -> Result<(), Error> {
        let context = &self.0;
        let key = Key::of(&machine.metadata);
        let mut instance = self.instance(machine);
        defaults::fill(&mut instance["spec"], &context.config());
        let (events, kind) = (&context.controller, &context.machines.kind);
        let failed = |why: String| {
            let text = format!("Error creating virtual machine instance: {why}");
            events.warning_of_kind(machine, kind, "FailedCreate", text);
        };
        if let Some(refusal) = defaults::refusal(&instance["spec"]) {
            failed(refusal.clone());
            return Err(Error::Invalid(format!("create instance {key}: {refusal}")));
        }
        let instance: DynamicObject = serde_json::from_value(instance)
            .map_err(|error| Error::Invalid(format!("create instance {key}: {error}")))?;
        match context.instances.writer.create(&instance).await {
            Ok(_) => {
                let name = &key.name;
                let text = format!(
                    "Started the virtual machine by creating the new virtual machine instance {name}"
                );
                events.normal_of_kind(machine, kind, "SuccessfulCreate", text);
                Ok(())
            }
            Err(error) => {
                if !error.is_conflict() {
                    failed(error.to_string());
                }
                Err(error)
            }
        }
    }

    fn instance(&self, machine: &DynamicObject) -> Value {
        let meta = &machine.metadata;
        let name = name_of(meta);
        let template = machine.data.pointer("/spec/template");
        let template = template.unwrap_or(&Value::Null);
        let mut labels = template["metadata"]["labels"].clone();
        if !labels.is_object() {
            labels = json!({});
        }
        labels[MACHINE_NAME] = json!(name);
        let mut metadata = json!({
            "name": name,
            "namespace": meta.namespace,
            "labels": labels,
            "finalizers": [INSTANCE_FINALIZER],
            "ownerReferences": [{
                "apiVersion": self.0.machines.kind.api_version,
                "kind": self.0.machines.kind.kind,
                "name": name,
                "uid": meta.uid,
                "controller": true,
                "blockOwnerDeletion": true,
            }],
        });
        if template["metadata"]["annotations"].is_object() {
            metadata["annotations"] = template["metadata"]["annotations"].clone();
        }
        json!({
            "apiVersion": self.0.instances.kind.api_version,
            "kind": self.0.instances.kind.kind,
            "metadata": metadata,
            "spec": template["spec"],
        })
    }
}
