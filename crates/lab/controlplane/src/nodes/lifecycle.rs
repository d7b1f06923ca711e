//! Node lifecycle: sets the conditions of unresponsive nodes to Unknown, taints nodes that are not
//! ready, and removes the taints when they recover.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use parking_lot::Mutex;
use runtime::{Absent as _, Change, Error, Events, Key, Manager, Next, Queue, Reconcile, Writer};
use serde_json::json;

use super::taints::{self, Expulsion};
use super::zones::{self, Pace, Zones};
use super::{Caches, Timing, condition, health, readiness};
use crate::object::{label, name};
use crate::pod::is_ready;

const LEASES: &str = "kube-node-lease";
const WORKERS: usize = 8;
/// Deprecated labels and the stable ones whose values they copy.
const REPEATED_LABELS: [(&str, &str); 2] = [
    ("kubernetes.io/os", "beta.kubernetes.io/os"),
    ("kubernetes.io/arch", "beta.kubernetes.io/arch"),
];

/// State between reconciles.
#[derive(Default)]
struct NodeHistory {
    /// Last heartbeat of each node by this process's clock: clocks of nodes may be wrong.
    last_heartbeat: HashMap<String, Instant>,
    zones: Zones,
    all_down: bool,
    /// Nodes whose pods have been marked not ready.
    marked: HashSet<String>,
}

struct Lifecycle {
    writer: Writer<Node>,
    caches: Caches,
    timing: Timing,
    events: Events,
    memory: Arc<Mutex<NodeHistory>>,
}

pub(super) fn start(manager: &Manager, caches: Caches, timing: Timing) {
    let queue: Queue<Key> = Queue::new();
    let memory = Arc::new(Mutex::new(NodeHistory::default()));
    let events = manager.events("node-controller");

    let (to, remembered, recorder) = (queue.clone(), Arc::clone(&memory), events.clone());
    let all = caches.nodes.clone();
    caches.nodes.on_change(move |change| {
        let Some(node) = change.object() else {
            return;
        };
        emit_events(&recorder, change);
        if notice(&mut remembered.lock(), change) {
            // The whole cluster went down or came back, which changes the eviction rules for every
            // node.
            let (all, to) = (all.clone(), to.clone());
            // The cache waits for this listener; reading it has to wait until it returns.
            tokio::spawn(async move {
                for node in all.list() {
                    to.add(Key::of(&node.metadata));
                }
            });
        }
        if is_relevant(change) {
            to.add(Key::of(&node.metadata));
        }
    });

    let remembered = Arc::clone(&memory);
    caches.leases.on_change(move |change| {
        let Some(lease) = &change.new else {
            return;
        };
        let renewed = |lease: &Lease| lease.spec.as_ref().and_then(|spec| spec.renew_time.clone());
        let is_node = lease.metadata.namespace.as_deref() == Some(LEASES);
        if is_node && change.old.as_deref().and_then(renewed) != renewed(lease) {
            let name = lease.metadata.name.clone().unwrap_or_default();
            remembered
                .lock()
                .last_heartbeat
                .insert(name, Instant::now());
        }
    });

    let lifecycle = Lifecycle {
        writer: Writer::cluster(manager.client()).shown_by(&caches.nodes),
        caches,
        timing,
        events,
        memory,
    };
    manager.start(lifecycle, &queue, WORKERS);
}

/// Emits events for added and deleted nodes.
fn emit_events(events: &Events, change: &Change<Node>) {
    let (node, reason, what, preposition) = match (&change.old, &change.new) {
        (None, Some(node)) => (node, "RegisteredNode", "Registered Node", "in"),
        (Some(node), None) => (node, "RemovingNode", "Removing Node", "from"),
        _ => return,
    };
    let name = name(&node.metadata);
    let text = format!("Node {name} event: {what} {name} {preposition} Controller");
    events.normal(node.as_ref(), reason, text);
}

/// Records a change; returns whether the whole cluster went down or came back with it.
fn notice(memory: &mut NodeHistory, change: &Change<Node>) -> bool {
    let Some(name) = change.object().and_then(|node| node.metadata.name.clone()) else {
        return false;
    };
    let now = Instant::now();
    match (&change.old, &change.new) {
        (_, None) => {
            memory.last_heartbeat.remove(&name);
            memory.marked.remove(&name);
        }
        (old, Some(new)) => {
            let beat = |node: &Node| condition(node, "Ready")?.last_heartbeat_time.clone();
            if old.as_deref().is_none_or(|old| beat(old) != beat(new)) {
                memory.last_heartbeat.insert(name.clone(), now);
            }
        }
    }
    memory.zones.observe(&name, change.new.as_deref());
    let was = std::mem::replace(&mut memory.all_down, memory.zones.all_down());
    if was && !memory.all_down {
        // Restart the grace period of all nodes: their heartbeats could not arrive either.
        for last_heartbeat in memory.last_heartbeat.values_mut() {
            *last_heartbeat = now;
        }
    }
    was != memory.all_down
}

/// Whether a change is more than a heartbeat.
fn is_relevant(change: &Change<Node>) -> bool {
    let (Some(old), Some(new)) = (&change.old, &change.new) else {
        return change.new.is_some();
    };
    old.spec != new.spec
        || old.metadata.labels != new.metadata.labels
        || states(old).ne(states(new))
}

