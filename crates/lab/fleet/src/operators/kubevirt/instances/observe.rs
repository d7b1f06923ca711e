//! What virt-controller reports about an instance and its launchers.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::DynamicObject;
use serde_json::{Map, Value, json};

use super::{ADMITTED_FINALIZER, MACHINE_FINALIZER};
use crate::operators::kubevirt::labels::NODE_NAME;
use crate::operators::kubevirt::launcher::{Launcher, current};
use crate::operators::kubevirt::object::{
    enter, is_leaving, phase, remove_condition, status, update_condition,
};

/// The condition about the pod.
const SCHEDULED: &str = "PodScheduled";

/// An instance after what its launchers show, with its next phase. Without a change it is the same.
pub(super) fn observed(
    instance: &DynamicObject,
    launchers: &[Launcher],
    has_machine: bool,
    now: &Time,
) -> DynamicObject {
    let mut changed = instance.clone();
    let launcher = current(instance, launchers);
    set_active_pods(&mut changed, launchers);
    update_condition(&mut changed, readiness(instance, launcher, now));
    if let Some(launcher) = launcher {
        status(&mut changed)["launcherContainerImageVersion"] = json!(launcher.image);
    }
    match phase(instance) {
        "Pending" => match launcher {
            Some(_) => enter(&mut changed, "Scheduling", now),
            None if is_leaving(instance) => enter(&mut changed, "Failed", now),
            None => {}
        },
        "Scheduling" => match launcher {
            Some(launcher) => schedule(&mut changed, launcher, now),
            None => enter(&mut changed, "Failed", now),
        },
        // From here on the instance is virt-handler's: the phase alone is set, without its time.
        "Scheduled" | "Running" if launcher.is_none() => {
            status(&mut changed)["phase"] = json!("Failed");
        }
        "Succeeded" | "Failed" => release(&mut changed, launchers, has_machine),
        _ => {}
    }
    changed
}

/// The nodes of all launchers by uid.
fn set_active_pods(changed: &mut DynamicObject, launchers: &[Launcher]) {
    let status = status(changed);
    let pods = launchers.iter().map(|it| (it.uid.clone(), json!(it.node)));
    let pods: Map<String, Value> = pods.collect();
    if !pods.is_empty() {
        status["activePods"] = Value::Object(pods);
    } else if let Some(fields) = status.as_object_mut() {
        fields.remove("activePods");
    }
}

/// The condition `Ready`.
fn readiness(instance: &DynamicObject, launcher: Option<&Launcher>, now: &Time) -> Value {
    let (reason, message) = match launcher {
        None => (
            "PodNotExists",
            "virt-launcher pod has not yet been scheduled",
        ),
        Some(launcher) if launcher.is_going_down() => {
            ("PodTerminating", "virt-launcher pod is terminating")
        }
        Some(_) if phase(instance) != "Running" => {
            ("GuestNotRunning", "Guest VM is not reported as running")
        }
        Some(launcher) => match &launcher.readiness {
            Some(of_pod) => return of_pod.clone(),
            None => (
                "PodConditionMissing",
                "virt-launcher pod is missing the Ready condition",
            ),
        },
    };
    json!({
        "type": "Ready", "status": "False", "reason": reason, "message": message,
        "lastProbeTime": now, "lastTransitionTime": now,
    })
}

/// What the launcher of a starting instance shows.
fn schedule(changed: &mut DynamicObject, launcher: &Launcher, now: &Time) {
    if let Some(class) = &launcher.qos_class {
        status(changed)["qosClass"] = json!(class);
    }
    match &launcher.unscheduled {
        Some(condition) => update_condition(changed, condition.clone()),
        None => remove_condition(changed, SCHEDULED),
    }
    if launcher.is_going_down() {
        enter(changed, "Failed", now);
    } else if launcher.ready && !launcher.node.is_empty() && !is_leaving(changed) {
        // The node and the phase in one update: virt-handler never sees one without the other.
        let labels = changed.metadata.labels.get_or_insert_default();
        labels.insert(NODE_NAME.to_owned(), launcher.node.clone());
        let status = status(changed);
        status["nodeName"] = json!(launcher.node);
        status["interfaces"] = json!([{ "name": "default", "podInterfaceName": "eth0" }]);
        status["migrationTransport"] = json!("Unix");
        enter(changed, "Scheduled", now);
    }
}

/// An instance that has ended is kept until its pods are gone, and by its virtual machine.
fn release(changed: &mut DynamicObject, launchers: &[Launcher], has_machine: bool) {
    let mut finalizers = changed.metadata.finalizers.take().unwrap_or_default();
    if launchers.is_empty() {
        finalizers.retain(|one| one != ADMITTED_FINALIZER);
        if let Some(fields) = status(changed).as_object_mut() {
            fields.remove("launcherContainerImageVersion");
        }
    }
    if !has_machine {
        finalizers.retain(|one| one != MACHINE_FINALIZER);
    }
    changed.metadata.finalizers = (!finalizers.is_empty()).then_some(finalizers);
}

#[cfg(test)]
mod tests;
