//! Follows the Lease of the placement controller, and releases gated pods while no controller is running.
//!
//! ```text
//! every few seconds: read the Lease --renewed-----------> pods may be gated
//!                          |-------not renewed----------> pods are admitted without a gate
//!                          `-------not renewed for long-> gated pods are released, with the affinity that is known
//! ```
//!
//! Every replica does so: a release is a patch under the resource version of the pod, so that of two replicas, or of a
//! replica and a controller that has come back, one succeeds.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use ::placement::{
    Controller, Inspection, InspectionAccess, LEASE, LeaseRead, LeaseTiming, Notice, ObservedLease,
    Policy, images, is_gated, names, reasons, release_abandoned, release_without_affinity,
};
use api::reasons::has_event;
use cluster_view::list::list;
use cluster_view::placement::write_release;
use futures::future::join_all;
use futures::{FutureExt as _, StreamExt as _, stream};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, Client};
use parking_lot::Mutex;
use runtime::{Absent as _, Error, Events, Key, Manager, Writer};
use serde_json::{Value, json};
use tokio::time::Instant;
use tracing::{error, info, warn};

use super::PodAdmission;
use crate::register::FIELD_MANAGER;

/// Limit of concurrent releases.
const CONCURRENT_RELEASES: usize = 8;
/// How long a release waits for registries. Its pods have waited for much longer already.
const INSPECTION_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a read of the Lease may take.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// The Lease of the placement controller, as this process observes it.
pub(super) struct ControllerLease {
    api: Api<Lease>,
    timing: LeaseTiming,
    /// Origin of the times in `observed`.
    started: Instant,
    observed: Mutex<ObservedLease>,
}

impl ControllerLease {
    pub(super) fn new(client: Client, namespace: &str, timing: LeaseTiming) -> Self {
        Self {
            api: Api::namespaced(client, namespace),
            timing,
            started: Instant::now(),
            observed: Mutex::new(ObservedLease::new(timing, Duration::ZERO)),
        }
    }

    /// Whether a controller is running, so that pods may be gated.
    pub(super) fn controller(&self) -> Controller {
        self.observed.lock().controller(self.started.elapsed())
    }

    /// Whether that is known yet.
    pub(super) fn is_known(&self) -> bool {
        self.observed.lock().is_known(self.started.elapsed())
    }

    async fn read(&self) -> Result<(), Error> {
        let begun = self.started.elapsed();
        let operation = || format!("reading the Lease {LEASE} of the placement controller");
        let read = tokio::time::timeout(READ_TIMEOUT, self.api.get(LEASE)).await;
        let read = read
            .map_err(|_| Error::Late(format!("{}: no answer in {READ_TIMEOUT:?}", operation())))?;
        let lease = read.not_found_as_none().map_err(Error::api(operation()))?;
        let ended = self.started.elapsed();
        let spec = lease.and_then(|lease| lease.spec);
        let read = LeaseRead { begun, ended };
        self.observed.lock().observe(read, spec.as_ref());
        Ok(())
    }

    fn is_abandoned(&self) -> bool {
        self.observed.lock().is_abandoned(self.started.elapsed())
    }
}

/// The recorder of events about released pods.
pub(super) fn events(manager: &Manager) -> Events {
    let is_explained =
        |_: &str, reason: &str, warning: bool| has_event(reasons::EVENTS, reason, warning);
    manager.events(names::COMPONENT).knowing(is_explained)
}

/// Reads the Lease and releases abandoned pods; never returns.
pub(super) async fn follow(admission: Arc<PodAdmission>) {
    let lease = &admission.lease;
    let mut before = Controller::NotRunning;
    let mut is_reported = false;
    let mut unreadable = false;
    let mut next_sweep = Instant::now();
    loop {
        match lease.read().await {
            Ok(()) => unreadable = false,
            // Once: the Lease is read twice a second while no controller is running.
            Err(error) if !unreadable => {
                unreadable = true;
                warn!(%error, "cannot tell whether a placement controller is running; no pod is gated");
            }
            Err(_) => {}
        }
        let controller = lease.controller();
        admission.report.controller(controller);
        if controller != before {
            before = controller;
            match controller {
                Controller::Running => info!("a placement controller is running"),
                Controller::NotRunning => {
                    info!("the placement controller does not renew its Lease");
                }
            }
        }
        // Not before: it may be starting, or another replica may take over.
        let is_abandoned = !unreadable && lease.is_abandoned();
        if is_abandoned && !is_reported {
            warn!(
                "no placement controller is running: no pod is gated, and gated pods are released"
            );
        }
        is_reported = is_abandoned;
        // Not after a failed read, which says nothing about the controller.
        if is_abandoned && next_sweep <= Instant::now() {
            if let Err(error) = admission.release_abandoned().await {
                warn!(%error, "cannot release the pods at the scheduling gate; retrying");
            }
            next_sweep = Instant::now() + lease.timing.renew;
        }
        tokio::time::sleep(lease.timing.until_next_read(controller)).await;
    }
}