fn states(node: &Node) -> impl Iterator<Item = (&str, &str)> {
    let status = node.status.iter();
    let conditions = status.flat_map(|status| status.conditions.iter().flatten());
    conditions.map(|condition| (condition.type_.as_str(), condition.status.as_str()))
}

impl Reconcile for Lifecycle {
    fn name(&self) -> &'static str {
        "nodelifecycle"
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        let Some(mut node) = self.caches.nodes.find(key) else {
            return Ok(Next::Wait);
        };
        let left = self.time_left(&node);
        if left.is_none() {
            node = self.mark_unknown(&node).await?;
        }
        if readiness(&node) == Some("Unknown") {
            self.mark_pods(&node).await?;
        } else {
            self.memory.lock().marked.remove(&key.name);
        }
        let turn = self.taint(&node).await?;
        let waits = [left, turn].into_iter().flatten();
        Ok(waits.min().map_or(Next::Wait, Next::After))
    }
}

impl Lifecycle {
    /// The remaining grace period of a node; `None` if it has passed.
    fn time_left(&self, node: &Node) -> Option<Duration> {
        let name = name(&node.metadata);
        let lease = self.caches.leases.get(LEASES, name);
        let lasts = lease.and_then(|lease| lease.spec.as_ref()?.lease_duration_seconds);
        let lasts = Duration::from_secs(lasts.and_then(|it| u64::try_from(it).ok()).unwrap_or(0));
        let grace = if readiness(node).is_some() {
            self.timing.grace
        } else {
            self.timing.startup_grace
        };
        let now = Instant::now();
        let mut memory = self.memory.lock();
        let last_heartbeat = *memory.last_heartbeat.entry(name.to_owned()).or_insert(now);
        // A lease that lasts longer is the kubelet's own statement that it will renew less often.
        let left = (last_heartbeat + grace.max(lasts)).saturating_duration_since(now);
        (!left.is_zero()).then_some(left)
    }

    /// Sets the conditions of a node to Unknown.
    async fn mark_unknown(&self, node: &Arc<Node>) -> Result<Arc<Node>, Error> {
        let Some(conditions) = health::unknown_conditions(node, &now()) else {
            return Ok(Arc::clone(node));
        };
        let mut status = node.status.clone().unwrap_or_default();
        status.conditions = Some(conditions);
        let written = self.writer.replace_status(&node.metadata, &status).await?;
        if readiness(node) == Some("True") {
            let text = format!("Node {} status is now: NodeNotReady", name(&node.metadata));
            self.events.normal(node.as_ref(), "NodeNotReady", text);
        }
        Ok(Arc::new(written))
    }

    /// Marks the pods of an unresponsive node as not ready, once per outage, because its kubelet
    /// cannot.
    async fn mark_pods(&self, node: &Node) -> Result<(), Error> {
        let name = name(&node.metadata);
        if self.memory.lock().marked.contains(name) {
            return Ok(());
        }
        for pod in self.caches.pods_by_node.find(name) {
            if !is_ready(&pod) {
                continue;
            }
            let status = json!({ "conditions": [
                { "type": "Ready", "status": "False", "lastTransitionTime": now() },
            ] });
            if self.caches.set_pod_status(&pod, status).await? {
                self.events
                    .warning(pod.as_ref(), "NodeNotReady", "Node is not ready");
            }
        }
        self.memory.lock().marked.insert(name.to_owned());
        Ok(())
    }

    /// Updates the taints of a node; returns when to reconcile again if an eviction is delayed.
    async fn taint(&self, node: &Node) -> Result<Option<Duration>, Error> {
        let (expulsion, wait) = self.expulsion(node);
        let taints = taints::wanted(node, expulsion, &now());
        let labels = missing_labels(node);
        if taints.is_none() && labels.is_empty() {
            return Ok(wait);
        }
        let mut patch = json!({});
        if let Some(taints) = taints {
            patch["spec"] = json!({ "taints": taints });
        }
        if !labels.is_empty() {
            patch["metadata"]["labels"] = json!(labels);
        }
        let written = self.writer.merge_into(&node.metadata, patch).await;
        written.not_found_as_none()?;
        Ok(wait)
    }

    fn expulsion(&self, node: &Node) -> (Expulsion, Option<Duration>) {
        let Some(ready) = readiness(node) else {
            return (Expulsion::Leave, None);
        };
        let Some(key) = taints::expulsion_for(ready) else {
            return (Expulsion::None, None);
        };
        let mut memory = self.memory.lock();
        if memory.all_down {
            return (Expulsion::None, None);
        }
        // A node that has the taint has had its turn; only the first one is limited.
        if taints::expels(node) {
            return (Expulsion::Taint(key), None);
        }
        let pace = Pace {
            normal: self.timing.between_evictions,
            in_trouble: self.timing.between_evictions_in_trouble,
        };
        let zone = zones::zone_of(node);
        match memory.zones.take_turn(&zone, pace, Instant::now()) {
            Ok(()) => (Expulsion::Taint(key), None),
            Err(wait) => (Expulsion::Leave, Some(wait)),
        }
    }
}

fn now() -> Time {
    Time(Timestamp::now())
}

fn missing_labels(node: &Node) -> BTreeMap<&'static str, String> {
    let value = |key: &str| label(&node.metadata, key);
    let repeated = REPEATED_LABELS.into_iter().filter_map(|(stable, old)| {
        let wanted = value(stable)?;
        (value(old) != Some(wanted)).then(|| (old, wanted.to_owned()))
    });
    repeated.collect()
}
