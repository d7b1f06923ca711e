//! DaemonSets: one pod on every matching node.
//!
//! Different from kube-controller-manager: a deleted node is handled at once, not with the next
//! other change, and nodes are processed in the order of their names.

mod backoff;
mod decide;
mod places;
mod template;

use std::collections::HashSet;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet, DaemonSetStatus};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use parking_lot::Mutex;
use runtime::{Cache, Error, Events, Key, Manager, Next, Queue, Reconcile, Writer};

use super::history::{History, Owner};
use super::pods::{PodControl, available_in, concerned, selector};
use crate::object::{label, uid};
use backoff::{Backoff, BackoffKey};
use decide::{DaemonSetInputs, Plan, decide, failed, min_ready_seconds, soonest};
use places::Atlas;
use template::HASH;

/// kube-controller-manager's default.
const WORKERS: usize = 2;
/// Default of `revisionHistoryLimit`.
const REVISIONS: i32 = 10;

/// Starts the DaemonSet controller.
pub(super) async fn start(manager: &Manager) {
    let sets = manager.cache::<DaemonSet>();
    let nodes = manager.cache::<Node>();
    let pods = PodControl::new(manager, "daemonset-controller");
    let history = History::new(manager);
    let atlas = Arc::new(Mutex::new(Atlas::default()));
    let queue = Queue::new();
    queue.enqueue_objects(&sets);
    let owners = sets.clone();
    queue.enqueue_mapped(pods.cache(), move |change| {
        concerned(&owners, selector_of, change)
    });
    let owners = sets.clone();
    queue.enqueue_mapped(history.cache(), move |change| {
        concerned(&owners, selector_of, change)
    });
    let noted = Arc::clone(&atlas);
    queue.enqueue_mapped(&nodes, move |change| noted.lock().note(change));
    sets.synced().await;
    nodes.synced().await;
    history.cache().synced().await;
    pods.cache().synced().await;
    let controller = DaemonSets {
        writer: Writer::namespaced(manager.client()).shown_by(&sets),
        events: manager.events("daemonset-controller"),
        sets,
        pods,
        history,
        atlas,
        backoff: Mutex::default(),
    };
    manager.start(controller, &queue, WORKERS);
}

fn selector_of(set: &DaemonSet) -> Option<&LabelSelector> {
    Some(&set.spec.as_ref()?.selector)
}

struct DaemonSets {
    writer: Writer<DaemonSet>,
    sets: Cache<DaemonSet>,
    pods: PodControl,
    history: History,
    atlas: Arc<Mutex<Atlas>>,
    backoff: Mutex<Backoff>,
    events: Events,
}

impl Reconcile for DaemonSets {
    fn name(&self) -> &'static str {
        "daemonset"
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        let Some(set) = self.sets.find(key) else {
            self.atlas.lock().forget(key);
            return Ok(Next::Wait);
        };
        let Some(spec) = &set.spec else {
            return Ok(Next::Wait);
        };
        let wanted = selector(&spec.selector)?;
        if set.metadata.deletion_timestamp.is_some() || wanted.is_empty() {
            return Ok(Next::Wait);
        }
        let owner = Owner {
            object: &*set,
            selector: &wanted,
            template: &spec.template,
            hash_label: HASH,
        };
        let revisions = self.history.of(&owner).await?;
        let mut collisions = set.status.as_ref().and_then(|it| it.collision_count);
        let current = {
            let mut count = collisions.unwrap_or_default();
            let current = self.history.current(&owner, &revisions, &mut count).await?;
            if count != collisions.unwrap_or_default() {
                collisions = Some(count);
            }
            current
        };
        let hash = label(&current.metadata, HASH).unwrap_or_default();

