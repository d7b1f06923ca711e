//! virt-controller's part of an instance: from creation until a node takes over, and deletion.

mod step;

use kube::api::DynamicObject;
use runtime::{Error, Key, Next, Reconcile};
use serde_json::json;

use super::context::Context;
use super::defaults;
use super::labels::NODE_NAME;
use super::launcher::{self, Launcher};
use super::object::{enter, remove_condition, set_condition, status};
use crate::operators::report::now;
use step::{InstanceStep, step};

/// Keeps an instance until its pods are gone.
pub(super) const FINALIZER: &str = "foregroundDeleteVirtualMachine";

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
                InstanceStep::Nothing => return Ok(Next::Wait),
                InstanceStep::Accept => self.accept(&instance).await?,
                InstanceStep::Launch => self.launch(&instance).await?,
                InstanceStep::Begin => self.enter(&instance, "Scheduling", |_| ()).await?,
                InstanceStep::Wait(why) => {
                    let mut changed = DynamicObject::clone(&instance);
                    let condition = ("PodScheduled", false);
                    if !set_condition(&mut changed, condition, "Unschedulable", why, &now()) {
                        return Ok(Next::Wait);
                    }
                    context.update_instance(&changed).await?;
                }
                InstanceStep::HandOver(launcher) => self.hand_over(&instance, launcher).await?,
                InstanceStep::Fail(why) => self.fail(&instance, why).await?,
                InstanceStep::Clean(launchers) => {
                    for launcher in launchers {
                        context.delete_pod(&key.namespace, launcher).await?;
                    }
                }
                InstanceStep::Release => {
                    let instances = &context.instances;
                    instances.set_finalizer(&instance, FINALIZER, false).await?;
                    return Ok(Next::Wait);
                }
            }
        }
    }
}

impl Instances {
    /// Accepts a new instance: sets finalizer and phase.
    async fn accept(&self, instance: &DynamicObject) -> Result<(), Error> {
        let mut changed = instance.clone();
        let mut spec = changed.data["spec"].take();
        defaults::fill(&mut spec, &self.0.config());
        let refusal = defaults::refusal(&spec);
        changed.data["spec"] = spec;
        // In the same update as the phase: no instance beyond the first phase lacks the finalizer.
        let finalizers = changed.metadata.finalizers.get_or_insert_default();
        if !finalizers.iter().any(|one| one == FINALIZER) {
            finalizers.push(FINALIZER.to_owned());
        }
        if let Some(refusal) = refusal {
            // KubeVirt's webhook would have denied it. An invalid instance fails instead.
            let kind = &self.0.instances.kind;
            let events = &self.0.controller;
            events.warning_of_kind(instance, kind, "Invalid", refusal.clone());
            status(&mut changed)["reason"] = json!(refusal);
            enter(&mut changed, "Failed", &now());
        } else {
            enter(&mut changed, "Pending", &now());
        }
        self.0.update_instance(&changed).await
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

    /// Assigns the instance to a node and marks it scheduled in one update, so that virt-handler
    /// never sees one without the other. On a conflict the reconcile starts over.
    async fn hand_over(&self, instance: &DynamicObject, to: &Launcher) -> Result<(), Error> {
        self.enter(instance, "Scheduled", |changed| {
            let labels = changed.metadata.labels.get_or_insert_default();
            labels.insert(NODE_NAME.to_owned(), to.node.clone());
            remove_condition(changed, "PodScheduled");
            let status = status(changed);
            status["nodeName"] = json!(to.node);
            status["activePods"] = json!({ to.uid.as_str(): to.node });
        })
        .await
    }

    async fn fail(&self, instance: &DynamicObject, why: &str) -> Result<(), Error> {
        self.enter(instance, "Failed", |changed| {
            status(changed)["reason"] = json!(why);
        })
        .await
    }

    async fn enter(
        &self,
        instance: &DynamicObject,
        phase: &str,
        change: impl FnOnce(&mut DynamicObject),
    ) -> Result<(), Error> {
        let mut changed = instance.clone();
        change(&mut changed);
        enter(&mut changed, phase, &now());
        self.0.update_instance(&changed).await
    }
}
