//! Placement: pods at the gate are told where their images run, and let go.
//!
//! ```text
//! gather: pods at the gate, what their images are for, nodes, runtime classes, policies
//!   decide: placement::settle --> release, hold, ask first
//!     apply: one write that narrows the pod and takes the gate away
//!       report: events and a condition of the pod, status of the policies, metrics
//! ```
//!
//! Most pods never come here: what is known of their images is written into them as they are made (the
//! crate `webhook`). A pod waits no longer for a registry than its policy says, whatever the registry does.

mod ledger;
mod report;
mod write;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ::placement::{
    Knowledge, NOT_INSPECTED, Notice, Policy, Settled, Used, images, is_gated, remarked, settle,
};
use cluster_view::placement::{News, Pulls, Registries, Settings, Watch};
use futures::future::join_all;
use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client, ResourceExt as _};
use oci::Keyring;
use runtime::{Cache, Error, Events, Foreign, Key, Manager, Next, Queue, Reconcile};
use serde_json::{Value, json};

use ledger::{Ledger, Turn};
use report::Report;

/// What the job is called: in logs, events and managed fields.
pub const COMPONENT: &str = "medley-placement";

/// Pods are many, and what takes long is done beside.
const WORKERS: usize = 4;
/// Pods that may be at the gate: those that have no node.
const UNPLACED: &str = "spec.nodeName=,status.phase=Pending";
/// How long is waited for more changes before all pods are looked at again.
const SETTLE: Duration = Duration::from_millis(200);

/// Something to look at.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Work {
    /// A pod.
    Pod(Key),
    /// All pods at the gate.
    Everything,
    /// The statuses of the policies.
    Status,
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pod(key) => write!(f, "{key}"),
            Self::Everything => f.write_str("all pods at the gate"),
            Self::Status => f.write_str("the statuses of the policies"),
        }
    }
}

/// Starts the job; returns when nodes, policies and pods have been seen.
pub async fn start(manager: &Manager, registries: &Registries) -> Result<(), Error> {
    let client = manager.client();
    let watch = Watch::start(manager);
    watch.synced().await;
    let registrations: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    let (registration, following) = Cache::follow_named(registrations, api::placement::WEBHOOK);
    manager.spawn(following);
    registration.synced().await;
    let (pods, following) = Cache::follow_matching(Api::all(client.clone()), UNPLACED);
    manager.spawn(following);
    pods.synced().await;
    let job = Placing {
        pulls: Pulls::new(client.clone(), registries.clone()),
        client,
        foreign: manager.foreign().clone(),
        watch,
        registries: registries.clone(),
        pods,
        registration,
        ledger: Ledger::default(),
        events: crate::words::events(manager, COMPONENT),
        report: Report::new(manager),
        queue: Queue::new(),
    };
    subscribe(&job);
    let queue = job.queue.clone();
    manager.start(job, &queue, WORKERS);
    Ok(())
}

/// Gives its metrics their names, and does nothing else.
pub(crate) fn declare(manager: &Manager) {
    drop(Report::new(manager));
}

/// Has everything told that matters.
fn subscribe(job: &Placing) {
    let to = job.queue.clone();
    job.watch.on_change(move |news| {
        to.add_after(Work::Everything, SETTLE);
        if *news == News::Settings {
            to.add(Work::Status);
        }
    });
    let to = job.queue.clone();
    job.registration.on_change(move |_| to.add(Work::Status));
    let (to, events, started) = (job.queue.clone(), job.events.clone(), Timestamp::now());
    job.pods.on_change(move |change| {
        let Some(pod) = change.object() else {
            return;
        };
        if change.sides().any(|side| waits(side)) {
            to.add(Work::Pod(Key::of(&pod.metadata)));
        } else if change.old.is_none() && is_since(pod, started) {
            warn_of(&events, pod);
        }
    });
    job.queue.add(Work::Status);
}

/// Whether a pod is at our gate.
fn waits(pod: &Pod) -> bool {
    let gates = pod
        .spec
        .as_ref()
        .and_then(|it| it.scheduling_gates.as_ref());
    let mut gates = gates.into_iter().flatten();
    gates.any(|gate| gate.name == ::placement::names::GATE)
}

/// Whether a pod was made after a time; the API keeps no parts of seconds.
fn is_since(pod: &Pod, time: Timestamp) -> bool {
    let made = pod.metadata.creation_timestamp.as_ref();
    made.is_some_and(|made| made.0.as_second() >= time.as_second())
}

/// Tells of a pod that was let in although no node runs its images. Admission itself must not write
/// events: it may be asked about what never happens.
fn warn_of(events: &Events, pod: &Pod) {
    if let Some((reason, message)) = remarked(pod.annotations())
        && ::placement::is_shortfall(reason)
    {
        events.warning(pod, reason, message);
    }
}

struct Placing {
    client: Client,
    foreign: Foreign,
    watch: Watch,
    pulls: Pulls,
    registries: Registries,
    pods: Cache<Pod>,
    registration: Cache<MutatingWebhookConfiguration>,
    ledger: Ledger,
    events: Events,
    report: Report,
    queue: Queue<Work>,
}

impl Reconcile<Work> for Placing {
    fn name(&self) -> &'static str {
        COMPONENT
    }

    async fn reconcile(&self, what: &Work) -> Result<Next, Error> {
        match what {
            Work::Pod(key) => self.pod(key).await,
            Work::Everything => {
                for key in self.ledger.keys() {
                    self.queue.add(Work::Pod(key));
                }
                Ok(Next::Wait)
            }
            Work::Status => self.status().await,
        }
    }
}

