//! Placement: releases gated pods with node affinity for the platforms of their images.
//!
//! ```text
//! gather: gated pods, the platforms of their images, nodes, runtime classes, policies
//!   decide: placement::settle --> release, hold, inspect first
//!     apply: one patch that sets node affinity and removes the scheduling gate
//!       report: events and a condition of the pod, status of the policies, metrics
//! ```
//!
//! Most pods are never gated: admission (the crate `webhook`) sets the affinity when the platforms are known. A pod
//! waits for a registry no longer than its policy allows, whatever the registry does.

mod gated;
mod lease;
mod report;
mod write;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ::placement::{
    GatedDecision, ImageUse, Inspection, LeaseTiming, NOT_INSPECTED, NextInspection, Notice,
    Policy, decide_gated, images, is_gated, names, parse_reason,
};
use cluster_view::placement::{PlacementView, PullCredentials, Registries, Settings, ViewChange};
use futures::future::join_all;
use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client, ResourceExt as _};
use oci::Keyring;
use runtime::{Cache, Error, Events, Key, Manager, Next, OptionalKinds, Queue, Reconcile};
use serde_json::{Value, json};

use crate::genuine::GenuineWatch;
use gated::GatedPods;
use lease::ControllerLease;
pub(crate) use report::Report;

/// Name of the controller in logs, events and managed fields.
pub const COMPONENT: &str = ::placement::names::COMPONENT;

/// There may be many pods, but a reconcile does not wait for registries: inspections run in tasks of their own.
const WORKERS: usize = 4;
/// Batch window of changes before all gated pods are reconciled again.
const BATCH_WINDOW: Duration = Duration::from_millis(200);

/// Key of the work queue.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Work {
    Pod(Key),
    /// All gated pods.
    AllPods,
    /// The statuses of the PlacementPolicies.
    Status,
    /// The Lease that permits the webhook to gate pods.
    Lease,
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pod(key) => write!(f, "{key}"),
            Self::AllPods => f.write_str("all gated pods"),
            Self::Status => f.write_str("the statuses of the PlacementPolicies"),
            Self::Lease => f.write_str("the Lease of the placement controller"),
        }
    }
}

/// Starts the controller of an operator in this namespace; returns once its caches have synced.
pub async fn start(
    manager: &Manager,
    registries: &Registries,
    namespace: &str,
    lease: LeaseTiming,
) -> Result<(), Error> {
    let client = manager.client();
    let watch = PlacementView::start(manager);
    watch.synced().await;
    let registrations: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    let registration = manager.watch(Cache::follow_named(registrations, api::placement::WEBHOOK));
    registration.synced().await;
    let other = GenuineWatch::follow(manager, ::placement::ownership::OPERATOR).await;
    let pods = manager.watch(Cache::follow_matching(
        Api::all(client.clone()),
        names::UNSCHEDULED,
    ));
    pods.synced().await;
    let controller = PlacementController {
        pulls: PullCredentials::new(client.clone(), registries.clone()),
        lease: ControllerLease::new(client.clone(), namespace, lease),
        client,
        foreign: manager.optional_kinds().clone(),
        watch,
        registries: registries.clone(),
        pods,
        registration,
        other,
        gated: GatedPods::default(),
        events: crate::reasons::events(manager, COMPONENT),
        report: Report::new(manager),
        queue: Queue::new(),
    };
    watch_dependencies(&controller);
    let queue = controller.queue.clone();
    manager.start(controller, &queue, WORKERS);
    Ok(())
}

