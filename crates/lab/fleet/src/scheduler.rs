//! The scheduler: one task that knows the cluster, decides for one pod after the other, and has
//! what it decided written by others meanwhile.
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
use preempt::Displacement;
use queue::Waiting;
use reason::Hope;
use volumes::Supply;

/// The name pods ask for this scheduler by.
const NAME: &str = "default-scheduler";
/// Decisions that may be on their way to the server at the same time.
const IN_FLIGHT: usize = 64;
/// How long a pod waits for its volumes, or for others to leave (upstream's bind timeout).
const VOLUMES_WITHIN: Duration = Duration::from_mins(10);
/// How long it decides before others have their turn: one decision a turn would starve it when there
/// are many others.
const TURN: Duration = Duration::from_millis(5);
/// How long a scheduler with nothing to do sleeps at most.
const IDLE: Duration = Duration::from_hours(1);

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
    // Pods come last: what they are compared with is there before them.
    follow(manager, &sender, Message::Pod);
    pods.synced().await;
    let actor = Actor {
        client,
        pods,
        events: manager.events(NAME),
        cluster: Cluster::default(),
        waiting: Waiting::default(),
        flying: HashMap::new(),
        tasks: JoinSet::new(),
    };
    manager.spawn(actor.run(messages));
}

/// Has the changes of a kind sent to the scheduler.
fn follow<K: Kind<DynamicType = ()>>(
    manager: &Manager,
    sender: &UnboundedSender<Message>,
    message: fn(Change<K>) -> Message,
) -> Cache<K> {
    let cache = manager.cache::<K>();
    let sender = sender.clone();
    cache.on_change(move |change| {
        // An error means that the scheduler has ended.
        let _ = sender.send(message(change.clone()));
    });
    cache
}

/// What the scheduler hears.
enum Message {
    Pod(Change<Pod>),
    Node(Change<Node>),
    Claim(Change<PersistentVolumeClaim>),
    Volume(Change<PersistentVolume>),
    Class(Change<StorageClass>),
    Namespace(Change<Namespace>),
}

/// What became of something that was being written.
struct Done {
    uid: String,
    step: Step,
    result: Result<(), Error>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Supply,
    Displace,
    Bind,
    Report,
}

/// A decision that is being carried out.
struct Flying {
    pod: Arc<PodInfo>,
    placement: Placement,
    /// Who has to leave the node first.
    victims: Vec<String>,
    /// Set while volumes are on their way, or others on their way out.
    until: Option<Instant>,
}

struct Actor {
    client: Client,
    pods: Cache<Pod>,
    events: Events,
    cluster: Cluster,
    waiting: Waiting,
    flying: HashMap<String, Flying>,
    tasks: JoinSet<Done>,
}

impl Actor {
    async fn run(mut self, mut messages: UnboundedReceiver<Message>) {
        loop {
            while let Ok(message) = messages.try_recv() {
                self.hear(message);
            }
            while let Some(done) = self.tasks.try_join_next() {
                self.carried_out(done.ok());
            }
            let now = Instant::now();
            self.give_up(now);
            let due = self.waiting.flush(now);
            if self.take_a_turn(now) {
                tokio::task::yield_now().await;
                continue;
            }
            let timeouts = self.flying.values().filter_map(|flying| flying.until);
            let wake = due.into_iter().chain(timeouts).min();
            let wake = wake.unwrap_or_else(|| now + IDLE);
            tokio::select! {
                message = messages.recv() => match message {
                    Some(message) => self.hear(message),
                    None => return,
                },
                Some(done) = self.tasks.join_next(), if !self.tasks.is_empty() => {
                    self.carried_out(done.ok());
                }
                () = tokio::time::sleep_until(wake) => {}
            }
        }
    }

    /// Decides for some pods; says whether there were any.
    fn take_a_turn(&mut self, began: Instant) -> bool {
        let mut any = false;
        while self.tasks.len() < IN_FLIGHT && began.elapsed() < TURN {
            let Some(pod) = self.waiting.pop() else {
                break;
            };
            self.schedule(&pod);
            any = true;
        }
        any
    }

