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
use kube::api::{DeleteParams, PostParams, Preconditions};
use kube::{Api, Client};
use runtime::{Absent, Cache, Change, Error, Events, Index, Key, Manager, Next, Queue, Reconcile};
use tracing::info;

use super::pods::{
    api_message, claim, concerned, controller_of, is_controlled_by, is_terminal,
    namespace_is_terminating, orphaned_in, selector,
};
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
        client: manager.client(),
        orphans: sets.index(|set| orphaned_in(&set.metadata)),
        events: manager.events("deployment-controller"),
        deployments: deployments.clone(),
        sets: sets.clone(),
        pods: pods.clone(),
    };
    let queue = Queue::new();
    deployments.on_change({
        let queue = queue.clone();
        move |change| {
            if let Some(deployment) = change.object() {
                queue.add(Key::of(&deployment.metadata));
            }
        }
    });
    sets.on_change({
        let (queue, deployments) = (queue.clone(), deployments.clone());
        move |change| {
            for key in concerned(&deployments, |it| Some(&it.spec.as_ref()?.selector), change) {
                queue.add(key);
            }
        }
    });
    pods.on_change({
        let (queue, deployments, sets) = (queue.clone(), deployments.clone(), sets.clone());
        move |change| {
            if let Some(key) = waits_for_end(&deployments, &sets, change) {
                queue.add(key);
            }
        }
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
    let namespace = meta.namespace.as_deref().unwrap_or_default();
    let set = sets.get(namespace, &controller_of(meta)?.name)?;
    if !is_controlled_by(meta, &set.metadata) {
        return None;
    }
    let key = Key::new(namespace, &controller_of(&set.metadata)?.name);
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
    client: Client,
    deployments: Cache<Deployment>,
    sets: Cache<ReplicaSet>,
    orphans: Index<ReplicaSet>,
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
        let meta = &deployment.metadata;
        let mut sets = self
            .sets
            .controlled_by(meta.uid.as_deref().unwrap_or_default());
        sets.extend(
            self.orphans
                .find(meta.namespace.as_deref().unwrap_or_default()),
        );
        claim(&self.client, &self.sets, deployment, &wanted, sets).await
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
        if let Some(set) = &plan.create {
            self.create(deployment, set).await?;
        }
        for update in &plan.update {
            self.update(deployment, update).await?;
        }
        for set in &plan.delete {
            self.delete(set).await?;
        }
        if plan.deployment != *deployment {
            self.report(&plan.deployment).await?;
        }
        Ok(())
    }

    async fn create(&self, deployment: &Deployment, set: &ReplicaSet) -> Result<(), Error> {
        let key = Key::of(&set.metadata);
        let operation = Error::api(format!("create ReplicaSet {key}"));
        let error = match self.api(&key).create(&PostParams::default(), set).await {
            Ok(created) => {
                self.sets.saw(&created).await;
                if replicas(set) > 0 {
                    self.say_scaled(deployment, set, 0);
                }
                return Ok(());
            }
            Err(error) => error,
        };
        let taken = matches!(&error, kube::Error::Api(status) if status.reason == "AlreadyExists");
        if taken {
            if !self.is_made_already(deployment, set).await? {
                self.note_collision(deployment).await?;
            }
        } else if !namespace_is_terminating(&error) {
            self.note_failure(deployment, &key, &api_message(&error))
                .await;
        }
        Err(operation(error))
    }

    /// Whether the set of that name is the one to be created: then the cache was stale, which
    /// happens when another controller handles the same deployment.
    async fn is_made_already(
        &self,
        deployment: &Deployment,
        set: &ReplicaSet,
    ) -> Result<bool, Error> {
        let key = Key::of(&set.metadata);
        let known = self
            .api(&key)
            .get(&key.name)
            .await
            .map_err(Error::api(format!("get ReplicaSet {key}")))?;
        self.sets.saw(&known).await;
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
        self.report(&changed).await
    }

    async fn note_failure(&self, deployment: &Deployment, key: &Key, cause: &str) {
        let message = format!("Failed to create new replica set {:?}: {cause}", key.name);
        let deadline = deployment
            .spec
            .as_ref()
            .and_then(|spec| spec.progress_deadline_seconds);
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
                let _ = self.report(&changed).await;
            }
        }
        self.events
            .warning(deployment, status::CREATE_FAILED, message);
    }

    async fn update(&self, deployment: &Deployment, update: &Update) -> Result<(), Error> {
        let key = Key::of(&update.set.metadata);
        let written = self
            .api(&key)
            .replace(&key.name, &PostParams::default(), &update.set)
            .await
            .map_err(Error::api(format!("update ReplicaSet {key}")))?;
        self.sets.saw(&written).await;
        if replicas(&update.set) != update.from {
            self.say_scaled(deployment, &update.set, update.from);
        }
        Ok(())
    }

    async fn delete(&self, set: &ReplicaSet) -> Result<(), Error> {
        let key = Key::of(&set.metadata);
        let as_seen = DeleteParams::default().preconditions(Preconditions {
            uid: set.metadata.uid.clone(),
            resource_version: set.metadata.resource_version.clone(),
        });
        self.api(&key)
            .delete(&key.name, &as_seen)
            .await
            .not_found_as_none()
            .map_err(Error::api(format!("delete ReplicaSet {key}")))?;
        self.sets.wait_for_deletion(&set.metadata).await;
        Ok(())
    }

    fn say_scaled(&self, deployment: &Deployment, set: &ReplicaSet, from: i32) {
        let to = replicas(set);
        let direction = if from < to { "up" } else { "down" };
        let name = set.metadata.name.as_deref().unwrap_or_default();
        self.events.normal(
            deployment,
            "ScalingReplicaSet",
            format!("Scaled {direction} replica set {name} from {from} to {to}"),
        );
    }

    /// Writes the status and, as kube-controller-manager does, the annotations.
    async fn report(&self, deployment: &Deployment) -> Result<(), Error> {
        let key = Key::of(&deployment.metadata);
        let api: Api<Deployment> = Api::namespaced(self.client.clone(), &key.namespace);
        let written = api
            .replace_status(&key.name, &PostParams::default(), deployment)
            .await
            .map_err(Error::api(format!("update status of Deployment {key}")))?;
        self.deployments.saw(&written).await;
        Ok(())
    }

    fn api(&self, key: &Key) -> Api<ReplicaSet> {
        Api::namespaced(self.client.clone(), &key.namespace)
    }
}

#[cfg(test)]
mod tests;
