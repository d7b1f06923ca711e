//! virt-handler's part of an instance: the node starts, monitors, stops and moves it.

pub(super) mod moves;
mod step;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::api::DynamicObject;
use runtime::{Error, Key, Next, Reconcile};
use serde_json::{Value, json};

use super::context::Context;
use super::labels::MACHINE_TYPE;
use super::launcher::Launcher;
use super::object::{enter, status, text, update_condition};
use crate::model::Cpu;
use crate::names::{CPU, annotation};
use crate::nodes::is_alive;
use crate::operators::report::now;
use step::{HandlerStep, step};

/// Boot time of a guest.
const BOOT_TIME: Duration = Duration::from_secs(2);
/// Shutdown time of a guest.
const SHUTDOWN_TIME: Duration = Duration::from_secs(2);
/// Message for a guest that shut itself down.
const SHUT_DOWN_MESSAGE: &str = "The VirtualMachineInstance was shut down.";
/// Message for a guest that crashed.
const CRASHED_MESSAGE: &str = "The VirtualMachineInstance crashed.";

pub(super) struct Handler(pub(super) Context);

impl Reconcile for Handler {
    fn name(&self) -> &'static str {
        "virt-handler"
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        let context = &self.0;
        loop {
            let Some(instance) = context.instances.cache.find(key) else {
                return Ok(Next::Wait);
            };
            let node = context.nodes.get("", text(&instance, "/status/nodeName"));
            // A failed node does not act.
            if node.as_ref().is_some_and(|node| !is_alive(node)) {
                return Ok(Next::Wait);
            }
            let cpu = node.as_deref().and_then(cpu_of);
            let launchers = context.launchers(&instance.metadata);
            let uid = instance.metadata.uid.as_deref().unwrap_or_default();
            match step(&instance, node.as_deref(), cpu.as_ref(), &launchers) {
                HandlerStep::Nothing => return Ok(Next::Wait),
                HandlerStep::Run(launcher) => {
                    if let Some(left) = context.pace.left(&format!("boot {uid}"), BOOT_TIME) {
                        return Ok(Next::After(left));
                    }
                    self.run(&instance, node.as_deref(), launcher).await?;
                }
                HandlerStep::ShutDown => {
                    if let Some(left) = context.pace.left(&format!("stop {uid}"), SHUTDOWN_TIME) {
                        return Ok(Next::After(left));
                    }
                    self.end(&instance, "Succeeded", "", SHUT_DOWN_MESSAGE)
                        .await?;
                }
                HandlerStep::Ended => {
                    self.end(&instance, "Succeeded", "", SHUT_DOWN_MESSAGE)
                        .await?;
                }
                HandlerStep::Crashed => self.end(&instance, "Failed", "", CRASHED_MESSAGE).await?,
                HandlerStep::Refused(why) => self.refuse(&instance, &why).await?,
            }
        }
    }
}

/// The CPU annotation of a node.
pub(super) fn cpu_of(node: &Node) -> Option<Cpu> {
    Cpu::of_annotation(annotation(&node.metadata, CPU)?)
}

/// The interfaces of a guest.
fn interfaces(launcher: &Launcher) -> Value {
    json!([{
        "name": "default",
        "podInterfaceName": "eth0",
        "ipAddress": launcher.address,
        "ipAddresses": launcher.address.iter().collect::<Vec<_>>(),
        "infoSource": "domain",
    }])
}

/// The machine type that QEMU makes of a general one, such as `pc-q35-rhel9.6.0` of `q35`.
fn resolved_machine<'a>(asked: &'a str, node: Option<&'a Node>) -> &'a str {
    let labels = node.and_then(|node| node.metadata.labels.as_ref());
    let mut known = labels
        .into_iter()
        .flatten()
        .filter_map(|(key, _)| key.strip_prefix(MACHINE_TYPE));
    let versioned = format!("-{asked}-");
    known.find(|it| it.contains(&versioned)).unwrap_or(asked)
}

impl Handler {
    /// Marks the instance as running.
    async fn run(
        &self,
        instance: &Arc<DynamicObject>,
        node: Option<&Node>,
        launcher: &Launcher,
    ) -> Result<(), Error> {
        let mut changed = DynamicObject::clone(instance);
        for about in ["LiveMigratable", "StorageLiveMigratable"] {
            update_condition(
                &mut changed,
                json!({
                    "type": about, "status": "True", "lastProbeTime": null, "lastTransitionTime": null,
                }),
            );
        }
        let machine = resolved_machine(text(instance, "/spec/domain/machine/type"), node);
        let status = status(&mut changed);
        status["interfaces"] = interfaces(launcher);
        status["machine"] = json!({ "type": machine });
        status["migrationMethod"] = json!("LiveMigration");
        // As without SELinux.
        status["selinuxContext"] = json!("none");
        enter(&mut changed, "Running", &now());
        // Events after the update: a conflict repeats the step, and they would be emitted twice.
        self.0.handle_instance(&changed).await?;
        let (events, kind) = (&self.0.handler, &self.0.instances.kind);
        for (reason, what) in [("Created", "defined"), ("Started", "started")] {
            let text = format!("VirtualMachineInstance {what}.");
            events.normal_of_kind(&**instance, kind, reason, text);
        }
        Ok(())
    }

    /// Marks the instance as ended.
    async fn end(
        &self,
        instance: &Arc<DynamicObject>,
        phase: &str,
        reason: &str,
        message: &str,
    ) -> Result<(), Error> {
        let mut changed = DynamicObject::clone(instance);
        if !reason.is_empty() {
            status(&mut changed)["reason"] = json!(reason);
        }
        enter(&mut changed, phase, &now());
        self.0.handle_instance(&changed).await?;
        let (events, kind) = (&self.0.handler, &self.0.instances.kind);
        if phase == "Failed" {
            events.warning_of_kind(&**instance, kind, "Stopped", message);
        } else {
            events.normal_of_kind(&**instance, kind, "Stopped", message);
        }
        Ok(())
    }

    /// Marks the instance as failed to start in libvirt.
    async fn refuse(&self, instance: &Arc<DynamicObject>, why: &str) -> Result<(), Error> {
        let message = format!("server error. command SyncVMI failed: \"{why}\"");
        let (events, kind) = (&self.0.handler, &self.0.instances.kind);
        events.warning_of_kind(&**instance, kind, "SyncFailed", message.clone());
        let mut changed = DynamicObject::clone(instance);
        update_condition(
            &mut changed,
            json!({
                "type": "Synchronized", "status": "False",
                "reason": "Synchronizing with the Domain failed.", "message": message,
                "lastProbeTime": null, "lastTransitionTime": now(),
            }),
        );
        let failed = Arc::new(changed);
        self.end(&failed, "Failed", why, CRASHED_MESSAGE).await
    }
}