    fn hear(&mut self, message: Message) {
        let now = Instant::now();
        match message {
            Message::Pod(change) => self.hear_pod(&change, now),
            Message::Node(Change {
                new: Some(node), ..
            }) => {
                if self.cluster.set_node(&node) {
                    self.waiting.changed(Hope::Node, now);
                }
            }
            Message::Node(Change {
                old: Some(node), ..
            }) => {
                let name = node.metadata.name.as_deref().unwrap_or_default();
                self.cluster.remove_node(name);
                // What pods were told about nodes is not true any more.
                self.waiting.changed(Hope::Node, now);
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
                self.waiting.changed(Hope::Volume, now);
                self.look_at_supplies();
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
                self.waiting.changed(Hope::Volume, now);
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
                self.waiting.changed(Hope::Volume, now);
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

    fn hear_pod(&mut self, change: &Change<Pod>, now: Instant) {
        let Some(pod) = change.object() else {
            return;
        };
        // Of a pod that has been replaced by one of the same name nobody hears any more.
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
                self.waiting.changed(Hope::PodCame, now);
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
        if !self.flying.contains_key(uid) {
            self.waiting.add(Arc::new(PodInfo::new(pod)));
        }
    }

    fn gone(&mut self, pod: &Pod, now: Instant) {
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        self.waiting.remove(&Key::of(&pod.metadata));
        if let Some(flying) = self.flying.remove(uid) {
            self.unpromise(&flying.placement.supplies);
        }
        if self.cluster.remove(uid).is_some() {
            self.waiting.changed(Hope::PodGone, now);
            self.look_at_supplies();
        }
    }

    fn schedule(&mut self, pod: &Arc<PodInfo>) {
        let placement = match decide(&mut self.cluster, pod) {
            Ok(placement) => placement,
            Err(unfit) => {
                let displacement = preempt::displace(&mut self.cluster, pod);
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
                    Some(displacement) => self.displace(pod, displacement),
                    None => self.waiting.unschedulable(&pod.key, unfit, Instant::now()),
                }
                return;
            }
        };
        self.cluster.place(pod, &placement.node);
        for supply in &placement.supplies {
            if let volumes::Source::Existing(name) = &supply.source {
                self.cluster.volumes.promised.insert(name.clone());
            }
        }
        let client = self.client.clone();
        let uid = pod.uid.clone();
        let flying = Flying {
            pod: Arc::clone(pod),
            placement: placement.clone(),
            victims: Vec::new(),
            until: None,
        };
        self.flying.insert(uid.clone(), flying);
        if placement.supplies.is_empty() {
            self.bind(&uid);
        } else {
            self.tasks.spawn(async move {
                let result = write::supply(&client, &placement.node, &placement.supplies).await;
                Done {
                    uid,
                    step: Step::Supply,
                    result,
                }
            });
        }
    }

    /// Has others leave a node for a pod, which has its place from now on and comes when they are gone.
    fn displace(&mut self, pod: &Arc<PodInfo>, displacement: Displacement) {
        let Displacement { node, victims } = displacement;
        self.cluster.place(pod, &node);
        for victim in &victims {
            if let Some(object) = self.current(victim) {
                let message = format!("Preempted by pod {} on node {node}", pod.uid);
                self.events.normal(&*object, "Preempted", message);
            }
        }
        let flying = Flying {
            pod: Arc::clone(pod),
            placement: Placement {
                node: node.clone(),
                supplies: Vec::new(),
            },
            victims: victims.iter().map(|victim| victim.uid.clone()).collect(),
            until: Some(Instant::now() + VOLUMES_WITHIN),
        };
        self.flying.insert(pod.uid.clone(), flying);
        let (client, pod) = (self.client.clone(), Arc::clone(pod));
        self.tasks.spawn(async move {
            let result = write::displace(&client, &pod, &node, &victims).await;
            Done {
                uid: pod.uid.clone(),
                step: Step::Displace,
                result,
            }
        });
    }

    fn bind(&mut self, uid: &str) {
        let Some(flying) = self.flying.get_mut(uid) else {
            return;
        };
        flying.until = None;
        let client = self.client.clone();
        let (pod, node) = (Arc::clone(&flying.pod), flying.placement.node.clone());
        self.tasks.spawn(async move {
            let result = write::bind(&client, &pod, &node).await;
            Done {
                uid: pod.uid.clone(),
                step: Step::Bind,
                result,
            }
        });
    }

    fn carried_out(&mut self, done: Option<Done>) {
        let Some(done) = done else {
            return;
        };
        match (done.step, done.result) {
            (Step::Report | Step::Displace, Ok(())) => {}
            (Step::Report, Err(error)) => {
                debug!(%error, "a condition is not written");
            }
            (Step::Supply, Ok(())) => {
                if let Some(flying) = self.flying.get_mut(&done.uid) {
                    flying.until = Some(Instant::now() + VOLUMES_WITHIN);
                }
                self.look_at_supplies();
            }
            (Step::Bind, Ok(())) => {
                if let Some(flying) = self.flying.remove(&done.uid) {
                    // Others may have waited for company.
                    self.waiting.changed(Hope::PodCame, Instant::now());
                    self.unpromise(&flying.placement.supplies);
                    self.waiting.remove(&flying.pod.key);
                    if let Some(object) = self.current(&flying.pod) {
                        let (pod, node) = (&flying.pod.key, &flying.placement.node);
                        let message = format!("Successfully assigned {pod} to {node}");
                        self.events.normal(&*object, "Scheduled", message);
                    }
                }
            }
            (Step::Supply | Step::Displace | Step::Bind, Err(error)) => {
                debug!(%error, "a decision is not carried out");
                self.take_back(&done.uid);
            }
        }
    }

    /// A decision came to nothing: the pod waits again, unless somebody else has placed it.
    fn take_back(&mut self, uid: &str) {
        let Some(flying) = self.flying.remove(uid) else {
            return;
        };
        self.unpromise(&flying.placement.supplies);
        let now = Instant::now();
        let placed = self.current(&flying.pod).is_some_and(|pod| {
            pod.spec
                .as_ref()
                .is_some_and(|spec| spec.node_name.is_some())
        });
        if !placed {
            self.cluster.remove(uid);
            self.waiting.changed(Hope::PodGone, now);
            self.waiting.failed(&flying.pod.key, now);
        }
    }

    fn unpromise(&mut self, supplies: &[Supply]) {
        for supply in supplies {
            if let volumes::Source::Existing(name) = &supply.source {
                self.cluster.volumes.promised.remove(name);
            }
        }
    }

    /// Binds pods whose volumes have come and whose victims have gone; takes back decisions a provisioner could not follow.
    fn look_at_supplies(&mut self) {
        let (mut come, mut lost) = (Vec::new(), Vec::new());
        for (uid, flying) in &self.flying {
            if flying.until.is_none() {
                continue;
            }
            let supplies = &flying.placement.supplies;
            let claims = &self.cluster.volumes.claims;
            let all = |test: &dyn Fn(&Supply, &PersistentVolumeClaim) -> bool| {
                supplies.iter().all(|supply| {
                    let claim = claims.get(&supply.claim);
                    claim.is_some_and(|claim| test(supply, claim))
                })
            };
            let node = flying.placement.node.as_str();
            let stays = |uid: &String| self.cluster.placed(uid).is_some();
            if flying.victims.iter().any(stays) {
                continue;
            }
            if all(&|_, claim| volumes::is_bound(claim)) {
                come.push(uid.clone());
            } else if !all(&|supply, claim| {
                supply.source != volumes::Source::Provisioned
                    || volumes::is_bound(claim)
                    || volumes::selected_node(claim) == Some(node)
            }) {
                lost.push(uid.clone());
            }
        }
        for uid in come {
            self.bind(&uid);
        }
        for uid in lost {
            self.take_back(&uid);
        }
    }

    fn give_up(&mut self, now: Instant) {
        let late: Vec<String> = self
            .flying
            .iter()
            .filter(|(_, flying)| flying.until.is_some_and(|until| until <= now))
            .map(|(uid, _)| uid.clone())
            .collect();
        for uid in late {
            self.take_back(&uid);
        }
    }

    /// The pod as the cache shows it, if it is still the same.
    fn current(&self, pod: &PodInfo) -> Option<Arc<Pod>> {
        let found = self.pods.find(&pod.key)?;
        (found.metadata.uid.as_deref() == Some(&pod.uid)).then_some(found)
    }

    /// Has it written that a pod is not scheduled, unless that is what it says.
    fn report(&mut self, pod: &Pod, reason: &'static str, message: String) {
        let said = write::condition(pod).is_some_and(|said| {
            said.reason.as_deref() == Some(reason) && said.message.as_deref() == Some(&message)
        });
        if said {
            return;
        }
        let client = self.client.clone();
        let (key, uid) = (
            Key::of(&pod.metadata),
            pod.metadata.uid.clone().unwrap_or_default(),
        );
        let since = write::condition(pod).and_then(|said| said.last_transition_time.clone());
        self.tasks.spawn(async move {
            let result = write::unscheduled(&client, &key, &uid, reason, &message, since).await;
            Done {
                uid,
                step: Step::Report,
                result,
            }
        });
    }
}

/// Whether a pod has ended and uses nothing any more.
pub(crate) fn is_over(pod: &Pod) -> bool {
    let phase = pod
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

/// Whether nothing changed that decisions depend on.
fn same_to_the_scheduler(old: &Pod, new: &Pod) -> bool {
    old.metadata.uid == new.metadata.uid
        && old.metadata.labels == new.metadata.labels
        && old.metadata.deletion_timestamp.is_some() == new.metadata.deletion_timestamp.is_some()
        && old.spec == new.spec
        && !is_over(old)
}

#[cfg(test)]
mod tests;
