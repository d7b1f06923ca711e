//! The kubelets of all nodes, as one controller: a pod is reconciled when it changes and when its
//! next transition is due.

mod addresses;
mod admit;
mod advance;
mod behaviour;
mod conditions;
mod containers;
mod pull;
mod write;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, PersistentVolumeClaim, Pod, PodStatus};
use k8s_openapi::api::node::v1::RuntimeClass;
use k8s_openapi::jiff::Timestamp;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Api, Client};
use parking_lot::Mutex;
use runtime::{Absent, Cache, Error, Events, Index, Key, Manager, Next, Queue, Reconcile};
use serde_json::json;

use crate::nodes::{address, is_alive};
use crate::scheduler::pod::claims;
use addresses::PodAddresses;
use advance::{Clock, KubeletEvent, LifecycleInputs, advance};
use behaviour::Behaviour;
pub use behaviour::{EverythingRuns, Outcome, Runtime};
pub(crate) use pull::Puller;

use pull::Sandbox;

/// Number of pods reconciled concurrently.
// One controller stands for all kubelets, each of which would write independently; a rollout of
// hundreds of pods would otherwise wait for one write after the other.
const WORKERS: usize = 48;

/// Starts the kubelets; they write with `client`.
pub(crate) async fn start(
    manager: &Manager,
    client: Client,
    speed: f64,
    runtime: Arc<dyn Runtime>,
    puller: Option<Puller>,
) {
    let pods = manager.cache::<Pod>();
    let nodes = manager.cache::<Node>();
    let claims = manager.cache::<PersistentVolumeClaim>();
    let by_node = pods.index(|pod| {
        let spec = pod.spec.as_ref();
        spec.and_then(|spec| spec.node_name.clone())
            .into_iter()
            .collect()
    });
    let by_claim = pods.index(|pod| {
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        let claims = crate::scheduler::pod::claims(pod).into_iter();
        claims.map(|claim| format!("{namespace}/{claim}")).collect()
    });
    let queue: Queue<Key> = Queue::new();
    let kubelet = Arc::new(Shared {
        client,
        speed,
        runtime,
        pods: pods.clone(),
        nodes: nodes.clone(),
        claims: claims.clone(),
        classes: manager.cache(),
        puller,
        by_node: by_node.clone(),
        events: manager.events("kubelet"),
        addresses: Mutex::default(),
        exact: Mutex::default(),
    });
    // Before pods are enqueued, since a pod whose node is not in the cache is skipped.
    nodes.synced().await;
    claims.synced().await;
    kubelet.classes.synced().await;
    pods.on_change({
        let (queue, kubelet) = (queue.clone(), Arc::clone(&kubelet));
        move |change| {
            let replaced = change.old.as_ref().filter(|old| {
                let new = change.new.as_ref();
                new.is_none_or(|new| new.metadata.uid != old.metadata.uid)
            });
            if let Some(old) = replaced {
                let uid = old.metadata.uid.as_deref().unwrap_or_default();
                kubelet.addresses.lock().release(uid);
                kubelet.exact.lock().remove(uid);
            }
            if let Some(pod) = &change.new
                && pod
                    .spec
                    .as_ref()
                    .is_some_and(|spec| spec.node_name.is_some())
            {
                kubelet.addresses.lock().learn(pod);
                queue.add(Key::of(&pod.metadata));
            }
        }
    });
    pods.synced().await;
    nodes.on_change({
        let queue = queue.clone();
        move |change| {
            let alive = |node: &Option<Arc<Node>>| node.as_ref().is_some_and(|node| is_alive(node));
            let node = change.new.as_ref().filter(|_| !alive(&change.old));
            let Some(node) = node.filter(|node| is_alive(node)) else {
                return;
            };
            // When a kubelet starts or recovers, all pods on its node are reconciled.
            for pod in by_node.find(node.metadata.name.as_deref().unwrap_or_default()) {
                queue.add(Key::of(&pod.metadata));
            }
        }
    });
    claims.on_change({
        let queue = queue.clone();
        move |change| {
            if let Some(claim) = &change.new {
                for pod in by_claim.find(&Key::of(&claim.metadata).to_string()) {
                    queue.add(Key::of(&pod.metadata));
                }
            }
        }
    });
    manager.start(Kubelet(kubelet), &queue, WORKERS);
}

struct Kubelet(Arc<Shared>);

struct Shared {
    client: Client,
    speed: f64,
    runtime: Arc<dyn Runtime>,
    pods: Cache<Pod>,
    nodes: Cache<Node>,
    claims: Cache<PersistentVolumeClaim>,
    classes: Cache<RuntimeClass>,
    puller: Option<Puller>,
    by_node: Index<Pod>,
    events: Events,
    addresses: Mutex<PodAddresses>,
    /// The last status written for pods with pending transitions. The API server truncates times to
    /// seconds; these keep the fractions.
    exact: Mutex<HashMap<String, PodStatus>>,
}

impl Reconcile for Kubelet {
    fn name(&self) -> &'static str {
        "kubelet"
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        self.0.reconcile_pod(key).await
    }
}

