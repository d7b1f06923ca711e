//! The scheduler: one task that holds the cluster state, decides for one pod after the other, and
//! has its decisions written concurrently.
//!
//! ```text
//! caches --changes--> Actor: Cluster + Waiting --decide--> placed at once --bind--> API server
//!                       ^                                                    |
//!                       `---------------- done or failed --------------------'
//! ```

pub(crate) mod cluster;
mod decide;
pub(crate) mod filter;
pub(crate) mod pod;
mod preempt;
mod queue;
pub(crate) mod reason;
pub(crate) mod resources;
mod score;
mod volumes;
mod write;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::Client;
use runtime::{Cache, Change, Error, Events, Key, Kind, Manager};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::debug;

use cluster::Cluster;
use decide::{Placement, decide};
use pod::PodInfo;
use preempt::Preemption;
use queue::Waiting;
use reason::ChangeKind;
use volumes::Supply;

/// The scheduler name of pods (`spec.schedulerName`).
const NAME: &str = "default-scheduler";
/// Maximum number of concurrent writes.
// Decisions are made one after the other, and only their writes overlap. The bound keeps few
// decisions on an assumed state that a failed write would revert.
const MAX_IN_FLIGHT: usize = 64;
/// How long a pod waits for its volumes, or for preempted pods to leave (upstream's bind timeout).
const BIND_TIMEOUT: Duration = Duration::from_mins(10);
/// Time slice for decisions before the task yields: one decision per turn would starve the
/// scheduler among many other tasks.
const TIME_SLICE: Duration = Duration::from_millis(5);
/// Longest sleep of an idle scheduler.
const MAX_IDLE_SLEEP: Duration = Duration::from_hours(1);

/// Starts the scheduler; it writes with `client`.
pub(crate) async fn start(manager: &Manager, client: Client) {
    let (sender, messages) = unbounded_channel();
    let pods = manager.cache::<Pod>();
    let nodes = follow(manager, &sender, Message::Node);
    let claims = follow(manager, &sender, Message::Claim);
    let volumes = follow(manager, &sender, Message::Volume);
    let classes = follow(manager, &sender, Message::Class);
    let namespaces = follow(manager, &sender, Message::Namespace);
    nodes.synced().await;
    claims.synced().await;
    volumes.synced().await;
    classes.synced().await;
    namespaces.synced().await;
    // Pods come last, so that the objects they depend on are known before them.
    follow(manager, &sender, Message::Pod);
    pods.synced().await;
    let actor = Actor {
        client,
        pods,
        events: manager.events(NAME),
        cluster: Cluster::default(),
        waiting: Waiting::default(),
        in_flight: HashMap::new(),
        tasks: JoinSet::new(),
    };
    manager.spawn(actor.run(messages));
}

/// Sends the changes of a kind to the scheduler.
fn follow<K: Kind<DynamicType = ()>>(
    manager: &Manager,
    sender: &UnboundedSender<Message>,
    message: fn(Change<K>) -> Message,
) -> Cache<K> {
    let cache = manager.cache::<K>();
    let sender = sender.clone();
    cache.on_change(move |change| {
        // An error means that the scheduler has stopped.
        let _ = sender.send(message(change.clone()));
    });
    cache
}

/// Inputs of the scheduler task.
enum Message {
    Pod(Change<Pod>),
    Node(Change<Node>),
    Claim(Change<PersistentVolumeClaim>),
    Volume(Change<PersistentVolume>),
    Class(Change<StorageClass>),
    Namespace(Change<Namespace>),
}

