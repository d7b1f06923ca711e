//! A genuine operator of another project, watched by the names of its Deployment and Lease.

use api::operators::{GenuineOperator, RunningOperator, expiry, running, wants_replicas};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use runtime::{Cache, Manager};

/// A genuine operator, in any namespace.
#[derive(Clone)]
pub(crate) struct GenuineWatch {
    operator: GenuineOperator,
    deployments: Cache<Deployment>,
    leases: Option<Cache<Lease>>,
}

impl GenuineWatch {
    /// Starts the caches; returns once they have synced, so that nothing is written before.
    pub(crate) async fn follow(manager: &Manager, operator: GenuineOperator) -> Self {
        let client = manager.client();
        let deployments = Cache::follow_named(Api::all(client.clone()), operator.deployment);
        let leases = operator
            .lease
            .map(|lease| manager.watch(Cache::follow_named(Api::all(client), lease)));
        let followed = Self {
            operator,
            deployments: manager.watch(deployments),
            leases,
        };
        followed.deployments.synced().await;
        if let Some(leases) = &followed.leases {
            leases.synced().await;
        }
        followed
    }

    /// Calls `notify` when the operator may have started or stopped; not for each renewal of its Lease.
    pub(crate) fn on_change(&self, notify: impl Fn() + Clone + Send + Sync + 'static) {
        let on_leases = notify.clone();
        self.deployments.on_change(move |change| {
            let wants = |side: Option<&Deployment>| side.is_some_and(wants_replicas);
            if wants(change.old.as_deref()) != wants(change.new.as_deref()) {
                notify();
            }
        });
        let Some(leases) = &self.leases else {
            return;
        };
        leases.on_change(move |change| {
            let now = Timestamp::now();
            let held = |side: Option<&Lease>| side.and_then(expiry).is_some_and(|end| end > now);
            if held(change.old.as_deref()) != held(change.new.as_deref()) {
                on_leases();
            }
        });
    }

    /// The operator, if it runs.
    pub(crate) fn running(&self, now: Timestamp) -> Option<RunningOperator> {
        let leases = self.leases.as_ref().map(Cache::list).unwrap_or_default();
        running(&self.operator, &self.deployments.list(), &leases, now)
    }
}