/// Enqueues work when the cluster, the webhook registration or a gated pod changes.
fn watch_dependencies(controller: &PlacementController) {
    let to = controller.queue.clone();
    controller.watch.on_change(move |change| {
        to.add_after(Work::AllPods, BATCH_WINDOW);
        if *change == ViewChange::Settings {
            to.add(Work::Status);
        }
    });
    let to = controller.queue.clone();
    controller
        .registration
        .on_change(move |_| to.add(Work::Status));
    let to = controller.queue.clone();
    controller.other.on_change(move || to.add(Work::Status));
    let (to, events, started) = (
        controller.queue.clone(),
        controller.events.clone(),
        Timestamp::now(),
    );
    controller.pods.on_change(move |change| {
        let Some(pod) = change.object() else {
            return;
        };
        if change.sides().any(|side| has_our_gate(side)) {
            to.add(Work::Pod(Key::of(&pod.metadata)));
        // Not for pods from before the start of this process: each restart would
        // repeat the warnings of all pending pods.
        } else if change.old.is_none() && is_created_since(pod, started) {
            warn_if_unschedulable(&events, pod);
        }
    });
    controller.queue.add(Work::Status);
    // From here on the webhook may gate pods, of which the caches inform this controller.
    controller.queue.add(Work::Lease);
}

/// Whether a pod has our scheduling gate.
fn has_our_gate(pod: &Pod) -> bool {
    let gates = pod
        .spec
        .as_ref()
        .and_then(|it| it.scheduling_gates.as_ref());
    let mut gates = gates.into_iter().flatten();
    gates.any(|gate| gate.name == names::GATE)
}

/// Whether a pod was created at or after a time; timestamps of the API have a resolution of one second.
fn is_created_since(pod: &Pod, time: Timestamp) -> bool {
    let made = pod.metadata.creation_timestamp.as_ref();
    made.is_some_and(|made| made.0.as_second() >= time.as_second())
}

/// Emits a warning event for a pod that was admitted although no node runs its images. Admission must not emit events
/// itself: the request may be a dry run, or be denied by another webhook.
fn warn_if_unschedulable(events: &Events, pod: &Pod) {
    if let Some((reason, message)) = parse_reason(pod.annotations())
        && ::placement::is_shortfall(reason)
    {
        events.warning(pod, reason, message);
    }
}

struct PlacementController {
    client: Client,
    lease: ControllerLease,
    foreign: OptionalKinds,
    watch: PlacementView,
    pulls: PullCredentials,
    registries: Registries,
    pods: Cache<Pod>,
    registration: Cache<MutatingWebhookConfiguration>,
    /// The controller of the multiarch-tuning-operator.
    other: GenuineWatch,
    gated: GatedPods,
    events: Events,
    report: Report,
    queue: Queue<Work>,
}

impl Reconcile<Work> for PlacementController {
    fn name(&self) -> &'static str {
        COMPONENT
    }

    async fn reconcile(&self, what: &Work) -> Result<Next, Error> {
        match what {
            Work::Pod(key) => self.pod(key).await,
            Work::AllPods => {
                for key in self.gated.keys() {
                    self.queue.add(Work::Pod(key));
                }
                Ok(Next::Wait)
            }
            Work::Status => self.status().await,
            Work::Lease => Ok(self.lease.renew().await),
        }
    }
}