/// The result of a write.
struct Done {
    uid: String,
    step: SchedulingStep,
    result: Result<(), Error>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SchedulingStep {
    Supply,
    Displace,
    Bind,
    Report,
}

/// A decision that is being written.
struct InFlight {
    pod: Arc<PodInfo>,
    placement: Placement,
    /// Pods that have to leave the node first.
    victims: Vec<String>,
    /// Deadline while volumes are provisioned or preempted pods terminate.
    until: Option<Instant>,
}

struct Actor {
    client: Client,
    pods: Cache<Pod>,
    events: Events,
    cluster: Cluster,
    waiting: Waiting,
    in_flight: HashMap<String, InFlight>,
    tasks: JoinSet<Done>,
}

impl Actor {
    async fn run(mut self, mut messages: UnboundedReceiver<Message>) {
        loop {
            // All changes before the next decision: deciding on a stale state costs a failed
            // binding, reading one change costs next to nothing.
            while let Ok(message) = messages.try_recv() {
                self.handle_message(message);
            }
            while let Some(done) = self.tasks.try_join_next() {
                self.handle_result(done.ok());
            }
            let now = Instant::now();
            self.give_up(now);
            let due = self.waiting.flush(now);
            if self.run_time_slice(now) {
                tokio::task::yield_now().await;
                continue;
            }
            let timeouts = self
                .in_flight
                .values()
                .filter_map(|in_flight| in_flight.until);
            let wake = due.into_iter().chain(timeouts).min();
            let wake = wake.unwrap_or_else(|| now + MAX_IDLE_SLEEP);
            tokio::select! {
                message = messages.recv() => match message {
                    Some(message) => self.handle_message(message),
                    None => return,
                },
                Some(done) = self.tasks.join_next(), if !self.tasks.is_empty() => {
                    self.handle_result(done.ok());
                }
                () = tokio::time::sleep_until(wake) => {}
            }
        }
    }

    /// Decides for some pods; returns whether there were any.
    fn run_time_slice(&mut self, began: Instant) -> bool {
        let mut any = false;
        while self.tasks.len() < MAX_IN_FLIGHT && began.elapsed() < TIME_SLICE {
            let Some(pod) = self.waiting.pop() else {
                break;
            };
            self.schedule(&pod);
            any = true;
        }
        any
    }

    fn handle_message(&mut self, message: Message) {
        let now = Instant::now();
        match message {
            Message::Pod(change) => self.handle_pod(&change, now),
            Message::Node(Change {
                new: Some(node), ..
            }) => {
                if self.cluster.set_node(&node) {
                    self.waiting.changed(ChangeKind::Node, now);
                }
            }
            Message::Node(Change {
                old: Some(node), ..
            }) => {
                let name = node.metadata.name.as_deref().unwrap_or_default();
                self.cluster.remove_node(name);
                // The reported reasons about nodes may be outdated.
                self.waiting.changed(ChangeKind::Node, now);
            }
            Message::Claim(change) => {
                let claims = &mut self.cluster.volumes.claims;
                if let Some(claim) = change.object() {
                    let key = Key::of(&claim.metadata);
                    match &change.new {
                        Some(new) => claims.insert(key, Arc::clone(new)),
                        None => claims.remove(&key),
                    };
                }
                self.waiting.changed(ChangeKind::Volume, now);
                self.bind_supplied_pods();
            }
            Message::Volume(change) => {
                let volumes = &mut self.cluster.volumes.existing;
                if let Some(volume) = change.object() {
                    let name = volume.metadata.name.clone().unwrap_or_default();
                    match &change.new {
                        Some(new) => volumes.insert(name, Arc::clone(new)),
                        None => volumes.remove(&name),
                    };
                }
                self.waiting.changed(ChangeKind::Volume, now);
            }
            Message::Class(change) => {
                let classes = &mut self.cluster.volumes.classes;
                if let Some(class) = change.object() {
                    let name = class.metadata.name.clone().unwrap_or_default();
                    match &change.new {
                        Some(new) => classes.insert(name, Arc::clone(new)),
                        None => classes.remove(&name),
                    };
                }
                self.waiting.changed(ChangeKind::Volume, now);
            }
            Message::Namespace(change) => {
                if let Some(namespace) = change.object() {
                    let name = namespace.metadata.name.clone().unwrap_or_default();
                    let labels = namespace.metadata.labels.clone().unwrap_or_default();
                    match &change.new {
                        Some(_) => self.cluster.namespaces.insert(name, labels),
                        None => self.cluster.namespaces.remove(&name),
                    };
                }
            }
            Message::Node(Change {
                old: None,
                new: None,
            }) => {}
        }
    }

