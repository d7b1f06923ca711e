//! Adoption and release of objects, and the owners to enqueue for a change.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use kube::Client;
use runtime::{Absent as _, Cache, Change, Error, Index, Key, Manager, Writer};
use serde_json::json;

use super::Namespaced;
use super::selector::{Selector, matches, selector};
use crate::object::{controller_of, controller_reference, is_leaving, namespace, uid};

/// The action on an object that may belong to an owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Claim {
    /// The owner controls it and it matches.
    Keep,
    /// It has no controller and matches.
    Adopt,
    /// The owner controls it and it no longer matches.
    Release,
    /// It does not belong to the owner.
    Leave,
}

/// Decides about one object. An owner in deletion keeps its objects and adopts none.
pub(super) fn decide(owner: &ObjectMeta, object: &ObjectMeta, wanted: bool) -> Claim {
    let going = is_leaving(owner);
    match controller_of(object) {
        Some(controller) if Some(&controller.uid) != owner.uid.as_ref() => Claim::Leave,
        Some(_) if wanted => Claim::Keep,
        Some(_) if going => Claim::Leave,
        Some(_) => Claim::Release,
        None if going || !wanted || is_leaving(object) => Claim::Leave,
        None => Claim::Adopt,
    }
}

/// The objects of one kind that controllers own: lookup, adoption and release. The cache has every
/// change before an operation returns.
#[derive(Clone)]
pub(crate) struct Claims<K> {
    client: Client,
    pub(crate) cache: Cache<K>,
    pub(crate) writer: Writer<K>,
    orphans: Index<K>,
    finalizer: Option<&'static str>,
}

impl<K: Namespaced> Claims<K> {
    pub(crate) fn new(manager: &Manager) -> Self {
        let cache = manager.cache::<K>();
        let orphans = cache.index(|object| match controller_of(object.meta()) {
            Some(_) => Vec::new(),
            None => object.meta().namespace.clone().into_iter().collect(),
        });
        Self {
            client: manager.client(),
            writer: Writer::namespaced(manager.client()).shown_by(&cache),
            orphans,
            cache,
            finalizer: None,
        }
    }

    /// Adopted objects get this finalizer, like created ones.
    pub(crate) fn with_finalizer(self, finalizer: &'static str) -> Self {
        Self {
            finalizer: Some(finalizer),
            ..self
        }
    }

    /// The objects of an owner, and those in its namespace without a controller.
    pub(crate) fn around(&self, owner: &ObjectMeta) -> Vec<Arc<K>> {
        let mut objects = self.cache.controlled_by(uid(owner));
        objects.extend(self.orphans.find(namespace(owner)));
        objects
    }

    /// The objects of an owner that its selector matches.
    pub(crate) fn owned(&self, owner: &ObjectMeta, selector: &Selector) -> Vec<Arc<K>> {
        let mut objects = self.cache.controlled_by(uid(owner));
        objects.retain(|object| matches(selector, object.meta()));
        objects
    }

    /// Adopts matching objects without a controller and releases those that no longer match; returns
    /// the owner's objects.
    pub(crate) async fn claim<O: Namespaced>(
        &self,
        owner: &O,
        selector: &Selector,
        objects: Vec<Arc<K>>,
    ) -> Result<Vec<Arc<K>>, Error> {
        let mut mine = Vec::with_capacity(objects.len());
        let mut may_adopt = false;
        for object in objects {
            let wanted = matches(selector, object.meta());
            match decide(owner.meta(), object.meta(), wanted) {
                Claim::Keep => mine.push(object),
                Claim::Leave => {}
                Claim::Release => self.release(owner, &*object).await?,
                Claim::Adopt => {
                    // Once per reconcile, and only if there is something to adopt
                    // (`RecheckDeletionTimestamp` in `pkg/controller/controller_ref_manager.go`).
                    if !may_adopt {
                        check_alive(&self.client, owner).await?;
                        may_adopt = true;
                    }
                    mine.extend(self.adopt(owner, &*object).await?.map(Arc::new));
                }
            }
        }
        Ok(mine)
    }

    /// The object with its new owner, unless it is gone.
    async fn adopt<O: Namespaced>(&self, owner: &O, object: &K) -> Result<Option<K>, Error> {
        let mut patch = json!({ "metadata": {
            "uid": object.meta().uid,
            "ownerReferences": [controller_reference(owner)],
        } });
        if let Some(finalizer) = self.finalizer {
            patch["metadata"]["finalizers"] = json!([finalizer]);
        }
        let key = Key::of(object.meta());
        let adopted = self.writer.strategic_merge(&key, &patch).await;
        adopted.not_found_as_none()
    }

    async fn release<O: Namespaced>(&self, owner: &O, object: &K) -> Result<(), Error> {
        let patch = json!({ "metadata": {
            "uid": object.meta().uid,
            "ownerReferences": [{ "$patch": "delete", "uid": owner.meta().uid }],
        } });
        let key = Key::of(object.meta());
        match self.writer.strategic_merge(&key, &patch).await {
            // Invalid: it has no owner any more, or it is another object of that name.
            Err(error) if matches!(error.code(), Some(404 | 422)) => Ok(()),
            released => released.map(drop),
        }
    }
}

/// Verifies with the API server that the owner still exists and is not being deleted: an object
/// adopted by a deleted owner would be garbage collected.
async fn check_alive<O: Namespaced>(client: &Client, owner: &O) -> Result<(), Error> {
    let key = Key::of(owner.meta());
    let kind = O::kind(&());
    let live = Writer::<O>::namespaced(client.clone()).get(&key).await?;
    let found = live.as_ref().map_or("none", |live| uid(live.meta()));
    if found != uid(owner.meta()) {
        return Err(Error::Invalid(format!(
            "original {kind} {key} is gone: got uid {found}, wanted {}",
            uid(owner.meta()),
        )));
    }
    if live.is_some_and(|live| is_leaving(live.meta())) {
        return Err(Error::Invalid(format!("{kind} {key} is being deleted")));
    }
    Ok(())
}

/// The owners of a kind to enqueue for a change: the previous and current controller and, if the
/// object is newly orphaned, those whose selector matches.
pub(crate) fn concerned<O: Namespaced, K: Namespaced>(
    owners: &Cache<O>,
    selector_of: impl Fn(&O) -> Option<&LabelSelector>,
    change: &Change<K>,
) -> BTreeSet<Key> {
    let kind = O::kind(&());
    let mut keys = BTreeSet::new();
    for side in change.sides() {
        let meta = side.meta();
        let Some(controller) = controller_of(meta).filter(|owner| owner.kind == kind) else {
            continue;
        };
        let key = Key::new(namespace(meta), &controller.name);
        let known = owners.find(&key);
        if known.is_some_and(|owner| owner.meta().uid.as_ref() == Some(&controller.uid)) {
            keys.insert(key);
        }
    }
    let Some(new) = &change.new else {
        return keys;
    };
    let meta = new.meta();
    let as_before = change
        .old
        .as_ref()
        .is_some_and(|old| old.meta().labels == meta.labels && controller_of(old.meta()).is_none());
    if controller_of(meta).is_some() || is_leaving(meta) || as_before {
        return keys;
    }
    for owner in owners.in_namespace(namespace(meta)) {
        let read = selector_of(&owner).and_then(|written| selector(written).ok());
        if read.is_some_and(|read| !read.is_empty() && matches(&read, meta)) {
            keys.insert(Key::of(owner.meta()));
        }
    }
    keys
}
