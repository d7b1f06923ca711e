//! The expected number of pods: the scale of their controllers.

use std::collections::HashMap;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{Pod, ReplicationController};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::DynamicObject;
use kube::core::GroupVersionKind;
use kube::{Api, Client, ResourceExt as _};
use runtime::{Absent as _, Cache, Error, Kind, Manager};

use crate::object::{controller_of, namespace};

/// The controllers with a scale.
pub(super) struct Scales {
    client: Client,
    deployments: Cache<Deployment>,
    replica_sets: Cache<ReplicaSet>,
    stateful_sets: Cache<StatefulSet>,
    replication_controllers: Cache<ReplicationController>,
}

/// The expected pods.
#[derive(Debug, Default)]
pub(super) struct ExpectedPods {
    /// Expected number of pods.
    pub(super) replicas: i32,
    /// Whether some pods have no controller.
    pub(super) has_unmanaged: bool,
}

/// The UID and the desired replicas of a controller.
type Scale = (String, i32);

impl Scales {
    pub(super) fn new(manager: &Manager) -> Self {
        Self {
            client: manager.client(),
            deployments: manager.cache(),
            replica_sets: manager.cache(),
            stateful_sets: manager.cache(),
            replication_controllers: manager.cache(),
        }
    }

    pub(super) async fn synced(&self) {
        tokio::join!(
            self.deployments.synced(),
            self.replica_sets.synced(),
            self.stateful_sets.synced(),
            self.replication_controllers.synced(),
        );
    }

    /// The scales of the pods' controllers, each counted once.
    pub(super) async fn of(&self, pods: &[Arc<Pod>]) -> Result<ExpectedPods, Error> {
        let mut known: HashMap<String, Scale> = HashMap::new();
        let mut has_unmanaged = false;
        for pod in pods {
            let Some(controller) = controller_of(&pod.metadata) else {
                has_unmanaged = true;
                continue;
            };
            if known.contains_key(&controller.uid) {
                continue;
            }
            let scale = self.find(controller, namespace(&pod.metadata)).await?;
            // An error and not zero pods: fewer expected pods would allow more disruptions.
            let scale = scale.ok_or_else(|| {
                Error::Invalid(format!("found no controllers for pod {:?}", pod.name_any()))
            })?;
            known.insert(controller.uid.clone(), scale);
        }
        // During a rollout two sets lead to the same Deployment, whose scale counts once.
        let by_controller: HashMap<String, i32> = known.into_values().collect();
        Ok(ExpectedPods {
            replicas: by_controller.into_values().sum(),
            has_unmanaged,
        })
    }

    async fn find(
        &self,
        controller: &OwnerReference,
        namespace: &str,
    ) -> Result<Option<Scale>, Error> {
        let (group, _) = group_version(controller);
        match (group, controller.kind.as_str()) {
            ("apps", "ReplicaSet") => Ok(self.of_replica_set(controller, namespace)),
            ("apps", "StatefulSet") => {
                Ok(cached(&self.stateful_sets, controller, namespace, |set| {
                    set.spec.as_ref()?.replicas
                }))
            }
            ("", "ReplicationController") => Ok(cached(
                &self.replication_controllers,
                controller,
                namespace,
                |it| it.spec.as_ref()?.replicas,
            )),
            _ => self.read_scale(controller, namespace).await,
        }
    }

    /// For a ReplicaSet of a Deployment the scale of the Deployment counts.
    fn of_replica_set(&self, controller: &OwnerReference, namespace: &str) -> Option<Scale> {
        let scale = cached(&self.replica_sets, controller, namespace, |set| {
            set.spec.as_ref()?.replicas
        })?;
        let set = self.replica_sets.get(namespace, &controller.name)?;
        match controller_of(&set.metadata).filter(|above| above.kind == "Deployment") {
            None => Some(scale),
            Some(above) => cached(&self.deployments, above, namespace, |it| {
                it.spec.as_ref()?.replicas
            }),
        }
    }

    /// Reads the `scale` subresource of a controller of any other kind.
    async fn read_scale(
        &self,
        controller: &OwnerReference,
        namespace: &str,
    ) -> Result<Option<Scale>, Error> {
        let (group, version) = group_version(controller);
        let gvk = GroupVersionKind::gvk(group, version, &controller.kind);
        let operation = || format!("discover the kind {}", controller.kind);
        let (resource, can) = kube::discovery::pinned_kind(&self.client, &gvk)
            .await
            .map_err(Error::api(operation()))?;
        if !can
            .subresources
            .iter()
            .any(|(subresource, _)| subresource.kind == "Scale")
        {
            let dot = if group.is_empty() { "" } else { "." };
            return Err(Error::Invalid(format!(
                "{}{dot}{group} does not implement the scale subresource",
                resource.plural
            )));
        }
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), namespace, &resource);
        let name = &controller.name;
        let operation = format!("get the scale of {} {namespace}/{name}", controller.kind);
        let scale = api.get_scale(name).await.not_found_as_none();
        let Some(scale) = scale.map_err(Error::api(operation))? else {
            return Ok(None);
        };
        let replicas = scale.spec.and_then(|spec| spec.replicas).unwrap_or(0);
        Ok((scale.metadata.uid.as_ref() == Some(&controller.uid))
            .then(|| (controller.uid.clone(), replicas)))
    }
}

/// The scale of a controller in a cache, if it is the one that is meant.
fn cached<K: Kind>(
    cache: &Cache<K>,
    controller: &OwnerReference,
    namespace: &str,
    replicas: impl FnOnce(&K) -> Option<i32>,
) -> Option<Scale> {
    let found = cache.get(namespace, &controller.name)?;
    (found.meta().uid.as_ref() == Some(&controller.uid))
        // One is the default of the API for all three kinds.
        .then(|| (controller.uid.clone(), replicas(&found).unwrap_or(1)))
}

fn group_version(controller: &OwnerReference) -> (&str, &str) {
    let api_version = controller.api_version.as_str();
    api_version.split_once('/').unwrap_or(("", api_version))
}
