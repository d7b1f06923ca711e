//! virt-handler's part of an instance: the node starts, monitors and stops it.

mod step;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::api::DynamicObject;
use runtime::{Error, Key, Next, Reconcile};
use serde_json::json;

use super::context::Context;
use super::launcher::Launcher;
use super::object::{enter, set_condition, status, text};
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
                    self.run(&instance, launcher).await?;
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

impl Handler {
    /// Marks the instance as running.
    async fn run(&self, instance: &Arc<DynamicObject>, launcher: &Launcher) -> Result<(), Error> {
        let mut changed = DynamicObject::clone(instance);
        let now = now();
        set_condition(&mut changed, ("Ready", true), "", "", &now);
        set_condition(&mut changed, ("LiveMigratable", true), "", "", &now);
        let status = status(&mut changed);
        status["interfaces"] = json!([{
            "name": "default",
            "ipAddress": launcher.address,
            "ipAddresses": launcher.address.iter().collect::<Vec<_>>(),
            "infoSource": "domain",
        }]);
        status["migrationMethod"] = json!("LiveMigration");
        status["migrationTransport"] = json!("Unix");
        enter(&mut changed, "Running", &now);
        // Events after the update: a conflict repeats the step, and they would be emitted twice.
        self.0.update_instance(&changed).await?;
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
        let now = now();
        set_condition(
            &mut changed,
            ("Ready", false),
            "GuestNotRunning",
            "Guest VM is not reported as running",
            &now,
        );
        if !reason.is_empty() {
            status(&mut changed)["reason"] = json!(reason);
        }
        enter(&mut changed, phase, &now);
        self.0.update_instance(&changed).await?;
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
        let now = now();
        let reason = "Synchronizing with the Domain failed.";
        set_condition(
            &mut changed,
            ("Synchronized", false),
            reason,
            &message,
            &now,
        );
        let failed = Arc::new(changed);
        self.end(&failed, "Failed", why, CRASHED_MESSAGE).await
    }
}
