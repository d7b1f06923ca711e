//! Operations on the pods of controllers: claiming, creation, deletion, counting, and the order of
//! deletion.

mod batch;
mod claim;
mod figures;
mod rank;
mod selector;
mod template;

use std::sync::Arc;

use futures::future::join_all;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::Pod;
use kube::Resource;
use runtime::{Cache, Error, Events, Kind, Manager, Writer};

use crate::object::name;
pub(crate) use crate::object::{controller_of, controller_reference, is_controlled_by};
pub(crate) use crate::pod::{
    available_in, is_active, is_available, is_ready, is_terminal, is_terminating,
};
pub(crate) use batch::slow_start;
pub(crate) use claim::{Claims, concerned};
pub(crate) use figures::{number_of, portion, unless_zero};
pub(crate) use rank::first_to_go;
pub(crate) use selector::{Selector, matches, matches_all, selector};
pub(crate) use template::pod_from_template;

/// Maximum number of pods created or deleted in one reconcile (kube-controller-manager's burst).
// `BurstReplicas` in `pkg/controller/replicaset/replica_set.go`; the rest follows when the created
// pods appear in the cache.
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
    pub(crate) claims: Claims<Pod>,
    events: Events,
}

impl PodControl {
    /// Pod operations of the controller `component`.
    pub(crate) fn new(manager: &Manager, component: &'static str) -> Self {
        Self {
            claims: Claims::new(manager),
            events: manager.events(component),
        }
    }

    /// The cache of all pods.
    pub(crate) fn cache(&self) -> &Cache<Pod> {
        &self.claims.cache
    }

    /// Writes pods.
    pub(crate) fn writer(&self) -> &Writer<Pod> {
        &self.claims.writer
    }

    /// Creates pods in growing batches, until one fails (kube-controller-manager's slow start).
    pub(crate) async fn create_many<O: Namespaced>(
        &self,
        owner: &O,
        count: usize,
        pod: impl Fn(usize) -> Pod,
    ) -> Result<Vec<Pod>, Error> {
        let (created, failure) = slow_start(count, |number| self.create(owner, pod(number))).await;
        failure.map_or(Ok(created.into_iter().flatten().collect()), Err)
    }

    /// Creates a pod and emits an event. Does nothing in a terminating namespace.
    pub(crate) async fn create<O: Namespaced>(
        &self,
        owner: &O,
        pod: Pod,
    ) -> Result<Option<Pod>, Error> {
        match self.writer().create(&pod).await {
            Ok(created) => {
                let text = format!("Created pod: {}", name(&created.metadata));
                self.events.normal(owner, "SuccessfulCreate", text);
                Ok(Some(created))
            }
            // No error and no event: every attempt would fail until the namespace is gone, and the
            // owner goes with it.
            Err(error) if error.is_namespace_terminating() => Ok(None),
            Err(error) => {
                let text = format!("Error creating: {}", error.message());
                self.events.warning(owner, "FailedCreate", text);
                Err(error)
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

    /// Deletes this very pod, and emits an event.
    pub(crate) async fn delete<O: Namespaced>(&self, owner: &O, pod: &Pod) -> Result<(), Error> {
        match self.writer().delete(&pod.metadata).await {
            Ok(true) => {
                let text = format!("Deleted pod: {}", name(&pod.metadata));
                self.events.normal(owner, "SuccessfulDelete", text);
            }
            Ok(false) => {}
            Err(error) => {
                let text = format!("Error deleting: {}", error.message());
                self.events.warning(owner, "FailedDelete", text);
                return Err(error);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
