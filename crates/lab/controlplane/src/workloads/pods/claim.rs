//! Adoption and release of objects, and the owners to enqueue for a change.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference};
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use runtime::{Absent, Cache, Change, Error, Key};
use serde_json::{Value, json};

use super::selector::{Selector, matches, selector};
use super::{Namespaced, controller_reference};

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

/// The controller of an object.
pub(crate) fn controller_of(meta: &ObjectMeta) -> Option<&OwnerReference> {
    let owners = meta.owner_references.as_deref()?;
    owners.iter().find(|owner| owner.controller == Some(true))
}

/// Whether `owner` controls an object.
pub(crate) fn is_controlled_by(meta: &ObjectMeta, owner: &ObjectMeta) -> bool {
    controller_of(meta).is_some_and(|controller| Some(&controller.uid) == owner.uid.as_ref())
}

/// The index key of objects without a controller: their namespace.
pub(crate) fn orphaned_in(meta: &ObjectMeta) -> Vec<String> {
    match controller_of(meta) {
        Some(_) => Vec::new(),
        None => meta.namespace.clone().into_iter().collect(),
    }
}

/// Decides about one object. An owner in deletion keeps its objects and adopts none.
pub(super) fn decide(owner: &ObjectMeta, object: &ObjectMeta, wanted: bool) -> Claim {
    let going = owner.deletion_timestamp.is_some();
    match controller_of(object) {
        Some(controller) if Some(&controller.uid) != owner.uid.as_ref() => Claim::Leave,
        Some(_) if wanted => Claim::Keep,
        Some(_) if going => Claim::Leave,
        Some(_) => Claim::Release,
        None if going || !wanted || object.deletion_timestamp.is_some() => Claim::Leave,
        None => Claim::Adopt,
    }
}

/// Adopts and releases objects by the owner's selector; returns the owner's objects. The cache has
/// the changes.
pub(crate) async fn claim<O: Namespaced, K: Namespaced>(
    client: &Client,
    cache: &Cache<K>,
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
            Claim::Release => release(client, cache, owner, &*object).await?,
            Claim::Adopt => {
                if !may_adopt {
                    check_alive(client, owner).await?;
                    may_adopt = true;
                }
                mine.extend(adopt(client, cache, owner, &*object).await?);
            }
        }
    }
    Ok(mine)
}

/// Verifies with the API server that the owner still exists and is not being deleted: an object
/// adopted by a deleted owner would be garbage collected.
async fn check_alive<O: Namespaced>(client: &Client, owner: &O) -> Result<(), Error> {
    let key = Key::of(owner.meta());
    let kind = O::kind(&());
    let api: Api<O> = Api::namespaced(client.clone(), &key.namespace);
    let live = api
        .get(&key.name)
        .await
        .map_err(Error::api(format!("get {kind} {key}")))?;
    if live.meta().uid != owner.meta().uid {
        return Err(Error::Invalid(format!(
            "original {kind} {key} is gone: got uid {}, wanted {}",
            live.meta().uid.as_deref().unwrap_or_default(),
            owner.meta().uid.as_deref().unwrap_or_default(),
        )));
    }
    if live.meta().deletion_timestamp.is_some() {
        return Err(Error::Invalid(format!("{kind} {key} is being deleted")));
    }
    Ok(())
}

/// The object with its new owner, unless it is gone.
async fn adopt<O: Namespaced, K: Namespaced>(
    client: &Client,
    cache: &Cache<K>,
    owner: &O,
    object: &K,
) -> Result<Option<Arc<K>>, Error> {
    let reference = controller_reference(owner);
    let patched = patch(client, object, "adopt", json!([reference])).await?;
    let Some(adopted) = patched else {
        return Ok(None);
    };
    cache.saw(&adopted).await;
    Ok(Some(Arc::new(adopted)))
}

async fn release<O: Namespaced, K: Namespaced>(
    client: &Client,
    cache: &Cache<K>,
    owner: &O,
    object: &K,
) -> Result<(), Error> {
    let gone = json!([{ "$patch": "delete", "uid": owner.meta().uid }]);
    match patch(client, object, "release", gone).await {
        Ok(Some(released)) => {
            cache.saw(&released).await;
            Ok(())
        }
        // Invalid: it has no owner any more, or it is another object of that name.
        Ok(None) => Ok(()),
        Err(error) if error.code() == Some(422) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Patches the owner references with a precondition on the UID; `None` if the object is gone.
async fn patch<K: Namespaced>(
    client: &Client,
    object: &K,
    verb: &str,
    owners: Value,
) -> Result<Option<K>, Error> {
    let key = Key::of(object.meta());
    let api: Api<K> = Api::namespaced(client.clone(), &key.namespace);
    let change = json!({
        "metadata": { "uid": object.meta().uid, "ownerReferences": owners }
    });
    api.patch(
        &key.name,
        &PatchParams::default(),
        &Patch::Strategic(change),
    )
    .await
    .not_found_as_none()
    .map_err(Error::api(format!("{verb} {} {key}", K::kind(&()))))
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
        let key = Key::new(
            meta.namespace.as_deref().unwrap_or_default(),
            &controller.name,
        );
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
    if controller_of(meta).is_some() || meta.deletion_timestamp.is_some() || as_before {
        return keys;
    }
    for owner in owners.in_namespace(meta.namespace.as_deref().unwrap_or_default()) {
        let read = selector_of(&owner).and_then(|written| selector(written).ok());
        if read.is_some_and(|read| !read.is_empty() && matches(&read, meta)) {
            keys.insert(Key::of(owner.meta()));
        }
    }
    keys
}
