//! Unresponsive nodes, and the pods on them.
//!
//! ```text
//! Leases, Node status --> lifecycle --> conditions Unknown, taints, pods not ready
//! NoExecute taints    --> evictor   --> pods deleted when their tolerations end
//! deleted Nodes       --> garbage   --> pods without a kubelet that would delete them
//! ```
//!
//! Heartbeats only update a timestamp; a node is reconciled when its grace period ends or when
//! another field changes, so thousands of healthy nodes cost next to nothing.

mod eviction;
mod evictor;
mod garbage;
mod health;
mod lifecycle;
mod taints;
mod zones;

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, NodeCondition, Pod, Taint};
use runtime::{Absent as _, Cache, Error, Index, Key, Manager, Writer};
use serde_json::{Value, json};

use crate::pod::node_name;

/// Timeouts of the node controllers.
#[derive(Debug, Clone, Copy)]
pub struct Timing {
    /// How long a node may miss heartbeats (`--node-monitor-grace-period`). A longer lease duration
    /// takes precedence.
    pub grace: Duration,
    /// How long a new node may take to report (`--node-startup-grace-period`).
    pub startup_grace: Duration,
    /// Interval between evictions of nodes in a zone (`--node-eviction-rate`).
    pub between_evictions: Duration,
    /// The same in a large zone with mostly unhealthy nodes (`--secondary-node-eviction-rate`).
    pub between_evictions_in_trouble: Duration,
    /// Delay between the deletion of a node and that of its pods.
    pub quarantine: Duration,
    /// Interval of pod garbage collection.
    pub sweep: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            // The defaults of `pkg/controller/nodelifecycle/config/v1alpha1/defaults.go` and
            // `pkg/controller/podgc/gc_controller.go`. Fifty seconds are five heartbeats, so that
            // one that is lost, or a restart of the API server, moves no pods.
            grace: Duration::from_secs(50),
            startup_grace: Duration::from_mins(1),
            between_evictions: Duration::from_secs(10),
            between_evictions_in_trouble: Duration::from_secs(100),
            quarantine: Duration::from_secs(40),
            sweep: Duration::from_secs(20),
        }
    }
}

/// Caches shared by the controllers.
#[derive(Clone)]
struct Caches {
    nodes: Cache<Node>,
    leases: Cache<Lease>,
    pods: Cache<Pod>,
    pods_by_node: Index<Pod>,
    pod_writer: Writer<Pod>,
}

impl Caches {
    /// Sets status fields of this very pod on behalf of its kubelet; returns whether it still exists.
    /// No cache waits: the next change of the pod is an event of its own.
    async fn set_pod_status(&self, pod: &Pod, status: Value) -> Result<bool, Error> {
        let patch = json!({ "metadata": { "uid": pod.metadata.uid }, "status": status });
        let key = Key::of(&pod.metadata);
        let patched = self.pod_writer.merge_status(&key, &patch).await;
        Ok(patched.not_found_as_none()?.is_some())
    }
}

/// Starts the node controllers.
pub async fn start(manager: &Manager) {
    start_with(manager, Timing::default()).await;
}

/// Starts them with timeouts other than kube-controller-manager's.
pub async fn start_with(manager: &Manager, timing: Timing) {
    let pods = manager.cache::<Pod>();
    let caches = Caches {
        nodes: manager.cache(),
        leases: manager.cache(),
        pods_by_node: pods.index(|pod| node_name(pod).map(str::to_owned).into_iter().collect()),
        pod_writer: Writer::namespaced(manager.client()),
        pods,
    };
    tokio::join!(
        caches.nodes.synced(),
        caches.leases.synced(),
        caches.pods.synced(),
    );
    lifecycle::start(manager, caches.clone(), timing);
    evictor::start(manager, caches.clone());
    garbage::start(manager, caches, timing);
}

/// A condition of a node.
fn condition<'a>(node: &'a Node, type_: &str) -> Option<&'a NodeCondition> {
    let mut conditions = node.status.as_ref()?.conditions.iter().flatten();
    conditions.find(|condition| condition.type_ == type_)
}

/// The status of a node's `Ready` condition; `None` if it never reported.
fn readiness(node: &Node) -> Option<&str> {
    condition(node, "Ready").map(|ready| ready.status.as_str())
}

/// The taints of a node.
fn taints(node: &Node) -> &[Taint] {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_deref());
    taints.unwrap_or_default()
}
