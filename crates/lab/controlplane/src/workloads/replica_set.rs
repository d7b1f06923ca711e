//! ReplicaSets: maintain a number of pods from a template.

mod decide;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetStatus};
use k8s_openapi::api::core::v1::Pod;
use runtime::{Cache, Error, Key, Manager, Next, Queue, Reconcile, Writer};
use tracing::warn;

use super::pods::{
    PodControl, available_in, concerned, controller_of, is_active, is_terminating,
    pod_from_template, selector,
};
use decide::{Failure, ReplicaSetStep};

/// kube-controller-manager's default.
const WORKERS: usize = 5;

/// Starts the ReplicaSet controller.
pub(super) async fn start(manager: &Manager) {
    let sets = manager.cache::<ReplicaSet>();
    let pods = PodControl::new(manager, "replicaset-controller");
    let queue = Queue::new();
    queue.enqueue_objects(&sets);
    let owners = sets.clone();
    queue.enqueue_mapped(pods.cache(), move |change| {
        concerned(&owners, |set| Some(&set.spec.as_ref()?.selector), change)
    });
    sets.synced().await;
    pods.cache().synced().await;
    let writer = Writer::namespaced(manager.client()).shown_by(&sets);
    manager.start(ReplicaSets { writer, sets, pods }, &queue, WORKERS);
}

struct ReplicaSets {
    writer: Writer<ReplicaSet>,
    sets: Cache<ReplicaSet>,
    pods: PodControl,
}

impl Reconcile for ReplicaSets {
    fn name(&self) -> &'static str {
        "replicaset"
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        let Some(set) = self.sets.find(key) else {
            return Ok(Next::Wait);
        };
        let wanted = match set.spec.as_ref().map(|spec| selector(&spec.selector)) {
            Some(Ok(wanted)) => wanted,
            Some(Err(error)) => {
                // Not retried, since only a change of the spec can repair it, and that enqueues the
                // set.
                warn!(replica_set = %key, %error, "invalid selector");
                return Ok(Next::Wait);
            }
            None => return Ok(Next::Wait),
        };
        let mut candidates = self.pods.claims.around(&set.metadata);
        candidates.retain(|pod| is_active(pod));
        let active = self.pods.claims.claim(&*set, &wanted, candidates).await?;
        let failed = if set.metadata.deletion_timestamp.is_none() {
            self.manage(&set, active).await.err()
        } else {
            None
        };
        let now = Timestamp::now();
        // Read again, since the cache has the pods just written; the status would otherwise be one
        // step behind.
        let mut active = self.pods.claims.owned(&set.metadata, &wanted);
        let terminating = active.iter().filter(|pod| is_terminating(pod)).count();
        active.retain(|pod| is_active(pod));
        let failure = failed.as_ref().map(|(failure, _)| failure);
        let status = decide::status(&set, &active, terminating, failure, now);
        let next = next_check(&set, &status, &active, now);
        if set.status.as_ref() != Some(&status) {
            self.writer.replace_status(&set.metadata, &status).await?;
        }
        // After the status, which shows the failure; the error then requeues with backoff.
        failed.map_or(Ok(next), |(_, error)| Err(error))
    }
}

impl ReplicaSets {
    /// Creates or deletes pods to reach the desired number.
    async fn manage(
        &self,
        set: &ReplicaSet,
        active: Vec<Arc<Pod>>,
    ) -> Result<(), (Failure, Error)> {
        match decide::step(set, active, || self.related_pods(set), Timestamp::now()) {
            ReplicaSetStep::Nothing => Ok(()),
            ReplicaSetStep::Create(count) => {
                let template = set.spec.as_ref().and_then(|spec| spec.template.clone());
                let pod = pod_from_template(set, &template.unwrap_or_default());
                let created = self.pods.create_many(set, count, |_| pod.clone()).await;
                created
                    .map(drop)
                    .map_err(|error| (Failure::new("FailedCreate", error.message()), error))
            }
            ReplicaSetStep::Delete(pods) => {
                self.pods.delete_many(set, &pods).await.map_err(|error| {
                    let message = format!("unable to delete pods: {}", error.message());
                    (Failure::new("FailedDelete", message), error)
                })
            }
        }
    }

    /// The pods of all sets with the same controller: they belong to the same workload.
    fn related_pods(&self, set: &ReplicaSet) -> Vec<Arc<Pod>> {
        let Some(controller) = controller_of(&set.metadata) else {
            return Vec::new();
        };
        let sets = self.sets.controlled_by(&controller.uid);
        let uids = sets.iter().filter_map(|set| set.metadata.uid.as_deref());
        uids.flat_map(|uid| self.pods.cache().controlled_by(uid))
            .collect()
    }
}

/// When time alone makes a pod available.
fn next_check(
    set: &ReplicaSet,
    status: &ReplicaSetStatus,
    active: &[Arc<Pod>],
    now: Timestamp,
) -> Next {
    let min_ready = decide::min_ready_seconds(set);
    if min_ready <= 0 || status.ready_replicas == status.available_replicas {
        return Next::Wait;
    }
    let soonest = active
        .iter()
        .filter_map(|pod| available_in(pod, min_ready, now))
        .min();
    let longest = || Duration::from_secs(min_ready.unsigned_abs().into());
    Next::After(soonest.unwrap_or_else(longest))
}

#[cfg(test)]
mod tests;
