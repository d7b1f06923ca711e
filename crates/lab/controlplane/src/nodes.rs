//! Nodes that fell silent, and the pods on them.
//!
//! ```text
//! Leases, Node status --> lifecycle --> conditions Unknown, taints, pods not ready
//! NoExecute taints    --> evictor   --> pods deleted when their tolerations end
//! Nodes that are gone --> garbage   --> pods nobody would ever delete
//! ```
//!
//! Heartbeats only move a time stamp; a node is looked at when its time is up or when something
//! about it changes. Thousands of nodes that are well cost next to nothing.

mod eviction;
mod evictor;
mod garbage;
mod health;
mod lifecycle;
mod pods;
mod taints;
mod zones;

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use runtime::{Cache, Index, Manager};

/// How patient the controllers are.
#[derive(Debug, Clone, Copy)]
pub struct Timing {
    /// How long a node may be silent (`--node-monitor-grace-period`). A lease that lasts longer
    /// counts.
    pub grace: Duration,
    /// How long a new node may take to say something (`--node-startup-grace-period`).
    pub startup_grace: Duration,
    /// The time between two nodes of a zone that are cleared of their pods (`--node-eviction-rate`).
    pub between_evictions: Duration,
    /// The same in a large zone of which most is gone (`--secondary-node-eviction-rate`).
    pub between_evictions_in_trouble: Duration,
    /// How long a node is gone before its pods are.
    pub quarantine: Duration,
    /// How often pods that nobody looks after are looked for.
    pub sweep: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            grace: Duration::from_secs(50),
            startup_grace: Duration::from_mins(1),
            between_evictions: Duration::from_secs(10),
            between_evictions_in_trouble: Duration::from_secs(100),
            quarantine: Duration::from_secs(40),
            sweep: Duration::from_secs(20),
        }
    }
}

/// What the controllers look at.
#[derive(Clone)]
struct Caches {
    nodes: Cache<Node>,
    leases: Cache<Lease>,
    pods: Cache<Pod>,
    pods_by_node: Index<Pod>,
}

/// Starts it.
pub async fn start(manager: &Manager) {
    start_with(manager, Timing::default()).await;
}

/// Starts it with another patience than kube-controller-manager's.
pub async fn start_with(manager: &Manager, timing: Timing) {
    let pods = manager.cache::<Pod>();
    let caches = Caches {
        nodes: manager.cache(),
        leases: manager.cache(),
        pods_by_node: pods.index(|pod| node_name(pod).map(str::to_owned).into_iter().collect()),
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

/// The node a pod is on.
fn node_name(pod: &Pod) -> Option<&str> {
    let name = pod.spec.as_ref()?.node_name.as_deref();
    name.filter(|name| !name.is_empty())
}

/// A condition of a node.
fn condition<'a>(
    node: &'a Node,
    type_: &str,
) -> Option<&'a k8s_openapi::api::core::v1::NodeCondition> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// What a node says about being ready; nothing if it never said anything.
fn readiness(node: &Node) -> Option<&str> {
    condition(node, "Ready").map(|ready| ready.status.as_str())
}
