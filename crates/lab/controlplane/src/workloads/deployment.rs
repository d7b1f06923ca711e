//! Deployments: one ReplicaSet per template, between which pods are shifted.
//!
//! Different from kube-controller-manager: the hash in the names of sets (upstream hashes Go's
//! representation of a struct), all changes of one reconcile are written at once instead of in
//! steps, and the rollback annotation of `extensions/v1beta1` is not supported.

mod decide;
mod notes;
mod sets;
mod sizes;
mod status;
mod wanted;

use std::collections::HashSet;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;
use runtime::{Cache, Change, Error, Events, Key, Manager, Next, Queue, Reconcile, Writer};
use tracing::info;

use super::pods::{Claims, concerned, controller_of, is_controlled_by, is_terminal, selector};
use crate::object::{name, namespace};
use decide::{Plan, Update, decide};
use sets::{essence, replicas};

/// kube-controller-manager's default.
const WORKERS: usize = 5;

/// Starts the Deployment controller.
pub(super) async fn start(manager: &Manager) {
    let deployments = manager.cache::<Deployment>();
    let sets = manager.cache::<ReplicaSet>();
    let pods = manager.cache::<Pod>();
    let controller = DeploymentController {
        writer: Writer::namespaced(manager.client()).shown_by(&deployments),
        events: manager.events("deployment-controller"),
        deployments: deployments.clone(),
        sets: Claims::new(manager),
        pods: pods.clone(),
    };
    let queue = Queue::new();
    queue.enqueue_objects(&deployments);
    let owners = deployments.clone();
    queue.enqueue_mapped(&sets, move |change| {
        concerned(&owners, |it| Some(&it.spec.as_ref()?.selector), change)
    });
    // For `Recreate`, which waits until the last old pod has ended; the status of its set is 0
    // earlier, when the pod begins to terminate.
    let (owners, of_pods) = (deployments.clone(), sets.clone());
    queue.enqueue_mapped(&pods, move |change| {
        waits_for_end(&owners, &of_pods, change)
    });
    deployments.synced().await;
    sets.synced().await;
    pods.synced().await;
    manager.start(controller, &queue, WORKERS);
}

/// The deployment that waits for the end of its old pods, if this change is the end of one.
fn waits_for_end(
    deployments: &Cache<Deployment>,
    sets: &Cache<ReplicaSet>,
    change: &Change<Pod>,
) -> Option<Key> {
    if change.new.as_ref().is_some_and(|pod| !is_terminal(pod)) {
        return None;
    }
    let meta = &change.object()?.metadata;
    let set = sets.get(namespace(meta), &controller_of(meta)?.name)?;
    if !is_controlled_by(meta, &set.metadata) {
        return None;
    }
    let key = Key::new(namespace(meta), &controller_of(&set.metadata)?.name);
    let deployment = deployments.find(&key)?;
    recreates(&deployment).then_some(key)
}

/// Whether the strategy is `Recreate`.
fn recreates(deployment: &Deployment) -> bool {
    let spec = deployment.spec.as_ref();
    let strategy = spec.and_then(|spec| spec.strategy.as_ref());
    strategy.is_some_and(|strategy| strategy.type_.as_deref() == Some("Recreate"))
}

struct DeploymentController {
    writer: Writer<Deployment>,
    deployments: Cache<Deployment>,
    sets: Claims<ReplicaSet>,
    pods: Cache<Pod>,
    events: Events,
}

impl Reconcile for DeploymentController {
    fn name(&self) -> &'static str {
        "deployment"
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        let Some(deployment) = self.deployments.find(key) else {
            return Ok(Next::Wait);
        };
        let sets = self.own_sets(&deployment).await?;
        let busy = if recreates(&deployment) {
            self.busy(&sets)
        } else {
            HashSet::new()
        };
        let plan = decide(&deployment, &sets, &busy, Timestamp::now())?;
        self.apply(&deployment, &plan).await?;
        Ok(plan.next_look.map_or(Next::Wait, Next::After))
    }
}

impl DeploymentController {
    async fn own_sets(&self, deployment: &Deployment) -> Result<Vec<Arc<ReplicaSet>>, Error> {
        let Some(spec) = &deployment.spec else {
            return Ok(Vec::new());
        };
        let wanted = selector(&spec.selector)?;
        let sets = self.sets.around(&deployment.metadata);
        self.sets.claim(deployment, &wanted, sets).await
    }