    fn handle_pod(&mut self, change: &Change<Pod>, now: Instant) {
        let Some(pod) = change.object() else {
            return;
        };
        // The old pod was replaced by one of the same name and gets no further changes.
        if let (Some(old), Some(new)) = (&change.old, &change.new)
            && old.metadata.uid != new.metadata.uid
        {
            self.gone(old, now);
        }
        if change.new.is_none() || is_over(pod) {
            self.gone(pod, now);
            return;
        }
        if let Some(old) = &change.old
            && same_to_the_scheduler(old, pod)
        {
            return;
        }
        let key = Key::of(&pod.metadata);
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        let spec = pod.spec.as_ref();
        if let Some(node) = spec.and_then(|spec| spec.node_name.as_deref()) {
            self.waiting.remove(&key);
            let fresh = self.cluster.placed(uid).is_none();
            self.cluster.place(&Arc::new(PodInfo::new(pod)), node);
            if fresh {
                self.waiting.changed(ChangeKind::PodCame, now);
            }
            return;
        }
        let ours = spec
            .and_then(|spec| spec.scheduler_name.as_deref())
            .is_none_or(|name| name == NAME);
        let gated = spec
            .and_then(|spec| spec.scheduling_gates.as_ref())
            .is_some_and(|gates| !gates.is_empty());
        if !ours || gated || pod.metadata.deletion_timestamp.is_some() {
            self.waiting.remove(&key);
            if ours && gated && write::condition(pod).is_none() {
                self.report(pod, "SchedulingGated", write::GATED.to_owned());
            }
            return;
        }
        // A pod that is being bound gets events, too; queued again it would be placed twice.
        if !self.in_flight.contains_key(uid) {
            self.waiting.add(Arc::new(PodInfo::new(pod)));
        }
    }

    fn gone(&mut self, pod: &Pod, now: Instant) {
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        self.waiting.remove(&Key::of(&pod.metadata));
        if let Some(in_flight) = self.in_flight.remove(uid) {
            self.unpromise(&in_flight.placement.supplies);
        }
        if self.cluster.remove(uid).is_some() {
            self.waiting.changed(ChangeKind::PodGone, now);
            self.bind_supplied_pods();
        }
    }

    fn schedule(&mut self, pod: &Arc<PodInfo>) {
        let placement = match decide(&mut self.cluster, pod) {
            Ok(placement) => placement,
            Err(unfit) => {
                // Only for a pod that fits nowhere, as upstream's PostFilter: preemption is tried
                // after filtering has failed on every node.
                let displacement = preempt::preempt_pods(&mut self.cluster, pod);
                let message = match &displacement {
                    Some(_) => unfit.reasons(),
                    None => unfit.to_string(),
                };
                if let Some(object) = self.current(pod) {
                    self.events
                        .warning(&*object, "FailedScheduling", message.clone());
                    self.report(&object, "Unschedulable", message);
                }
                match displacement {
                    Some(displacement) => self.preempt_pods(pod, displacement),
                    None => self.waiting.unschedulable(&pod.key, unfit, Instant::now()),
                }
                return;
            }
        };
        // Assumed before it is written, as kube-scheduler's cache does: the next decision must not
        // use the same resources.
        self.cluster.place(pod, &placement.node);
        for supply in &placement.supplies {
            if let volumes::Source::Existing(name) = &supply.source {
                self.cluster.volumes.promised.insert(name.clone());
            }
        }
        let client = self.client.clone();
        let uid = pod.uid.clone();
        let in_flight = InFlight {
            pod: Arc::clone(pod),
            placement: placement.clone(),
            victims: Vec::new(),
            until: None,
        };
        self.in_flight.insert(uid.clone(), in_flight);
        if placement.supplies.is_empty() {
            self.bind(&uid);
        } else {
            self.tasks.spawn(async move {
                let result = write::supply(&client, &placement.node, &placement.supplies).await;
                Done {
                    uid,
                    step: SchedulingStep::Supply,
                    result,
                }
            });
        }
    }