        let claims = &self.pods.claims;
        let around = claims.around(&set.metadata);
        let pods = claims.claim(&*set, &wanted, around).await?;
        let nodes = self.atlas.lock().verdicts(&set);
        let inputs = DaemonSetInputs {
            set: &set,
            hash,
            nodes: &nodes,
            pods: &pods,
            now: Timestamp::now(),
        };
        let plan = decide(&inputs, |node| {
            self.backoff.lock().left(&place(&set, node), inputs.now)
        });
        let applied = self.apply(&set, hash, &plan).await;

        // Read again for the status, since pods were created and deleted in between and the cache
        // has them.
        let pods = claims.owned(&set.metadata, &wanted);
        let now = Timestamp::now();
        let nodes = self.atlas.lock().verdicts(&set);
        let inputs = DaemonSetInputs {
            pods: &pods,
            nodes: &nodes,
            now,
            ..inputs
        };
        let status = DaemonSetStatus {
            collision_count: collisions,
            ..decide::status(&inputs)
        };
        let min_ready = min_ready_seconds(&set);
        let waits = min_ready > 0 && Some(status.number_ready) != status.number_available;
        if set.status.as_ref() != Some(&status) {
            self.writer.replace_status(&set.metadata, &status).await?;
        }
        // The status first: it shows how far an attempt got that failed.
        applied?;
        let limit = spec.revision_history_limit.unwrap_or(REVISIONS);
        for revision in unused(&revisions, &current, &pods, limit) {
            self.history.delete(revision).await?;
        }
        let ripening = pods
            .iter()
            .filter_map(|pod| available_in(pod, min_ready, now))
            .min()
            .filter(|_| waits);
        let next = soonest(plan.next_look, ripening);
        Ok(next.map_or(Next::Wait, Next::After))
    }
}

/// The backoff key of a set on a node.
fn place(set: &DaemonSet, node: &str) -> BackoffKey {
    let status = set.status.as_ref();
    BackoffKey {
        uid: uid(&set.metadata).to_owned(),
        generation: status
            .and_then(|status| status.observed_generation)
            .unwrap_or_default(),
        node: node.to_owned(),
    }
}

impl DaemonSets {
    async fn apply(&self, set: &DaemonSet, hash: &str, plan: &Plan) -> Result<(), Error> {
        for (node, pod) in &plan.ended {
            self.report_ended(set, node, pod);
        }
        let fresh = template::pod(set, hash);
        let created = self
            .pods
            .create_many(set, plan.create.len(), |number| {
                template::pinned(&fresh, &plan.create[number])
            })
            .await;
        let deleted = self.pods.delete_many(set, &plan.delete).await;
        created?;
        deleted
    }

    fn report_ended(&self, set: &DaemonSet, node: &str, pod: &Pod) {
        let pod_key = Key::of(&pod.metadata);
        if failed(pod) {
            let message =
                format!("Found failed daemon pod {pod_key} on node {node}, will try to kill it");
            self.events.warning(set, "FailedDaemonPod", message);
            let now = Timestamp::now();
            self.backoff.lock().note(place(set, node), now);
        } else {
            let message = format!(
                "Found succeeded daemon pod {pod_key} on node {node}, will try to delete it"
            );
            self.events.normal(set, "SucceededDaemonPod", message);
        }
    }
}

/// The oldest revisions beyond the limit that no pod runs.
fn unused<'a>(
    revisions: &'a [Arc<ControllerRevision>],
    current: &ControllerRevision,
    pods: &[Arc<Pod>],
    limit: i32,
) -> impl Iterator<Item = &'a Arc<ControllerRevision>> {
    let live: HashSet<String> = pods
        .iter()
        .filter_map(|pod| label(&pod.metadata, HASH).map(str::to_owned))
        .collect();
    let mut old: Vec<_> = revisions.iter().collect();
    old.retain(|revision| revision.metadata.uid != current.metadata.uid);
    let surplus = old
        .len()
        .saturating_sub(usize::try_from(limit).unwrap_or_default());
    old.into_iter()
        .filter(move |it| label(&it.metadata, HASH).is_none_or(|hash| !live.contains(hash)))
        .take(surplus)
}

#[cfg(test)]
mod tests;