    /// UIDs of sets with pods that have not terminated.
    fn busy(&self, sets: &[Arc<ReplicaSet>]) -> HashSet<String> {
        let uids = sets.iter().filter_map(|set| set.metadata.uid.clone());
        uids.filter(|uid| {
            let pods = self.pods.controlled_by(uid);
            pods.iter().any(|pod| !is_terminal(pod))
        })
        .collect()
    }

    async fn apply(&self, deployment: &Deployment, plan: &Plan) -> Result<(), Error> {
        // The status last: it describes the sets after these writes. After a crash before it the
        // next reconcile derives the same plan from the live sets.
        if let Some(set) = &plan.create {
            self.create(deployment, set).await?;
        }
        for update in &plan.update {
            self.update(deployment, update).await?;
        }
        for set in &plan.delete {
            // Only as it was seen: a rollback may have scaled it up in the meantime.
            self.sets.writer.delete_unchanged(&set.metadata).await?;
        }
        if plan.deployment != *deployment {
            // The status and, as kube-controller-manager does, the annotations.
            self.writer.put_status(&plan.deployment).await?;
        }
        Ok(())
    }

    async fn create(&self, deployment: &Deployment, set: &ReplicaSet) -> Result<(), Error> {
        let Err(error) = self.sets.writer.create(set).await else {
            if replicas(set) > 0 {
                self.report_scaled(deployment, set, 0);
            }
            return Ok(());
        };
        let taken = error
            .status()
            .is_some_and(|it| it.reason == "AlreadyExists");
        if taken {
            if !self.is_created_already(deployment, set).await? {
                self.note_collision(deployment).await?;
            }
        } else if !error.is_namespace_terminating() {
            self.note_failure(deployment, name(&set.metadata), &error.message())
                .await;
        }
        Err(error)
    }

    /// Whether the set of that name is the one to be created: then the cache was stale, which
    /// happens when another controller handles the same deployment.
    async fn is_created_already(
        &self,
        deployment: &Deployment,
        set: &ReplicaSet,
    ) -> Result<bool, Error> {
        let Some(known) = self.sets.writer.get(&Key::of(&set.metadata)).await? else {
            return Ok(false);
        };
        self.sets.cache.saw(&known).await;
        let template = |set: &ReplicaSet| {
            let spec = set.spec.as_ref();
            essence(spec.and_then(|spec| spec.template.as_ref()))
        };
        Ok(is_controlled_by(&known.metadata, &deployment.metadata)
            && template(&known) == template(set))
    }

    /// Increments the collision count: another set has the name, so the next attempt hashes to
    /// another one.
    async fn note_collision(&self, deployment: &Deployment) -> Result<(), Error> {
        let mut changed = deployment.clone();
        let status = changed.status.get_or_insert_default();
        let collisions = status.collision_count.unwrap_or_default() + 1;
        status.collision_count = Some(collisions);
        let key = Key::of(&deployment.metadata);
        info!(deployment = %key, collisions, "the name of the new ReplicaSet is taken");
        self.writer.put_status(&changed).await.map(drop)
    }

    async fn note_failure(&self, deployment: &Deployment, set: &str, cause: &str) {
        let message = format!("Failed to create new replica set {set:?}: {cause}");
        let spec = deployment.spec.as_ref();
        let deadline = spec.and_then(|spec| spec.progress_deadline_seconds);
        // The largest number stands for no deadline.
        if deadline.is_some_and(|deadline| deadline != i32::MAX) {
            let mut changed = deployment.clone();
            let failed = status::condition(
                status::PROGRESSING,
                "False",
                status::CREATE_FAILED,
                message.clone(),
                Timestamp::now(),
            );
            status::put(changed.status.get_or_insert_default(), failed);
            if changed != *deployment {
                // Best effort: the original failure is returned, and the retry repeats this.
                let _ = self.writer.put_status(&changed).await;
            }
        }
        self.events
            .warning(deployment, status::CREATE_FAILED, message);
    }

    async fn update(&self, deployment: &Deployment, update: &Update) -> Result<(), Error> {
        self.sets.writer.replace(&update.set).await?;
        if replicas(&update.set) != update.from {
            self.report_scaled(deployment, &update.set, update.from);
        }
        Ok(())
    }

    fn report_scaled(&self, deployment: &Deployment, set: &ReplicaSet, from: i32) {
        let to = replicas(set);
        let direction = if from < to { "up" } else { "down" };
        let name = name(&set.metadata);
        let text = format!("Scaled {direction} replica set {name} from {from} to {to}");
        self.events.normal(deployment, "ScalingReplicaSet", text);
    }
}

#[cfg(test)]
mod tests;
