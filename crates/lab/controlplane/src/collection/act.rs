//! Requests of the garbage collector to the API server.
//!
//! Every write has a precondition on UID and resource version, so the cache need not catch up
//! afterwards: a request repeated because of a stale cache fails.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{DeleteParams, PropagationPolicy};
use runtime::{Error, Key, Writer};
use serde_json::{Value, json};

use super::Collector;
use super::node::{Meta, Node, has_finalizer, is_blocking, owners};
use crate::discovery::Served;

impl Collector {
    fn writer(&self, kind: &Served) -> Writer<Meta> {
        Writer::dynamic(self.shared.client.clone(), &kind.resource)
    }

    /// The current object of that name.
    pub(super) async fn get(
        &self,
        kind: &Served,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Meta>, Error> {
        self.writer(kind).get(&Key::new(namespace, name)).await
    }

    /// The current object, if its UID is the same.
    pub(super) async fn live(&self, node: &Node) -> Result<Option<Meta>, Error> {
        let found = self.get(&node.kind, node.namespace(), node.name()).await?;
        Ok(found.filter(|found| found.metadata.uid.as_deref() == Some(node.uid())))
    }

    async fn patch(&self, node: &Node, live: &Meta, change: Value) -> Result<Meta, Error> {
        let writer = self.writer(&node.kind);
        writer
            .merge_into(&live.metadata, json!({ "metadata": change }))
            .await
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
            // Breaks a cycle of owners in foreground deletion, each of which would wait for the
            // other.
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
        if has_finalizer(&live.metadata, finalizer) {
            let writer = self.writer(&node.kind);
            writer
                .set_finalizer(&live.metadata, finalizer, false)
                .await?;
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
        let writer = self.writer(&node.kind);
        let by = DeleteParams {
            propagation_policy: Some(policy),
            ..DeleteParams::default()
        };
        let deleted = writer.delete_unchanged_with(&live.metadata, by.clone());
        let refused = match deleted.await {
            Err(error) if error.code() == Some(409) => error,
            other => return other.map(drop),
        };
        // A change that leaves the owner references alone must not prevent the deletion, however
        // often it occurs.
        let Some(now) = self.live(node).await? else {
            return Ok(());
        };
        if owners(&now.metadata) == owners(&live.metadata) {
            return writer.delete_with(&now.metadata, by).await.map(drop);
        }
        Err(refused)
    }
}
