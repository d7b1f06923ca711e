//! Requests of the garbage collector to the API server.
//!
//! Every write has a precondition on UID and resource version, so the cache need not catch up
//! afterwards: a request repeated because of a stale cache fails.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions, PropagationPolicy};
use runtime::{Absent, Error};
use serde_json::{Value, json};

use super::Collector;
use super::node::{Meta, Node, is_blocking, owners};
use crate::discovery::Served;

impl Collector {
    fn api(&self, kind: &Served, namespace: &str) -> Api<Meta> {
        let client = self.shared.client.clone();
        if namespace.is_empty() {
            Api::all_with(client, &kind.resource)
        } else {
            Api::namespaced_with(client, namespace, &kind.resource)
        }
    }

    /// The current object of that name.
    pub(super) async fn get(
        &self,
        kind: &Served,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Meta>, Error> {
        self.api(kind, namespace)
            .get(name)
            .await
            .not_found_as_none()
            .map_err(Error::api(format!(
                "get {} {namespace}/{name}",
                kind.resource.plural
            )))
    }

    /// The current object, if its UID is the same.
    pub(super) async fn live(&self, node: &Node) -> Result<Option<Meta>, Error> {
        let found = self.get(&node.kind, node.namespace(), node.name()).await?;
        Ok(found.filter(|found| found.metadata.uid.as_deref() == Some(node.uid())))
    }

    async fn patch(&self, node: &Node, live: &Meta, change: Value) -> Result<Meta, Error> {
        let mut patch = json!({ "metadata": change });
        patch["metadata"]["resourceVersion"] = json!(live.metadata.resource_version);
        self.api(&node.kind, node.namespace())
            .patch(node.name(), &PatchParams::default(), &Patch::Merge(&patch))
            .await
            .map_err(Error::api(format!("patch {}", describe(node))))
    }

    /// Removes owner references.
    pub(super) async fn strip(&self, node: &Node, uids: &[String]) -> Result<(), Error> {
        let Some(live) = self.live(node).await? else {
            return Ok(());
        };
        let all = owners(&live.metadata);
        let kept: Vec<&OwnerReference> = all
            .iter()
            .filter(|reference| !uids.contains(&reference.uid))
            .collect();
        if kept.len() < all.len() {
            let change = json!({ "ownerReferences": kept });
            self.patch(node, &live, change).await?;
        }
        Ok(())
    }

    /// Clears `blockOwnerDeletion` in the owner references of an object.
    pub(super) async fn unblock(&self, node: &Node, live: Meta) -> Result<Meta, Error> {
        if !owners(&live.metadata).iter().any(is_blocking) {
            return Ok(live);
        }
        let free = |reference: &OwnerReference| OwnerReference {
            block_owner_deletion: reference.block_owner_deletion.map(|_| false),
            ..reference.clone()
        };
        let references: Vec<_> = owners(&live.metadata).iter().map(free).collect();
        let change = json!({ "ownerReferences": references });
        self.patch(node, &live, change).await
    }

    pub(super) async fn remove_finalizer(&self, node: &Node, finalizer: &str) -> Result<(), Error> {
        let Some(live) = self.live(node).await? else {
            return Ok(());
        };
        let all = live.metadata.finalizers.as_deref().unwrap_or_default();
        let kept: Vec<&String> = all.iter().filter(|known| *known != finalizer).collect();
        if kept.len() < all.len() {
            let change = json!({ "finalizers": kept });
            self.patch(node, &live, change).await?;
        }
        Ok(())
    }

    /// Deletes an object whose owners are still those of `live`.
    pub(super) async fn delete(
        &self,
        node: &Node,
        live: &Meta,
        policy: PropagationPolicy,
    ) -> Result<(), Error> {
        let refused = match self.delete_at(node, Some(live), policy.clone()).await {
            Err(error) if error.code() == Some(409) => error,
            other => return other,
        };
        // A change that leaves the owner references alone must not prevent the deletion, however
        // often it occurs.
        let Some(now) = self.live(node).await? else {
            return Ok(());
        };
        if owners(&now.metadata) == owners(&live.metadata) {
            return self.delete_at(node, None, policy).await;
        }
        Err(refused)
    }

    async fn delete_at(
        &self,
        node: &Node,
        live: Option<&Meta>,
        policy: PropagationPolicy,
    ) -> Result<(), Error> {
        let params = DeleteParams {
            propagation_policy: Some(policy),
            preconditions: Some(Preconditions {
                uid: Some(node.uid().to_owned()),
                resource_version: live.and_then(|live| live.metadata.resource_version.clone()),
            }),
            ..DeleteParams::default()
        };
        self.api(&node.kind, node.namespace())
            .delete(node.name(), &params)
            .await
            .not_found_as_none()
            .map(drop)
            .map_err(Error::api(format!("delete {}", describe(node))))
    }
}

/// An object in log messages.
fn describe(node: &Node) -> String {
    let plural = &node.kind.resource.plural;
    match node.namespace() {
        "" => format!("{plural} {}", node.name()),
        namespace => format!("{plural} {namespace}/{}", node.name()),
    }
}
