//! The upstream operator of a layer, watched by the names of its Deployment and Lease.

use std::collections::BTreeSet;

use golden_images::upstream::{RunningOperator, UpstreamOperator, expiry, running, wants_replicas};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use parking_lot::Mutex;
use runtime::{Cache, Key, Manager};

/// The reason of the event when a layer steps back.
pub(super) const UPSTREAM_RUNS: &str = "UpstreamOperatorRuns";

/// The objects that a layer leaves to the upstream operator, so that an event is emitted only when that begins.
#[derive(Default)]
pub(super) struct SteppedBack(Mutex<BTreeSet<Key>>);

impl SteppedBack {
    /// Records whether the operator runs; returns the message if it did not run before.
    pub(super) fn changed(&self, of: &Key, running: Option<&RunningOperator>) -> Option<String> {
        let mut known = self.0.lock();
        if let Some(running) = running {
            known.insert(of.clone()).then(|| running.to_string())
        } else {
            known.remove(of);
            None
        }
    }
}

/// An upstream operator, in any namespace.
#[derive(Clone)]
pub(super) struct Upstream {
    operator: UpstreamOperator,
    deployments: Cache<Deployment>,
    leases: Cache<Lease>,
}

impl Upstream {
    /// Starts the caches; returns once they have synced, so that nothing is written before.
    pub(super) async fn follow(manager: &Manager, operator: UpstreamOperator) -> Self {
        let client = manager.client();
        let deployments = Cache::follow_named(Api::all(client.clone()), operator.deployment);
        let leases = Cache::follow_named(Api::all(client), operator.lease);
        let followed = Self {
            operator,
            deployments: manager.watch(deployments),
            leases: manager.watch(leases),
        };
        followed.deployments.synced().await;
        followed.leases.synced().await;
        followed
    }

    /// Calls `notify` when the operator may have started or stopped; not for each renewal of its Lease.
    pub(super) fn on_change(&self, notify: impl Fn() + Clone + Send + Sync + 'static) {
        let on_leases = notify.clone();
        self.deployments.on_change(move |change| {
            let wants = |side: Option<&Deployment>| side.is_some_and(wants_replicas);
            if wants(change.old.as_deref()) != wants(change.new.as_deref()) {
                notify();
            }
        });
        self.leases.on_change(move |change| {
            let now = Timestamp::now();
            let held = |side: Option<&Lease>| side.and_then(expiry).is_some_and(|end| end > now);
            if held(change.old.as_deref()) != held(change.new.as_deref()) {
                on_leases();
            }
        });
    }

    /// The operator, if it runs.
    pub(super) fn running(&self, now: Timestamp) -> Option<RunningOperator> {
        running(
            &self.operator,
            &self.deployments.list(),
            &self.leases.list(),
            now,
        )
    }
}
