//! virt-handler's part of a node: labels, devices and heartbeat.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use runtime::{Absent as _, Change, Error, Key, Manager, Next, Queue, Reconcile};
use serde_json::{Map, Value, json};

use super::config::Config;
use super::context::Context;
use super::labels::{OBSOLETE_HOST_MODEL, SCHEDULABLE, SKIP_NODE, add_machine, relabelled};
use crate::model::Cpu;
use crate::names::{ARCH, CPU, FAILED, OS, ROLE, SIMULATED, annotation, annotation_is_true, label};

/// Nodes reconciled concurrently.
const WORKERS: usize = 6;
/// Time without a virt-handler heartbeat after which a node becomes unschedulable for instances.
// `heartBeatTimeout` in KubeVirt's `pkg/virt-controller/watch/node/node.go`.
const HEARTBEAT_TIMEOUT: Duration = Duration::from_mins(5);
/// Number of KVM devices of a node.
// `maxDevices` in KubeVirt's `cmd/virt-handler/virt-handler.go`: the device can be shared, and the
// number only has to exceed that of VMs.
const DEVICES: &str = "1k";
const KVM: &str = "devices.kubevirt.io/kvm";

struct Labeller(Context);

/// Starts the node labeller.
pub(super) fn start(manager: &Manager, context: &Context) {
    let queue: Queue<Key> = Queue::new();
    queue.enqueue_mapped(&context.nodes, |change| {
        let node = change.new.as_ref().filter(|_| matters(change));
        node.map(|node| Key::of(&node.metadata))
    });
    let nodes = context.nodes.clone();
    queue.enqueue_mapped(&context.configs, move |change| {
        let config_of = |side: &Option<Arc<_>>| Config::of(side.as_deref());
        let mut nodes = nodes.list();
        nodes.retain(|_| config_of(&change.old) != config_of(&change.new));
        let keys = nodes.iter().map(|node| Key::of(&node.metadata));
        keys.collect::<Vec<_>>()
    });
    manager.start(Labeller(context.clone()), &queue, WORKERS);
}

/// Whether a change of a node affects its labels or devices. Most changes are heartbeats.
fn matters(change: &Change<Node>) -> bool {
    let (Some(old), Some(new)) = (&change.old, &change.new) else {
        return true;
    };
    let taints = |node: &Node| node.spec.as_ref().and_then(|spec| spec.taints.clone());
    old.metadata.labels != new.metadata.labels
        || old.metadata.annotations != new.metadata.annotations
        || taints(old) != taints(new)
        || has_devices(old) != has_devices(new)
}

impl Reconcile for Labeller {
    fn name(&self) -> &'static str {
        "virt-handler-node-labeller"
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        let Some(node) = self.0.nodes.find(key) else {
            return Ok(Next::Wait);
        };
        if !has_handler(&node) {
            return Ok(Next::Wait);
        }
        let heartbeat_timer = format!("heartbeat of {}", key.name);
        if annotation_is_true(&node.metadata, FAILED) {
            // virt-controller waits for the heartbeat timeout before it marks the node
            // unschedulable.
            if let Some(left) = self.0.pace.left(&heartbeat_timer, HEARTBEAT_TIMEOUT) {
                return Ok(Next::After(left));
            }
            let mut labels = node.metadata.labels.clone().unwrap_or_default();
            labels.insert(SCHEDULABLE.to_owned(), "false".to_owned());
            self.label(&node, &labels).await?;
            return Ok(Next::Wait);
        }
        self.0.pace.forget(&heartbeat_timer);
        let config = self.0.config();
        let wanted = wanted(&node, &config);
        self.warn_if_obsolete(&node, &wanted, &config);
        self.label(&node, &wanted).await?;
        if !has_devices(&node) {
            self.add_devices(&node).await?;
        }
        Ok(Next::Wait)
    }
}

/// Whether virt-handler runs on a node: on simulated Linux nodes of a supported architecture that
/// are not tainted as control plane.
fn has_handler(node: &Node) -> bool {
    let label = |key: &str| label(&node.metadata, key);
    let control = [format!("{ROLE}control-plane"), format!("{ROLE}master")];
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
    let mut taints = taints.into_iter().flatten();
    annotation_is_true(&node.metadata, SIMULATED)
        && label(OS).is_none_or(|os| os == "linux")
        && label(ARCH).is_none_or(|arch| matches!(arch, "amd64" | "arm64" | "s390x"))
        && !taints.any(|taint| control.contains(&taint.key))
}

/// The desired labels of a node. Without a CPU annotation the existing ones are kept, and a machine type is added to none.
fn wanted(node: &Node, config: &Config) -> BTreeMap<String, String> {
    let mut labels = node.metadata.labels.clone().unwrap_or_default();
    labels.insert(SCHEDULABLE.to_owned(), "true".to_owned());
    if annotation(&node.metadata, SKIP_NODE).is_some() {
        return labels;
    }
    let arch = labels.get(ARCH).map_or("amd64", String::as_str).to_owned();
    let cpu = annotation(&node.metadata, CPU).and_then(Cpu::of_annotation);
    if let Some(cpu) = cpu {
        labels = relabelled(&labels, &cpu, &arch, config);
    }
    add_machine(&mut labels, &arch);
    labels
}

fn has_devices(node: &Node) -> bool {
    let allocatable = node.status.as_ref().and_then(|it| it.allocatable.as_ref());
    allocatable.is_some_and(|allocatable| allocatable.contains_key(KVM))
}

impl Labeller {
    /// Emits a warning event when the node's host model becomes obsolete.
    fn warn_if_obsolete(&self, node: &Node, wanted: &BTreeMap<String, String>, config: &Config) {
        let known = label(&node.metadata, OBSOLETE_HOST_MODEL);
        if known.is_some() || !wanted.contains_key(OBSOLETE_HOST_MODEL) {
            return;
        }
        let model = wanted
            .keys()
            .find_map(|key| key.strip_prefix(super::labels::HOST_MODEL));
        let message = format!(
            "This node has {} host-model cpu that is included in ObsoleteCPUModels: {}",
            model.unwrap_or_default(),
            config.obsolete_as_printed()
        );
        let events = &self.0.handler;
        events.warning(node, "HostModelIsObsolete", message);
    }

    /// Patches the labels of a node if they differ.
    async fn label(&self, node: &Node, wanted: &BTreeMap<String, String>) -> Result<(), Error> {
        let empty = BTreeMap::new();
        let old = node.metadata.labels.as_ref().unwrap_or(&empty);
        let gone = old.keys().filter(|key| !wanted.contains_key(*key));
        let mut news: Map<String, Value> = gone.map(|key| (key.clone(), Value::Null)).collect();
        let fresh = wanted
            .iter()
            .filter(|(key, value)| old.get(*key) != Some(value));
        news.extend(fresh.map(|(key, value)| (key.clone(), json!(value))));
        if news.is_empty() {
            return Ok(());
        }
        // With the resource version that was read, so that a concurrent change of the labels is a
        // conflict, as in KubeVirt.
        let patch = json!({ "metadata": { "labels": news } });
        let written = self.0.node_writer.merge_into(&node.metadata, patch).await;
        written.not_found_as_none().map(drop)
    }

    /// Adds KVM devices to the node's capacity.
    async fn add_devices(&self, node: &Node) -> Result<(), Error> {
        let devices = json!({ KVM: DEVICES });
        let status = json!({ "capacity": devices, "allocatable": devices });
        let writer = &self.0.node_writer;
        let written = writer.set_status_fields(&node.metadata, &status).await;
        written.map(drop)
    }
}

#[cfg(test)]
mod tests;