impl Shared {
    async fn reconcile_pod(&self, key: &Key) -> Result<Next, Error> {
        let Some(pod) = self.pods.find(key) else {
            return Ok(Next::Wait);
        };
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
        let node = node.and_then(|name| self.nodes.get("", name));
        let Some(node) = node.filter(|node| is_alive(node)) else {
            return Ok(Next::Wait);
        };
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        let class = pod
            .spec
            .as_ref()
            .and_then(|it| it.runtime_class_name.as_ref());
        let class = class.map(|name| (name.as_str(), self.classes.get("", name)));
        let sandbox = Sandbox::new(class, &node);
        let pulls = match &self.puller {
            Some(puller) => puller.pull(&pod, &node, &sandbox).await,
            None => HashMap::new(),
        };
        let next = self.next(&pod, &node, uid, &sandbox, &pulls);
        for event in &next.new_events {
            self.emit_event(&pod, &node, event);
        }
        let there = pod.status.clone().unwrap_or_default();
        if let Some(changed) = write::difference(&there, &next.status) {
            let patch = json!({ "metadata": { "uid": uid }, "status": changed });
            let api: Api<Pod> = Api::namespaced(self.client.clone(), &key.namespace);
            let written = api
                .patch_status(&key.name, &PatchParams::default(), &Patch::Strategic(patch))
                .await
                .not_found_as_none()
                .map_err(Error::api(format!("patch status of pod {key}")))?;
            if let Some(written) = &written {
                // The next reconcile of this pod must not see the status from before, and emit the
                // same events again.
                self.pods.saw(written).await;
            }
        }
        if next.gone {
            // After the final status is written, as a kubelet does: watchers see how the containers
            // ended before the pod disappears.
            return self.delete(&pod, key).await;
        }
        let Some(wake) = next.wake else {
            self.exact.lock().remove(uid);
            return Ok(Next::Wait);
        };
        self.exact.lock().insert(uid.to_owned(), next.status);
        let wait = wake.duration_since(Timestamp::now());
        let wait = Duration::try_from(wait).unwrap_or_default();
        Ok(Next::After(wait.max(Duration::from_millis(1))))
    }

    /// Computes the next status of a pod.
    fn next(
        &self,
        pod: &Pod,
        node: &Node,
        uid: &str,
        sandbox: &Sandbox,
        pulls: &HashMap<String, Outcome>,
    ) -> advance::Next {
        let (behaviour, complaints) = Behaviour::of(pod);
        let there = pod.status.clone().unwrap_or_default();
        let mut status = self.exact.lock().get(uid).cloned();
        if let Some(exact) = &mut status {
            // Other writers may have changed conditions meanwhile; theirs take precedence.
            exact.conditions.clone_from(&there.conditions);
            let ended = |status: &PodStatus| {
                matches!(status.phase.as_deref(), Some("Succeeded" | "Failed"))
            };
            if ended(&there) {
                *exact = there.clone();
            }
        } else if there.start_time.is_none() {
            for complaint in complaints {
                self.events.warning(pod, "InvalidSimulation", complaint);
            }
        }
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        let bound = |name: &String| {
            self.claims.get(namespace, name).is_some_and(|claim| {
                let phase = claim.status.as_ref().and_then(|it| it.phase.as_deref());
                phase == Some("Bound")
            })
        };
        let node_name = node.metadata.name.as_deref().unwrap_or_default();
        let inputs = LifecycleInputs {
            pod,
            behaviour: &behaviour,
            outcome: &|container| match self.runtime.outcome(node, pod, container) {
                Outcome::Runs => pull::outcome(pulls, container),
                other => other,
            },
            rejection: &|| admit::rejection(pod, node, &self.by_node.find(node_name)),
            host_address: address::of_node(node),
            address: &|| self.addresses.lock().assign(node, uid),
            volumes_ready: claims(pod).iter().all(bound),
            no_sandbox: sandbox.refusal(),
        };
        let clock = Clock::new(Timestamp::now(), self.speed);
        advance(status.unwrap_or(there), &inputs, clock)
    }

    /// Deletes a pod that has stopped.
    async fn delete(&self, pod: &Pod, key: &Key) -> Result<Next, Error> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &key.namespace);
        let options = DeleteParams {
            // The kubelet's confirmation that nothing runs any more; only with 0 does the API
            // server remove the object.
            grace_period_seconds: Some(0),
            preconditions: Some(Preconditions {
                uid: pod.metadata.uid.clone(),
                resource_version: None,
            }),
            ..DeleteParams::default()
        };
        match api.delete(&key.name, &options).await.not_found_as_none() {
            Ok(_) => {}
            // Another pod has the name, so this one is gone already.
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(error) => return Err(Error::api(format!("delete pod {key}"))(error)),
        }
        Ok(Next::Wait)
    }

    fn emit_event(&self, pod: &Pod, node: &Node, event: &KubeletEvent) {
        let name = node.metadata.name.as_deref().unwrap_or_default();
        let message = event.message.clone();
        if event.kind == "Normal" {
            self.events
                .from_node(name, pod, event.part.as_deref(), &event.reason, message);
        } else {
            self.events.warning(pod, &event.reason, message);
        }
    }
}

#[cfg(test)]
mod tests;
