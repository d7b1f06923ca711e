//! Pod garbage collection: deletes pods on nodes that are deleted or out of service, unscheduled
//! pods in deletion, and terminated pods beyond the threshold.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::DeleteParams;
use runtime::{Error, Key, Manager, Next, Queue, Reconcile, Writer};
use serde_json::json;
use tracing::warn;

use super::{Caches, Timing, evictor, readiness, taints};
use crate::pod::{is_terminal, node_name, phase};

/// Number of terminated pods to keep (`--terminated-pod-gc-threshold`).
// kube-controller-manager's default. Below it terminated pods are left to their owners, since users
// read their status and logs.
const TERMINATED_POD_THRESHOLD: usize = 12_500;
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";
const WORKERS: usize = 2;

/// Deletes the pods of deleted nodes, keyed by node.
struct Orphans {
    nodes: Writer<Node>,
    caches: Caches,
}

/// Checks all pods periodically.
struct Sweep {
    caches: Caches,
    timing: Timing,
    gone: Queue<Key>,
}

pub(super) fn start(manager: &Manager, caches: Caches, timing: Timing) {
    let gone: Queue<Key> = Queue::new();
    gone.enqueue_mapped_after(timing.quarantine, &caches.nodes, |change| {
        let gone = change.old.as_ref().filter(|_| change.new.is_none());
        gone.map(|node| Key::of(&node.metadata))
    });
    let orphans = Orphans {
        nodes: Writer::cluster(manager.client()),
        caches: caches.clone(),
    };
    manager.start(orphans, &gone, WORKERS);

    let sweeps: Queue<Key> = Queue::new();
    sweeps.add(Key::new("", "all pods"));
    let sweep = Sweep {
        caches,
        timing,
        gone,
    };
    manager.start(sweep, &sweeps, 1);
}

impl Reconcile for Orphans {
    fn name(&self) -> &'static str {
        "orphaned pods"
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        if self.caches.nodes.find(key).is_some() {
            return Ok(Next::Wait);
        }
        // The cache may be stale, and a deletion is final: read the node from the API server.
        if self.nodes.get(key).await?.is_none() {
            for pod in self.caches.pods_by_node.find(&key.name) {
                let why =
                    evictor::disruption(&pod, "DeletionByPodGC", "PodGC: node no longer exists");
                remove(&self.caches, &pod, Some(why)).await?;
            }
        }
        Ok(Next::Wait)
    }
}

impl Reconcile for Sweep {
    fn name(&self) -> &'static str {
        "podgc"
    }

    async fn reconcile(&self, _: &Key) -> Result<Next, Error> {
        let pods = self.caches.pods.list();
        for pod in &pods {
            if let Some(name) = node_name(pod)
                && self.caches.nodes.get("", name).is_none()
            {
                self.gone
                    .add_after(Key::new("", name), self.timing.quarantine);
            }
        }
        let node = |name: &str| self.caches.nodes.get("", name);
        for pod in pods_to_delete(&pods, &node, TERMINATED_POD_THRESHOLD) {
            if let Err(error) = remove(&self.caches, &pod, None).await {
                warn!(%error, "cannot delete an orphaned pod");
            }
        }
        Ok(Next::After(self.timing.sweep))
    }
}

/// The pods to delete, besides those of deleted nodes.
fn pods_to_delete(
    pods: &[Arc<Pod>],
    node: &dyn Fn(&str) -> Option<Arc<Node>>,
    kept: usize,
) -> Vec<Arc<Pod>> {
    let mut ended: Vec<&Arc<Pod>> = pods.iter().filter(|pod| is_terminal(pod)).collect();
    let surplus = ended.len().saturating_sub(kept);
    let order = |pod: &&Arc<Pod>| {
        let reason = pod.status.as_ref().and_then(|it| it.reason.as_deref());
        let evicted = phase(pod) == "Failed" && reason == Some("Evicted");
        let created = pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
        (!evicted, created, pod.metadata.name.clone())
    };
    if surplus > 0 {
        ended.sort_by_cached_key(order);
    }
    let leaving = pods
        .iter()
        .filter(|pod| pod.metadata.deletion_timestamp.is_some())
        .filter(|pod| match node_name(pod) {
            // An unscheduled pod in deletion has no kubelet that could confirm it.
            None => true,
            Some(name) => node(name).is_some_and(|node| is_out_of_service(&node)),
        });
    let surplus = ended.into_iter().take(surplus);
    surplus.chain(leaving).map(Arc::clone).collect()
}

/// Whether a node has the out-of-service taint.
fn is_out_of_service(node: &Node) -> bool {
    let mut taints = taints(node).iter();
    taints.any(|taint| taint.key == OUT_OF_SERVICE) && readiness(node) != Some("True")
}

/// Sets a pod to Failed, and deletes it without a grace period.
async fn remove(
    caches: &Caches,
    pod: &Pod,
    condition: Option<serde_json::Value>,
) -> Result<(), Error> {
    if !is_terminal(pod) {
        let mut status =
            json!({ "phase": "Failed", "observedGeneration": pod.metadata.generation });
        if let Some(condition) = condition {
            status["conditions"] = json!([condition]);
        }
        if !caches.set_pod_status(pod, status).await? {
            return Ok(());
        }
    }
    let at_once = DeleteParams::default().grace_period(0);
    let deleted = caches.pod_writer.delete_with(&pod.metadata, at_once).await;
    deleted.map(drop)
}

#[cfg(test)]
mod tests;
