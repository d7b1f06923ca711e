//! An object in the graph.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::DynamicObject;
use kube::core::PartialObjectMeta;

use crate::discovery::Served;

/// The metadata of any object.
pub(super) type Meta = PartialObjectMeta<DynamicObject>;

/// The UID of an object.
pub(super) type Uid = Arc<str>;

/// Finalizer: wait until the dependents are gone.
pub(super) const FOREGROUND: &str = "foregroundDeletion";
/// Finalizer: wait until the dependents have no reference to this owner.
pub(super) const ORPHAN: &str = "orphan";

/// An object and its kind.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) kind: Arc<Served>,
    pub(super) object: Arc<Meta>,
}

impl Node {
    pub(super) fn uid(&self) -> &str {
        self.object.metadata.uid.as_deref().unwrap_or_default()
    }

    pub(super) fn name(&self) -> &str {
        self.object.metadata.name.as_deref().unwrap_or_default()
    }

    pub(super) fn namespace(&self) -> &str {
        self.object
            .metadata
            .namespace
            .as_deref()
            .unwrap_or_default()
    }

    pub(super) fn owners(&self) -> &[OwnerReference] {
        owners(&self.object.metadata)
    }

    pub(super) fn is_deleting(&self) -> bool {
        self.object.metadata.deletion_timestamp.is_some()
    }

    /// Whether it waits for the deletion of its dependents.
    pub(super) fn deletes_dependents(&self) -> bool {
        deletes_dependents(&self.object.metadata)
    }

    /// Whether it waits for the orphaning of its dependents.
    pub(super) fn orphans_dependents(&self) -> bool {
        self.is_deleting() && has_finalizer(&self.object.metadata, ORPHAN)
    }

    /// Whether it blocks the deletion of an owner.
    pub(super) fn blocks(&self, owner: &str) -> bool {
        self.owners()
            .iter()
            .any(|reference| reference.uid == owner && is_blocking(reference))
    }

    /// Whether it can own objects in a namespace. Namespaced owners are limited to their namespace;
    /// cluster-scoped ones are not.
    pub(super) fn reaches(&self, namespace: &str) -> bool {
        self.namespace().is_empty() || self.namespace() == namespace
    }

    /// Whether a reference in a namespace matches this object in more than its UID. The version is
    /// ignored: an object can be read in several.
    pub(super) fn is_meant_by(&self, reference: &OwnerReference, namespace: &str) -> bool {
        let group = reference
            .api_version
            .split_once('/')
            .map_or("", |(group, _)| group);
        reference.uid == self.uid()
            && reference.name == self.name()
            && reference.kind == self.kind.resource.kind
            && group == self.kind.resource.group
            && self.reaches(namespace)
    }
}

pub(super) fn owners(meta: &ObjectMeta) -> &[OwnerReference] {
    meta.owner_references.as_deref().unwrap_or_default()
}

pub(super) fn is_blocking(reference: &OwnerReference) -> bool {
    reference.block_owner_deletion == Some(true)
}

pub(super) fn has_finalizer(meta: &ObjectMeta, finalizer: &str) -> bool {
    let finalizers = meta.finalizers.as_deref().unwrap_or_default();
    finalizers.iter().any(|known| known == finalizer)
}

pub(super) fn deletes_dependents(meta: &ObjectMeta) -> bool {
    meta.deletion_timestamp.is_some() && has_finalizer(meta, FOREGROUND)
}
