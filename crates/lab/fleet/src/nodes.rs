//! Simulated nodes: registration, addresses, conditions and heartbeats.
//!
//! Node objects hold all state. The fleet file is only read for nodes that were never registered;
//! from then on a node is simulated because of its annotation (`fleet.medley.dev/simulated`), no
//! matter which client created it, and a deleted node stays deleted.

pub(crate) mod address;
mod heartbeat;
mod register;
mod status;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use parking_lot::Mutex;
use runtime::{Absent as _, Cache, Error, Key, Manager, Next, Queue, Reconcile, Writer};
use serde_json::json;
use tokio::time::Instant;

use crate::hash;
use crate::model::{Fleet, complete};
use crate::names::{FAILED, SIMULATED, annotation_is_true, name_of};
use address::Addresses;

/// Workers that write nodes: few, because heartbeats can wait and pods should not.
const WORKERS: usize = 6;

/// Registers new nodes of a fleet and sends heartbeats for all simulated nodes.
pub(crate) async fn start(
    manager: &Manager,
    client: &Client,
    fleet: Option<&Fleet>,
) -> Result<(), Error> {
    let nodes = manager.cache::<Node>();
    let queue: Queue<Key> = Queue::new();
    let addresses = Arc::new(Mutex::new(Addresses::default()));
    let known = Arc::clone(&addresses);
    nodes.on_change(move |change| match (&change.old, &change.new) {
        (Some(old), None) => known.lock().release(old),
        (_, Some(new)) => known.lock().learn(new),
        (None, None) => {}
    });
    queue.enqueue_objects(&nodes);
    nodes.synced().await;
    if let Some(fleet) = fleet {
        // After the addresses of existing nodes are known, so that new nodes do not get one of
        // them.
        register::register(client, &nodes, &addresses, fleet).await?;
    }
    let keeper = NodeController {
        writer: Writer::cluster(client.clone()).shown_by(&nodes),
        leases: Writer::namespaced(client.clone()),
        nodes,
        addresses,
        renewed: Mutex::default(),
    };
    manager.start(keeper, &queue, WORKERS);
    Ok(())
}

/// Whether the fleet runs the kubelet of a node, and the kubelet has not failed.
pub(crate) fn is_alive(node: &Node) -> bool {
    annotation_is_true(&node.metadata, SIMULATED)
        && !annotation_is_true(&node.metadata, FAILED)
        && node.metadata.deletion_timestamp.is_none()
}

/// Keeps simulated nodes complete, ready, and their leases renewed.
struct NodeController {
    writer: Writer<Node>,
    leases: Writer<Lease>,
    nodes: Cache<Node>,
    addresses: Arc<Mutex<Addresses>>,
    /// Time of the last lease renewal, by node.
    renewed: Mutex<HashMap<String, Instant>>,
}

impl Reconcile for NodeController {
    fn name(&self) -> &'static str {
        "fleet-nodes"
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        let Some(node) = self.nodes.find(key).filter(|node| is_alive(node)) else {
            self.renewed.lock().remove(&key.name);
            return Ok(Next::Wait);
        };
        let node = self.complete_node(node).await?;
        let now = Timestamp::now();
        let report_every = heartbeat::report_every(self.nodes.len());
        if let Some(wanted) = status::refreshed(&node, now, report_every) {
            let patch = json!({ "metadata": { "uid": node.metadata.uid }, "status": wanted });
            let written = self.writer.merge_status(key, &patch).await;
            written.not_found_as_none()?;
        }
        self.renew(&node).await
    }
}

impl NodeController {
    /// Sets the labels and addresses that every node has.
    async fn complete_node(&self, node: Arc<Node>) -> Result<Arc<Node>, Error> {
        let mut whole = Node::clone(&node);
        complete(&mut whole);
        let index = self.addresses.lock().assign(name_of(&node.metadata))?;
        address::place(&mut whole, index);
        if whole.metadata.labels == node.metadata.labels && whole.spec == node.spec {
            return Ok(node);
        }
        let spec = whole.spec.unwrap_or_default();
        let patch = json!({
            "metadata": { "labels": whole.metadata.labels },
            "spec": { "podCIDR": spec.pod_cidr, "podCIDRs": spec.pod_cidrs },
        });
        let key = Key::of(&node.metadata);
        let written = self.writer.strategic_merge(&key, &patch).await;
        written.map(Arc::new)
    }

    /// Renews the lease of a node if it is due, and returns when the next renewal is due.
    async fn renew(&self, node: &Node) -> Result<Next, Error> {
        let name = name_of(&node.metadata);
        let every = heartbeat::renew_every(self.nodes.len());
        let last = self.renewed.lock().get(name).copied();
        if let Some(left) = last.and_then(|last| every.checked_sub(last.elapsed()))
            && !left.is_zero()
        {
            return Ok(Next::After(left));
        }
        heartbeat::renew(&self.leases, node, every).await?;
        self.renewed.lock().insert(name.to_owned(), Instant::now());
        // The second interval is jittered, so that nodes registered together do not renew at the
        // same time.
        let wait = match last {
            Some(_) => every,
            None => every.mul_f64(hash::fraction(name)),
        };
        Ok(Next::After(wait.max(Duration::from_millis(100))))
    }
}

#[cfg(test)]
mod tests;