    /// Preempts pods on a node for a pod, which is counted there from now on and bound once they
    /// are gone.
    fn preempt_pods(&mut self, pod: &Arc<PodInfo>, displacement: Preemption) {
        let Preemption { node, victims } = displacement;
        self.cluster.place(pod, &node);
        for victim in &victims {
            if let Some(object) = self.current(victim) {
                let message = format!("Preempted by pod {} on node {node}", pod.uid);
                self.events.normal(&*object, "Preempted", message);
            }
        }
        let in_flight = InFlight {
            pod: Arc::clone(pod),
            placement: Placement {
                node: node.clone(),
                supplies: Vec::new(),
            },
            victims: victims.iter().map(|victim| victim.uid.clone()).collect(),
            until: Some(Instant::now() + BIND_TIMEOUT),
        };
        self.in_flight.insert(pod.uid.clone(), in_flight);
        let (client, pod) = (self.client.clone(), Arc::clone(pod));
        self.tasks.spawn(async move {
            let result = write::preempt_pods(&client, &pod, &node, &victims).await;
            Done {
                uid: pod.uid.clone(),
                step: SchedulingStep::Displace,
                result,
            }
        });
    }

    fn bind(&mut self, uid: &str) {
        let Some(in_flight) = self.in_flight.get_mut(uid) else {
            return;
        };
        in_flight.until = None;
        let client = self.client.clone();
        let (pod, node) = (Arc::clone(&in_flight.pod), in_flight.placement.node.clone());
        self.tasks.spawn(async move {
            let result = write::bind(&client, &pod, &node).await;
            Done {
                uid: pod.uid.clone(),
                step: SchedulingStep::Bind,
                result,
            }
        });
    }

    fn handle_result(&mut self, done: Option<Done>) {
        let Some(done) = done else {
            return;
        };
        match (done.step, done.result) {
            (SchedulingStep::Report | SchedulingStep::Displace, Ok(())) => {}
            (SchedulingStep::Report, Err(error)) => {
                debug!(%error, "cannot write the pod condition");
            }
            (SchedulingStep::Supply, Ok(())) => {
                if let Some(in_flight) = self.in_flight.get_mut(&done.uid) {
                    in_flight.until = Some(Instant::now() + BIND_TIMEOUT);
                }
                self.bind_supplied_pods();
            }
            (SchedulingStep::Bind, Ok(())) => {
                if let Some(in_flight) = self.in_flight.remove(&done.uid) {
                    // Other pods may wait for this one because of pod affinity.
                    self.waiting.changed(ChangeKind::PodCame, Instant::now());
                    self.unpromise(&in_flight.placement.supplies);
                    self.waiting.remove_pod(&in_flight.pod);
                    if let Some(object) = self.current(&in_flight.pod) {
                        let (pod, node) = (&in_flight.pod.key, &in_flight.placement.node);
                        let message = format!("Successfully assigned {pod} to {node}");
                        self.events.normal(&*object, "Scheduled", message);
                    }
                }
            }
            (
                SchedulingStep::Supply | SchedulingStep::Displace | SchedulingStep::Bind,
                Err(error),
            ) => {
                debug!(%error, "cannot carry out a scheduling decision; retrying");
                self.revert(&done.uid);
            }
        }
    }

    /// Reverts a decision: the pod is queued again, unless it is on a node.
    fn revert(&mut self, uid: &str) {
        let Some(in_flight) = self.in_flight.remove(uid) else {
            return;
        };
        self.unpromise(&in_flight.placement.supplies);
        let now = Instant::now();
        let placed = self.current(&in_flight.pod).is_some_and(|pod| {
            pod.spec
                .as_ref()
                .is_some_and(|spec| spec.node_name.is_some())
        });
        // A binding may have succeeded although its response was lost.
        if !placed {
            self.cluster.remove(uid);
            self.waiting.changed(ChangeKind::PodGone, now);
            self.waiting.failed(&in_flight.pod.key, now);
        }
    }

