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
use kube::api::PostParams;
use kube::{Api, Client};
use parking_lot::Mutex;
use runtime::{Cache, Error, Events, Key, Manager, Next, Queue, Reconcile};

use super::history::{History, Owner};
use super::pods::{
    PodControl, Selector, available_in, concerned, controller_reference, is_controlled_by, matches,
    selector,
};
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
    let revisions = manager.cache::<ControllerRevision>();
    let pods = PodControl::new(manager, "daemonset-controller");
    let history = History::new(manager);
    let atlas = Arc::new(Mutex::new(Atlas::default()));
    let queue = Queue::new();
    sets.on_change({
        let queue = queue.clone();
        move |change| {
            if let Some(set) = change.object() {
                queue.add(Key::of(&set.metadata));
            }
        }
    });
    pods.cache().on_change({
        let (queue, sets) = (queue.clone(), sets.clone());
        move |change| {
            for key in concerned(&sets, |set| Some(&set.spec.as_ref()?.selector), change) {
                queue.add(key);
            }
        }
    });
    revisions.on_change({
        let (queue, sets) = (queue.clone(), sets.clone());
        move |change| {
            for key in concerned(&sets, |set| Some(&set.spec.as_ref()?.selector), change) {
                queue.add(key);
            }
        }
    });
    nodes.on_change({
        let (queue, atlas) = (queue.clone(), Arc::clone(&atlas));
        move |change| {
            for key in atlas.lock().note(change) {
                queue.add(key);
            }
        }
    });
    sets.synced().await;
    nodes.synced().await;
    history.synced().await;
    pods.cache().synced().await;
    let controller = DaemonSets {
        client: manager.client(),
        events: manager.events("daemonset-controller"),
        sets,
        pods,
        history,
        atlas,
        backoff: Mutex::default(),
    };
    manager.start(controller, &queue, WORKERS);
}

struct DaemonSets {
    client: Client,
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
            meta: &set.metadata,
            reference: controller_reference(&*set),
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
        let labels = current.metadata.labels.as_ref();
        let hash = labels.and_then(|labels| labels.get(HASH)).cloned();
        let hash = hash.unwrap_or_default();

        let around = self.pods.around(&set.metadata);
        let pods = self.pods.claim(&*set, &wanted, around).await?;
        let nodes = self.atlas.lock().verdicts(&set);
        let inputs = DaemonSetInputs {
            set: &set,
            hash: &hash,
            nodes: &nodes,
            pods: &pods,
            now: Timestamp::now(),
        };
        let plan = decide(&inputs, |node| {
            self.backoff.lock().left(&place(&set, node), inputs.now)
        });
        let applied = self.apply(&set, &hash, &plan).await;

        let pods = self.own_pods(&set, &wanted);
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
        self.report(&set, status).await?;
        applied?;
        self.forget_revisions(&owner, &revisions, &current, &pods)
            .await?;
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
        uid: set.metadata.uid.clone().unwrap_or_default(),
        generation: status
            .and_then(|status| status.observed_generation)
            .unwrap_or_default(),
        node: node.to_owned(),
    }
}

impl DaemonSets {
    async fn apply(&self, set: &DaemonSet, hash: &str, plan: &Plan) -> Result<(), Error> {
        for (node, pod) in &plan.ended {
            self.say_ended(set, node, pod);
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

    fn say_ended(&self, set: &DaemonSet, node: &str, pod: &Pod) {
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

    fn own_pods(&self, set: &DaemonSet, wanted: &Selector) -> Vec<Arc<Pod>> {
        let mut pods = self.pods.around(&set.metadata);
        pods.retain(|pod| {
            is_controlled_by(&pod.metadata, &set.metadata) && matches(wanted, &pod.metadata)
        });
        pods
    }

    async fn report(&self, set: &DaemonSet, status: DaemonSetStatus) -> Result<(), Error> {
        if set.status.as_ref() == Some(&status) {
            return Ok(());
        }
        let key = Key::of(&set.metadata);
        let changed = DaemonSet {
            status: Some(status),
            ..set.clone()
        };
        let api: Api<DaemonSet> = Api::namespaced(self.client.clone(), &key.namespace);
        let written = api
            .replace_status(&key.name, &PostParams::default(), &changed)
            .await
            .map_err(Error::api(format!("update status of DaemonSet {key}")))?;
        self.sets.saw(&written).await;
        Ok(())
    }

    /// Deletes the oldest unused revisions beyond the limit.
    async fn forget_revisions(
        &self,
        owner: &Owner<'_>,
        revisions: &[Arc<ControllerRevision>],
        current: &ControllerRevision,
        pods: &[Arc<Pod>],
    ) -> Result<(), Error> {
        let set = self.sets.find(&Key::of(owner.meta));
        let limit = set.and_then(|set| set.spec.as_ref()?.revision_history_limit);
        let limit = usize::try_from(limit.unwrap_or(REVISIONS)).unwrap_or_default();
        let old: Vec<_> = revisions
            .iter()
            .filter(|revision| revision.metadata.uid != current.metadata.uid)
            .collect();
        let hash = |labels: Option<&std::collections::BTreeMap<String, String>>| {
            labels.and_then(|labels| labels.get(HASH)).cloned()
        };
        let live: HashSet<String> = pods
            .iter()
            .filter_map(|pod| hash(pod.metadata.labels.as_ref()))
            .collect();
        let surplus = old.len().saturating_sub(limit);
        let idle = old.into_iter().filter(|revision| {
            hash(revision.metadata.labels.as_ref()).is_none_or(|hash| !live.contains(&hash))
        });
        for revision in idle.take(surplus) {
            self.history.delete(owner, revision).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