impl PodAdmission {
    /// Releases all gated pods. Listed and not watched: it is rare, and a watch of pending pods would cost every replica
    /// all the time.
    async fn release_abandoned(&self) -> Result<(), Error> {
        let pods: Api<Pod> = Api::all(self.client.clone());
        let unscheduled = ListParams::default().fields(names::UNSCHEDULED);
        let found = list(&pods, &unscheduled).await?.unwrap_or_default();
        let gated: Vec<(Pod, Value)> = found
            .into_iter()
            .filter(|pod| pod.metadata.deletion_timestamp.is_none())
            .map(|pod| {
                let object = json!(pod);
                (pod, object)
            })
            .filter(|(_, object)| is_gated(object))
            .collect();
        stream::iter(gated)
            .for_each_concurrent(CONCURRENT_RELEASES, |(pod, object)| async move {
                self.release(&pod, &object).await;
            })
            .await;
        Ok(())
    }

    /// Releases a pod, or leaves it to the next round.
    async fn release(&self, pod: &Pod, object: &Value) {
        let key = Key::of(&pod.metadata);
        // As in reconciles: a pod that triggers a defect must not keep the others at the gate.
        let released = AssertUnwindSafe(self.write_release(pod, object)).catch_unwind();
        let Ok(released) = released.await else {
            error!(pod = %key, "releasing a pod panicked; retrying");
            return;
        };
        match released {
            Ok(notice) => {
                warn!(pod = %key, message = notice.message, "released a pod from the scheduling gate");
                if notice.warning {
                    self.events.warning(pod, notice.reason, &notice.message);
                } else {
                    self.events.normal(pod, notice.reason, &notice.message);
                }
                self.report.count_abandoned(notice.reason);
            }
            // Another replica, or a controller, was faster.
            Err(error) if error.is_conflict() => {}
            Err(error) => {
                warn!(pod = %key, %error, "cannot release a pod from the scheduling gate; retrying");
            }
        }
    }

    async fn write_release(&self, pod: &Pod, object: &Value) -> Result<Notice, Error> {
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        let (after, notice) = self.decide_release(namespace, object).await;
        let api = Api::namespaced(self.client.clone(), namespace);
        let writer = Writer::new(api, FIELD_MANAGER);
        write_release(&writer, &pod.metadata, object, &after, notice).await
    }

    /// The released pod. Whatever cannot be read makes its placement worse, and must not keep it at the gate.
    async fn decide_release(&self, namespace: &str, object: &Value) -> (Value, Notice) {
        let synced = tokio::time::timeout(INSPECTION_TIMEOUT, self.watch.synced()).await;
        if synced.is_err() {
            let why = "the nodes and policies of the cluster could not be listed";
            return release_without_affinity(object, why);
        }
        let settings = self.watch.settings();
        let labels = self.watch.labels(namespace).await.unwrap_or_else(|error| {
            warn!(%error, "releasing pods of the namespace as if it had no labels");
            BTreeMap::new()
        });
        let policy = settings.policies.select(namespace, &labels, object).ok();
        let known = match policy {
            Some(policy) => self.known_in_time(namespace, object, policy).await,
            None => BTreeMap::new(),
        };
        let cluster = self.watch.cluster();
        release_abandoned(object, policy, &known, &settings.classes, &*cluster)
    }

    /// The platforms of a gated pod's images, as far as registries answer in time.
    async fn known_in_time(
        &self,
        namespace: &str,
        pod: &Value,
        policy: &Policy,
    ) -> BTreeMap<String, Inspection> {
        let access = InspectionAccess::PullSecrets;
        let keyring = self.pulls.keyring(namespace, pod, &policy.pull_secrets);
        let Ok(Ok(keyring)) = tokio::time::timeout(INSPECTION_TIMEOUT, keyring).await else {
            return BTreeMap::new();
        };
        let used = images(&pod["spec"]);
        let mut known = self.known(&used, access, &keyring, policy);
        let unknown: Vec<_> = used
            .into_iter()
            .filter(|used| !known.contains_key(&used.image))
            .collect();
        let inspecting = self.inspect(&unknown, access, &keyring);
        let inspected = tokio::time::timeout(INSPECTION_TIMEOUT, join_all(inspecting)).await;
        let inspected = inspected.unwrap_or_default().into_iter().flatten();
        known.extend(inspected.flatten());
        known
    }
}