    fn unpromise(&mut self, supplies: &[Supply]) {
        for supply in supplies {
            if let volumes::Source::Existing(name) = &supply.source {
                self.cluster.volumes.promised.remove(name);
            }
        }
    }

    /// Binds pods whose volumes are provisioned and whose victims are gone; reverts decisions that
    /// the provisioner rejected.
    fn bind_supplied_pods(&mut self) {
        let (mut come, mut lost) = (Vec::new(), Vec::new());
        for (uid, in_flight) in &self.in_flight {
            if in_flight.until.is_none() {
                continue;
            }
            let supplies = &in_flight.placement.supplies;
            let claims = &self.cluster.volumes.claims;
            let all = |test: &dyn Fn(&Supply, &PersistentVolumeClaim) -> bool| {
                supplies.iter().all(|supply| {
                    let claim = claims.get(&supply.claim);
                    claim.is_some_and(|claim| test(supply, claim))
                })
            };
            let node = in_flight.placement.node.as_str();
            let stays = |uid: &String| self.cluster.placed(uid).is_some();
            // The pod is counted on the node together with its victims until they are gone; bound
            // earlier, kubelet would reject it.
            if in_flight.victims.iter().any(stays) {
                continue;
            }
            if all(&|_, claim| volumes::is_bound(claim)) {
                come.push(uid.clone());
            } else if !all(&|supply, claim| {
                supply.source != volumes::Source::Provisioned
                    || volumes::is_bound(claim)
                    || volumes::selected_node(claim) == Some(node)
            }) {
                // The provisioner has removed the annotation of the selected node: it cannot
                // provision there, and the scheduler has to choose another.
                lost.push(uid.clone());
            }
        }
        for uid in come {
            self.bind(&uid);
        }
        for uid in lost {
            self.revert(&uid);
        }
    }

    fn give_up(&mut self, now: Instant) {
        let late: Vec<String> = self
            .in_flight
            .iter()
            .filter(|(_, in_flight)| in_flight.until.is_some_and(|until| until <= now))
            .map(|(uid, _)| uid.clone())
            .collect();
        for uid in late {
            self.revert(&uid);
        }
    }

    /// The pod in the cache, if its UID is the same.
    fn current(&self, pod: &PodInfo) -> Option<Arc<Pod>> {
        let found = self.pods.find(&pod.key)?;
        (found.metadata.uid.as_deref() == Some(&pod.uid)).then_some(found)
    }

    /// Reports that a pod is unschedulable, unless its condition has this message already.
    fn report(&mut self, pod: &Pod, reason: &'static str, message: String) {
        let reported = write::condition(pod).is_some_and(|reported| {
            reported.reason.as_deref() == Some(reason)
                && reported.message.as_deref() == Some(&message)
        });
        if reported {
            return;
        }
        let client = self.client.clone();
        let (key, uid) = (
            Key::of(&pod.metadata),
            pod.metadata.uid.clone().unwrap_or_default(),
        );
        let since =
            write::condition(pod).and_then(|reported| reported.last_transition_time.clone());
        self.tasks.spawn(async move {
            let result = write::unscheduled(&client, &key, &uid, reason, &message, since).await;
            Done {
                uid,
                step: SchedulingStep::Report,
                result,
            }
        });
    }
}

/// Whether a pod has terminated and uses no resources.
pub(crate) fn is_over(pod: &Pod) -> bool {
    let phase = pod
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

/// Whether no field changed that decisions depend on.
fn same_to_the_scheduler(old: &Pod, new: &Pod) -> bool {
    old.metadata.uid == new.metadata.uid
        && old.metadata.labels == new.metadata.labels
        && old.metadata.deletion_timestamp.is_some() == new.metadata.deletion_timestamp.is_some()
        && old.spec == new.spec
        && !is_over(old)
}

#[cfg(test)]
mod tests;
