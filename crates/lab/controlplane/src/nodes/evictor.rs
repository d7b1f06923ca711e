//! Deletes pods that do not tolerate a `NoExecute` taint of their node, or no longer do.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use parking_lot::Mutex;
use runtime::{Error, Events, Key, Manager, Next, Queue, Reconcile};
use serde_json::json;

use super::eviction::{EvictionVerdict, verdict};
use super::{Caches, taints};
use crate::object::name;
use crate::pod::node_name;

const WORKERS: usize = 8;

struct Evictor {
    caches: Caches,
    events: Events,
    /// Pods to be evicted later, and since when that is known.
    waiting: Arc<Mutex<HashMap<Key, Timestamp>>>,
}

pub(super) fn start(manager: &Manager, caches: Caches) {
    let queue: Queue<Key> = Queue::new();
    let waiting = Arc::new(Mutex::new(HashMap::new()));

    let pods = caches.pods_by_node.clone();
    queue.enqueue_mapped(&caches.nodes, move |change| {
        let old: Vec<_> = change.old.iter().flat_map(|node| driving(node)).collect();
        let new: Vec<_> = change.new.iter().flat_map(|node| driving(node)).collect();
        let node = change.object().filter(|_| old != new);
        let pods = node.map(|node| pods.find(name(&node.metadata)));
        let pods = pods.unwrap_or_default();
        pods.iter()
            .map(|pod| Key::of(&pod.metadata))
            .collect::<Vec<_>>()
    });

    let (nodes, known) = (caches.nodes.clone(), Arc::clone(&waiting));
    queue.enqueue_mapped(&caches.pods, move |change| {
        let relevant = |pod: &Pod| {
            let spec = pod.spec.as_ref();
            (
                node_name(pod).map(str::to_owned),
                spec.and_then(|spec| spec.tolerations.clone()),
                pod.metadata.deletion_timestamp.is_some(),
            )
        };
        if change.old.as_deref().map(relevant) == change.new.as_deref().map(relevant) {
            return None;
        }
        let pod = change.object()?;
        let key = Key::of(&pod.metadata);
        let node = node_name(pod).and_then(|name| nodes.get("", name));
        let driven = node.is_some_and(|node| driving(&node).next().is_some());
        (driven || known.lock().contains_key(&key)).then_some(key)
    });

    let evictor = Evictor {
        caches,
        events: manager.events("taint-eviction-controller"),
        waiting,
    };
    manager.start(evictor, &queue, WORKERS);
}

/// The `NoExecute` taints of a node.
fn driving(node: &Node) -> impl Iterator<Item = &Taint> {
    let taints = taints(node).iter();
    taints.filter(|taint| taint.effect == "NoExecute")
}

impl Reconcile for Evictor {
    fn name(&self) -> &'static str {
        "tainteviction"
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        let pod = self.caches.pods.find(key);
        let Some(pod) = pod.filter(|pod| pod.metadata.deletion_timestamp.is_none()) else {
            self.waiting.lock().remove(key);
            return Ok(Next::Wait);
        };
        let node = node_name(&pod).and_then(|name| self.caches.nodes.get("", name));
        let taints = node.as_deref().map(taints).unwrap_or_default();
        let now = Timestamp::now();
        let first_seen = self.waiting.lock().get(key).copied().unwrap_or(now);
        let created = pod.metadata.creation_timestamp.as_ref();
        let arrived = created.map_or(Timestamp::MIN, |time| time.0);
        let spec = pod.spec.as_ref();
        let tolerations = spec.and_then(|spec| spec.tolerations.as_deref());
        let tolerations = tolerations.unwrap_or_default();
        match verdict(taints, tolerations, arrived, first_seen) {
            EvictionVerdict::Stay => {
                if self.waiting.lock().remove(key).is_some() {
                    let text = format!("Cancelling deletion of Pod {key}");
                    self.events
                        .normal(pod.as_ref(), "TaintManagerEviction", text);
                }
                Ok(Next::Wait)
            }
            EvictionVerdict::Until(time) if time > now => {
                self.waiting.lock().insert(key.clone(), first_seen);
                let left = time.duration_since(now);
                Ok(Next::After(left.try_into().unwrap_or(Duration::ZERO)))
            }
            EvictionVerdict::Until(_) => {
                self.evict(key, &pod).await?;
                self.waiting.lock().remove(key);
                Ok(Next::Wait)
            }
        }
    }
}

impl Evictor {
    async fn evict(&self, key: &Key, pod: &Pod) -> Result<(), Error> {
        let text = format!("Marking for deletion Pod {key}");
        self.events.normal(pod, "TaintManagerEviction", text);
        let status = json!({ "conditions": [disruption(
            pod,
            "DeletionByTaintManager",
            "Taint manager: deleting due to NoExecute taint",
        )] });
        // The condition before the deletion: a Job with a pod failure policy distinguishes a
        // disruption from a failure by it.
        if self.caches.set_pod_status(pod, status).await? {
            self.caches.pod_writer.delete(&pod.metadata).await?;
            self.caches.pods.wait_for_deletion(&pod.metadata).await;
        }
        Ok(())
    }
}

/// The `DisruptionTarget` condition of a deleted pod.
pub(super) fn disruption(pod: &Pod, reason: &str, message: &str) -> serde_json::Value {
    json!({
        "type": "DisruptionTarget",
        "observedGeneration": pod.metadata.generation,
        "status": "True",
        "reason": reason,
        "message": message,
        "lastTransitionTime": Time(Timestamp::now()),
    })
}