impl Placing {
    async fn pod(&self, key: &Key) -> Result<Next, Error> {
        let found = self.pods.find(key);
        let waiting = found
            .filter(|pod| pod.metadata.deletion_timestamp.is_none())
            .map(|pod| (json!(*pod), pod))
            .filter(|(object, _)| is_gated(object));
        let Some((object, pod)) = waiting else {
            if self.ledger.forget(key) {
                self.queue.add_after(Work::Status, SETTLE);
            }
            return Ok(Next::Wait);
        };
        let labels = self.watch.labels(&key.namespace).await?;
        let settings = self.watch.settings();
        let policy = settings.policies.select(&key.namespace, &labels, &object);
        let policy = policy.ok();
        let name = policy
            .map(|policy| policy.name.as_str())
            .unwrap_or_default();
        self.ledger.waits(key, &pod.uid().unwrap_or_default(), name);
        self.queue.add_after(Work::Status, SETTLE);
        let (settled, next) = match policy {
            None => (
                self.settled(&object, None, &settings, &BTreeMap::new()),
                None,
            ),
            Some(policy) => self.looked(key, &object, policy, &settings).await?,
        };
        match settled {
            Settled::Ask(_) => Ok(Next::After(next.unwrap_or(SETTLE))),
            Settled::Release { pod: after, notice } => {
                self.release(&pod, &object, &after, &notice).await?;
                Ok(Next::Wait)
            }
            Settled::Hold { pod: after, notice } => {
                self.hold(key, &pod, (&object, &after), &notice).await?;
                Ok(Next::Wait)
            }
        }
    }

    fn settled(
        &self,
        object: &Value,
        policy: Option<&Policy>,
        settings: &Settings,
        known: &BTreeMap<String, Knowledge>,
    ) -> Settled {
        let cluster = self.watch.cluster();
        settle(object, policy, known, &settings.classes, &cluster)
    }

    /// What becomes of a pod by what is known of its images. What is not known is asked for beside, and
    /// given up when the pod has waited for as long as its policy says. Also when to look again.
    async fn looked(
        &self,
        key: &Key,
        object: &Value,
        policy: &Policy,
        settings: &Settings,
    ) -> Result<(Settled, Option<Duration>), Error> {
        let pulls = &self.pulls;
        let keyring = pulls
            .keyring(&key.namespace, object, &policy.pull_secrets)
            .await?;
        // What was forbidden just now is part of the status.
        self.queue.add_after(Work::Status, SETTLE);
        let used = images(&object["spec"]);
        let mut known = self.known(key, &used, &keyring, policy);
        let settled = self.settled(object, Some(policy), settings, &known);
        let Settled::Ask(unknown) = settled else {
            return Ok((settled, None));
        };
        match self.ledger.turn(key, policy.gate) {
            Turn::Late => {
                for used in unknown {
                    let given_up = self.ledger.given_up(key, &used.image, policy.gate);
                    known.insert(used.image, given_up);
                }
                let settled = self.settled(object, Some(policy), settings, &known);
                Ok((settled, None))
            }
            Turn::Wait(next) => Ok((Settled::Ask(unknown), Some(next))),
            Turn::Look(next) => {
                self.look(key, &unknown, &keyring);
                Ok((Settled::Ask(unknown), Some(next)))
            }
        }
    }

    /// What is known of images without asking anybody: by registries, by what was said to this pod, or
    /// because a registry has been out of order for longer than the pod would wait.
    fn known(
        &self,
        key: &Key,
        used: &[Used],
        keyring: &Arc<Keyring>,
        policy: &Policy,
    ) -> BTreeMap<String, Knowledge> {
        let known = used.iter().filter_map(|used| {
            let found = self
                .registries
                .known(used, keyring)
                .or_else(|| self.ledger.known(key, &used.image))
                .or_else(|| self.registries.given_up(used, policy.gate))?;
            Some((used.image.clone(), found))
        });
        known.collect()
    }

    /// Looks at images, beside other work: a registry may take its time.
    fn look(&self, key: &Key, unknown: &[Used], keyring: &Arc<Keyring>) {
        let (ledger, queue, key) = (self.ledger.clone(), self.queue.clone(), key.clone());
        let looks: Vec<_> = unknown
            .iter()
            .map(|used| {
                let (registries, keyring) = (self.registries.clone(), Arc::clone(keyring));
                let used = used.clone();
                async move {
                    let looked = registries.look(&used, &keyring).await;
                    (used.image, looked)
                }
            })
            .collect();
        tokio::spawn(async move {
            let looked = join_all(looks).await;
            ledger.looked(&key, looked);
            queue.add(Work::Pod(key));
        });
    }

    /// Tells of a pod that goes, and forgets it.
    fn released(&self, key: &Key, pod: &Pod, notice: &Notice) {
        if notice.warning {
            self.events.warning(pod, notice.reason, &notice.message);
        } else {
            self.events.normal(pod, notice.reason, &notice.message);
        }
        let waited = self.ledger.waited(key);
        self.report.released(notice.reason, waited);
        if notice.reason == NOT_INSPECTED {
            tracing::warn!(pod = %key, message = notice.message, "let a pod go without knowing where it runs");
        }
        self.ledger.forget(key);
    }
}
