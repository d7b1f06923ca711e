//! Operations on the pods of controllers: claiming, creation, deletion, counting, and the order of
//! deletion.

mod batch;
mod claim;
mod figures;
mod rank;
mod selector;
mod state;
mod template;

use std::sync::Arc;

use futures::future::join_all;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DeleteParams, PostParams, Preconditions};
use kube::{Api, Client, Resource};
use runtime::{Absent, Cache, Error, Events, Index, Kind, Manager};

pub(crate) use batch::slow_start;
pub(crate) use claim::{claim, concerned, controller_of, is_controlled_by, orphaned_in};
pub(crate) use figures::{number_of, portion, unless_zero};
pub(crate) use rank::first_to_go;
pub(crate) use selector::{Selector, matches, matches_all, selector};
pub(crate) use state::{
    available_in, is_active, is_available, is_ready, is_terminal, is_terminating,
};
pub(crate) use template::{controller_reference, pod_from_template};

/// Maximum number of pods created or deleted in one reconcile (kube-controller-manager's burst).
pub(crate) const BURST: usize = 500;

/// Kinds of objects in namespaces.
pub(crate) trait Namespaced:
    Kind + Resource<DynamicType = (), Scope = NamespaceResourceScope>
{
}

impl<K> Namespaced for K where K: Kind + Resource<DynamicType = (), Scope = NamespaceResourceScope> {}

/// Pod operations of a controller. The cache has every change before an operation returns.
#[derive(Clone)]
pub(crate) struct PodControl {
    client: Client,
    cache: Cache<Pod>,
    orphans: Index<Pod>,
    events: Events,
}

impl PodControl {
    /// Pod operations of the controller `component`.
    pub(crate) fn new(manager: &Manager, component: &'static str) -> Self {
        let cache = manager.cache::<Pod>();
        Self {
            client: manager.client(),
            orphans: cache.index(|pod| orphaned_in(&pod.metadata)),
            cache,
            events: manager.events(component),
        }
    }

    /// The cache of all pods.
    pub(crate) fn cache(&self) -> &Cache<Pod> {
        &self.cache
    }

    /// The pods of an owner, and those in its namespace without a controller.
    pub(crate) fn around(&self, owner: &ObjectMeta) -> Vec<Arc<Pod>> {
        let uid = owner.uid.as_deref().unwrap_or_default();
        let namespace = owner.namespace.as_deref().unwrap_or_default();
        let mut pods = self.cache.controlled_by(uid);
        pods.extend(self.orphans.find(namespace));
        pods
    }

    /// Adopts matching pods without a controller and releases pods that no longer match; returns
    /// the owner's pods.
    pub(crate) async fn claim<O: Namespaced>(
        &self,
        owner: &O,
        selector: &Selector,
        pods: Vec<Arc<Pod>>,
    ) -> Result<Vec<Arc<Pod>>, Error> {
        claim(&self.client, &self.cache, owner, selector, pods).await
    }

    /// Creates pods in growing batches, until one fails (kube-controller-manager's slow start).
    pub(crate) async fn create_many<O: Namespaced>(
        &self,
        owner: &O,
        count: usize,
        pod: impl Fn(usize) -> Pod,
    ) -> Result<Vec<Pod>, Error> {
        let (created, failure) =
            slow_start(count, |number| self.create_unseen(owner, pod(number))).await;
        let created: Vec<Pod> = created.into_iter().flatten().collect();
        for pod in &created {
            self.cache.saw(pod).await;
        }
        failure.map_or(Ok(created), Err)
    }

    /// Creates a pod and emits an event. Does nothing in a terminating namespace.
    pub(crate) async fn create<O: Namespaced>(
        &self,
        owner: &O,
        pod: Pod,
    ) -> Result<Option<Pod>, Error> {
        let created = self.create_unseen(owner, pod).await?;
        if let Some(pod) = &created {
            self.cache.saw(pod).await;
        }
        Ok(created)
    }

    async fn create_unseen<O: Namespaced>(
        &self,
        owner: &O,
        pod: Pod,
    ) -> Result<Option<Pod>, Error> {
        let namespace = owner.meta().namespace.as_deref().unwrap_or_default();
        match self
            .api(namespace)
            .create(&PostParams::default(), &pod)
            .await
        {
            Ok(created) => {
                let name = created.metadata.name.as_deref().unwrap_or_default();
                self.events
                    .normal(owner, "SuccessfulCreate", format!("Created pod: {name}"));
                Ok(Some(created))
            }
            Err(error) if namespace_is_terminating(&error) => Ok(None),
            Err(error) => {
                let message = api_message(&error);
                self.events
                    .warning(owner, "FailedCreate", format!("Error creating: {message}"));
                Err(Error::api(format!("create a pod in {namespace}"))(error))
            }
        }
    }

    /// Deletes pods concurrently and emits events; returns the first error, if any.
    pub(crate) async fn delete_many<O: Namespaced>(
        &self,
        owner: &O,
        pods: &[Arc<Pod>],
    ) -> Result<(), Error> {
        let results = join_all(pods.iter().map(|pod| self.delete(owner, pod))).await;
        results.into_iter().collect()
    }

    /// Deletes a pod with a precondition on its UID, and emits an event.
    pub(crate) async fn delete<O: Namespaced>(&self, owner: &O, pod: &Pod) -> Result<(), Error> {
        let meta = &pod.metadata;
        let namespace = meta.namespace.as_deref().unwrap_or_default();
        let name = meta.name.as_deref().unwrap_or_default();
        let only_this = DeleteParams {
            preconditions: Some(Preconditions {
                uid: meta.uid.clone(),
                resource_version: None,
            }),
            ..DeleteParams::default()
        };
        let deleted = self.api(namespace).delete(name, &only_this).await;
        match deleted.not_found_as_none() {
            Ok(Some(_)) => {
                self.events
                    .normal(owner, "SuccessfulDelete", format!("Deleted pod: {name}"));
            }
            Ok(None) => {}
            Err(error) => {
                let message = api_message(&error);
                self.events
                    .warning(owner, "FailedDelete", format!("Error deleting: {message}"));
                return Err(Error::api(format!("delete pod {namespace}/{name}"))(error));
            }
        }
        self.cache.wait_for_deletion(meta).await;
        Ok(())
    }

    fn api(&self, namespace: &str) -> Api<Pod> {
        Api::namespaced(self.client.clone(), namespace)
    }
}

/// The API server's message.
pub(crate) fn api_message(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}

/// The API server's message about a failure, or else the error.
pub(crate) fn explain(error: &Error) -> String {
    match error {
        Error::Api { cause, .. } => api_message(cause),
        Error::Invalid(text) | Error::Late(text) => text.clone(),
    }
}

/// Whether a creation failed because the namespace is terminating.
pub(crate) fn namespace_is_terminating(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else {
        return false;
    };
    status
        .details
        .iter()
        .flat_map(|details| &details.causes)
        .any(|cause| cause.reason == "NamespaceTerminating")
}

#[cfg(test)]
mod tests;