impl PlacementController {
    async fn pod(&self, key: &Key) -> Result<Next, Error> {
        let found = self.pods.find(key);
        let waiting = found
            .filter(|pod| pod.metadata.deletion_timestamp.is_none())
            .map(|pod| (json!(*pod), pod))
            .filter(|(object, _)| is_gated(object));
        let Some((object, pod)) = waiting else {
            if self.gated.forget(key) {
                self.queue.add_after(Work::Status, BATCH_WINDOW);
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
        self.gated.upsert(key, &pod.uid().unwrap_or_default(), name);
        self.queue.add_after(Work::Status, BATCH_WINDOW);
        let (settled, next) = match policy {
            // No policy applies any more: the pod is released as it is. A gate that
            // no policy wants would hold it for ever.
            None => (
                self.settled(&object, None, &settings, &BTreeMap::new()),
                None,
            ),
            Some(policy) => self.decide(key, &object, policy, &settings).await?,
        };
        match settled {
            GatedDecision::Ask(_) => Ok(Next::After(next.unwrap_or(BATCH_WINDOW))),
            GatedDecision::Release { pod: after, notice } => {
                self.release(&pod, &object, &after, notice).await?;
                Ok(Next::Wait)
            }
            GatedDecision::Hold { pod: after, notice } => {
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
        known: &BTreeMap<String, Inspection>,
    ) -> GatedDecision {
        let cluster = self.watch.cluster();
        decide_gated(object, policy, known, &settings.classes, &*cluster)
    }

    /// Decides on a pod. Unknown images are inspected in the background, and given up when the gate timeout of the
    /// policy has passed. Also returns when to requeue.
    async fn decide(
        &self,
        key: &Key,
        object: &Value,
        policy: &Policy,
        settings: &Settings,
    ) -> Result<(GatedDecision, Option<Duration>), Error> {
        let pulls = &self.pulls;
        let keyring = pulls
            .keyring(&key.namespace, object, &policy.pull_secrets)
            .await?;
        // The status lists pull secrets that the API server has just forbidden to read.
        self.queue.add_after(Work::Status, BATCH_WINDOW);
        let used = images(&object["spec"]);
        let mut known = self.known(key, &used, &keyring, policy);
        let settled = self.settled(object, Some(policy), settings, &known);
        let GatedDecision::Ask(unknown) = settled else {
            return Ok((settled, None));
        };
        match self.gated.next_inspection(key, policy.gate) {
            NextInspection::TimedOut => {
                for used in unknown {
                    let given_up = self.gated.given_up(key, &used.image, policy.gate);
                    known.insert(used.image, given_up);
                }
                let settled = self.settled(object, Some(policy), settings, &known);
                Ok((settled, None))
            }
            NextInspection::Later(next) => Ok((GatedDecision::Ask(unknown), Some(next))),
            NextInspection::Now(next) => {
                self.inspect(key, &unknown, &keyring);
                Ok((GatedDecision::Ask(unknown), Some(next)))
            }
        }
    }

    /// What is known of images without a request: from the registry cache, from an inspection for this pod, or because
    /// a registry has been failing for longer than the gate timeout.
    fn known(
        &self,
        key: &Key,
        used: &[ImageUse],
        keyring: &Arc<Keyring>,
        policy: &Policy,
    ) -> BTreeMap<String, Inspection> {
        let known = used.iter().filter_map(|used| {
            let found = self
                .registries
                .known(used, keyring)
                // The registry cache knows only complete results; what one inspection found out for this pod, an
                // invalid reference for example, is kept with the pod.
                .or_else(|| self.gated.known(key, &used.image))
                .or_else(|| self.registries.given_up(used, policy.gate))?;
            Some((used.image.clone(), found))
        });
        known.collect()
    }

    /// Inspects images in a task of its own, which enqueues the pod when done: a registry may be slow.
    fn inspect(&self, key: &Key, unknown: &[ImageUse], keyring: &Arc<Keyring>) {
        let (gated, queue, key) = (self.gated.clone(), self.queue.clone(), key.clone());
        let inspections: Vec<_> = unknown
            .iter()
            .map(|used| {
                let (registries, keyring) = (self.registries.clone(), Arc::clone(keyring));
                let used = used.clone();
                async move {
                    let inspected = registries.inspect(&used, &keyring).await;
                    (used.image, inspected)
                }
            })
            .collect();
        // Not `Manager::spawn`: its set of tasks grows until the manager stops, and
        // there is one of these for each gated pod.
        tokio::spawn(async move {
            let inspected = join_all(inspections).await;
            gated.record(&key, inspected);
            queue.add(Work::Pod(key));
        });
    }

    /// Emits the event of a released pod, and removes its state.
    fn finish_release(&self, key: &Key, pod: &Pod, notice: &Notice) {
        if notice.warning {
            self.events.warning(pod, notice.reason, &notice.message);
        } else {
            self.events.normal(pod, notice.reason, &notice.message);
        }
        let waited = self.gated.waited(key);
        self.report.count_release(notice.reason, waited);
        if notice.reason == NOT_INSPECTED {
            tracing::warn!(pod = %key, message = notice.message, "released a pod without knowing the platforms of its images");
        }
        self.gated.forget(key);
    }
}
