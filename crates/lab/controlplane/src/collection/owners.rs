//! Existence of owners.

use std::collections::HashSet;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use runtime::Error;

use super::Collector;
use super::decide::OwnerState;
use super::node::{Node, deletes_dependents};

/// Number of absent owners that are cached; kube-controller-manager caches 500.
const ABSENT_CACHE_SIZE: usize = 4096;

/// Absent owners. UIDs are never reused, so entries stay valid.
#[derive(Default)]
pub(super) struct Gone(HashSet<Identity>);

/// The fields by which a reference identifies an object.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Identity {
    api_version: String,
    kind: String,
    namespace: String,
    name: String,
    uid: String,
}

impl Identity {
    fn meant(reference: &OwnerReference, namespace: &str) -> Self {
        Self {
            api_version: reference.api_version.clone(),
            kind: reference.kind.clone(),
            namespace: namespace.to_owned(),
            name: reference.name.clone(),
            uid: reference.uid.clone(),
        }
    }
}

impl Gone {
    /// Records a deleted object.
    pub(super) fn saw(&mut self, node: &Node) {
        self.add(Identity {
            api_version: node.kind.resource.api_version.clone(),
            kind: node.kind.resource.kind.clone(),
            namespace: node.namespace().to_owned(),
            name: node.name().to_owned(),
            uid: node.uid().to_owned(),
        });
    }

    fn add(&mut self, identity: Identity) {
        // Dropped as a whole: an entry that is missing costs one request, and deletions come in
        // bursts whose entries are of no use afterwards.
        if self.0.len() >= ABSENT_CACHE_SIZE {
            self.0.clear();
        }
        self.0.insert(identity);
    }

    fn has(&self, reference: &OwnerReference, namespace: &str) -> bool {
        // Without checking whether its kind is namespaced: it may not be served any more.
        self.0.contains(&Identity::meant(reference, ""))
            || self.0.contains(&Identity::meant(reference, namespace))
    }
}

/// State of an owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    /// It was determined.
    Stands(OwnerState),
    /// Its kind is not served, or not yet.
    UnknownKind,
    /// Its kind is namespaced, and the dependent is cluster-scoped.
    OutOfReach,
}

impl Collector {
    /// The state of the owner that a dependent in a namespace references. Only the API server
    /// decides that it is absent, not a cache.
    pub(super) async fn owner(
        &self,
        reference: &OwnerReference,
        namespace: &str,
    ) -> Result<Owner, Error> {
        if let Some(owner) = self.shared.graph.lock().node(&reference.uid)
            && owner.is_meant_by(reference, namespace)
        {
            return Ok(Owner::Stands(standing(owner.deletes_dependents())));
        }
        if self.shared.gone.lock().has(reference, namespace) {
            return Ok(Owner::Stands(OwnerState::Dangling));
        }
        let kinds = Arc::clone(&self.shared.kinds.read());
        let Some(kind) = kinds
            .named(&reference.api_version, &reference.kind)
            .filter(|kind| kind.can(&["get"]))
        else {
            return Ok(Owner::UnknownKind);
        };
        if kind.namespaced && namespace.is_empty() {
            return Ok(Owner::OutOfReach);
        }
        let namespace = if kind.namespaced { namespace } else { "" };
        let found = self.get(kind, namespace, &reference.name).await?;
        // An object of the same name with another UID is another object, and does not keep the
        // dependents of the first.
        let meant = found.filter(|found| found.metadata.uid.as_ref() == Some(&reference.uid));
        let Some(owner) = meant else {
            let identity = Identity::meant(reference, namespace);
            self.shared.gone.lock().add(identity);
            return Ok(Owner::Stands(OwnerState::Dangling));
        };
        Ok(Owner::Stands(standing(deletes_dependents(&owner.metadata))))
    }
}

fn standing(deletes_dependents: bool) -> OwnerState {
    if deletes_dependents {
        OwnerState::Waiting
    } else {
        OwnerState::Solid
    }
}
