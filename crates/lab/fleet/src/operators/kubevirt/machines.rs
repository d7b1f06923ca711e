//! virt-controller's part of a virtual machine: it has an instance while it should run.

mod decide;

use k8s_openapi::jiff::Timestamp;
use kube::api::DynamicObject;
use runtime::{Absent as _, Error, Key, Next, Reconcile};
use serde_json::{Value, json};

use super::context::Context;
use super::defaults;
use super::instances::{ADMITTED_FINALIZER, MACHINE_FINALIZER, is_owned};
use super::labels::GENERATION;
use super::object::{is_final, is_leaving, status};
use crate::hash;
use crate::names::name_of;
use crate::operators::report::{generation, now};
use decide::{Action, VirtualMachineInputs, decide};

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
            if context.mark_observed(machines, &machine).await? {
                continue;
            }
            // Before an instance exists: deleted without the finalizer, the VM would disappear
            // while its guest runs.
            if !is_leaving(&machine) && !is_finalized(&machine) {
                let finalizer = MACHINE_FINALIZER;
                machines.set_finalizer(&machine, finalizer, true).await?;
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
            let mut changed = DynamicObject::clone(&machine);
            let mut fields = verdict.status;
            fields["observedGeneration"] = json!(generation(&machine));
            fields["desiredGeneration"] = json!(generation(&machine));
            set_status_fields(&mut changed, &fields);
            // The status holds the backoff state, so it is written before acting on it.
            if changed != *machine {
                // Not a merge patch, which would drop the empty times of conditions.
                let written = machines.writer.put_status(&changed).await;
                written.not_found_as_none()?;
                continue;
            }
            // The status has what is worth knowing of an instance that has ended.
            if let Some(ended) = instance.as_ref().filter(|it| is_final(it))
                && is_finalized(ended)
            {
                let instances = &context.instances;
                let finalizer = MACHINE_FINALIZER;
                instances.set_finalizer(ended, finalizer, false).await?;
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
                    let finalizer = MACHINE_FINALIZER;
                    machines.set_finalizer(&machine, finalizer, false).await?;
                    return Ok(Next::Wait);
                }
                (Action::Nothing | Action::Stop, _) => {
                    return Ok(verdict.wake.map_or(Next::Wait, Next::at));
                }
            }
        }
    }
}

/// Sets fields of a status; null removes one.
fn set_status_fields(object: &mut DynamicObject, fields: &Value) {
    let status = status(object);
    for (name, value) in fields.as_object().into_iter().flatten() {
        if !value.is_null() {
            status[name] = value.clone();
        } else if let Some(all) = status.as_object_mut() {
            all.remove(name);
        }
    }
}

fn is_finalized(object: &DynamicObject) -> bool {
    let mut all = object.metadata.finalizers.iter().flatten();
    all.any(|one| one == MACHINE_FINALIZER)
}

impl Machines {
    /// Creates the instance of a virtual machine.
    async fn start(&self, machine: &DynamicObject) -> Result<(), Error> {
        let context = &self.0;
        let key = Key::of(&machine.metadata);
        let mut instance = self.instance(machine);
        defaults::fill(&mut instance["spec"], &context.config());
        complete(&mut instance["spec"], machine);
        defaults::accept(&mut instance["status"], &now());
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

    /// The instance: the template, and what virt-api adds to a VirtualMachine and to an instance.
    fn instance(&self, machine: &DynamicObject) -> Value {
        let meta = &machine.metadata;
        let name = name_of(meta);
        let uid = meta.uid.as_deref().unwrap_or_default();
        let template = machine.data.pointer("/spec/template");
        let template = template.unwrap_or(&Value::Null);
        let generation = generation(machine);
        let mut metadata = json!({
            "name": name,
            "namespace": meta.namespace,
            "finalizers": [MACHINE_FINALIZER, ADMITTED_FINALIZER],
            "ownerReferences": [{
                "apiVersion": self.0.machines.kind.api_version,
                "kind": self.0.machines.kind.kind,
                "name": name,
                "uid": uid,
                "controller": true,
                "blockOwnerDeletion": true,
            }],
        });
        for field in ["labels", "annotations"] {
            if template["metadata"][field].is_object() {
                metadata[field] = template["metadata"][field].clone();
            }
        }
        metadata["annotations"][GENERATION] = json!(generation.to_string());
        json!({
            "apiVersion": self.0.instances.kind.api_version,
            "kind": self.0.instances.kind.kind,
            "metadata": metadata,
            "spec": template["spec"],
            "status": {
                "guestOSInfo": {},
                "virtualMachineRevisionName": format!("revision-start-vm-{uid}-{generation}"),
            },
        })
    }
}

/// Adds what a VirtualMachine has in its template since it was created: the same firmware for all its instances, and a
/// network.
fn complete(spec: &mut Value, machine: &DynamicObject) {
    let uid = machine.metadata.uid.as_deref().unwrap_or_default();
    for (field, salt) in [("uuid", "firmware"), ("serial", "serial")] {
        let text = uuid(hash::of(format!("{salt} {uid}").as_bytes()));
        defaults::set_if_empty(spec, &["domain", "firmware", field], &text);
    }
    let interfaces = defaults::part(spec, &["domain", "devices", "interfaces"]);
    if interfaces.is_null() {
        *interfaces = json!([{ "name": "default", "bridge": {} }]);
        if spec["networks"].is_null() {
            spec["networks"] = json!([{ "name": "default", "pod": {} }]);
        }
    }
}

/// A number in the form of a UUID.
fn uuid(number: u128) -> String {
    let digits = format!("{number:032x}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if matches!(index, 8 | 12 | 16 | 20) {
            text.push('-');
        }
        text.push(digit);
    }
    text
}
