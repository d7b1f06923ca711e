//! Whose an object is: adoption, release, and who is to hear of a change.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference};
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use runtime::{Absent, Cache, Change, Error, Key};
use serde_json::{Value, json};

use super::selector::{Selector, matches, selector};
use super::{Namespaced, controller_reference};

/// What is to be done about an object that an owner might have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Claim {
    /// It is the owner's and stays so.
    Keep,
    /// Nobody has it and the owner wants it.
    Adopt,
    /// The owner has it and does not want it any more.
    Release,
    /// It is no concern of the owner.
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

/// The term under which an index finds objects without a controller: their namespace.
pub(crate) fn orphaned_in(meta: &ObjectMeta) -> Vec<String> {
    match controller_of(meta) {
        Some(_) => Vec::new(),
        None => meta.namespace.clone().into_iter().collect(),
    }
}

/// Decides about one object. An owner that is to go keeps what it has and takes nothing.
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

/// Adopts and releases objects as the owner's selector wants it; the objects it then has. The cache
/// has seen the changes.
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

/// Makes sure that the owner is still there and is to stay, whatever a cache says: what is given to an
/// owner that is gone is collected with it.
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
        return Err(Error::Invalid(format!("{kind} {key} is to go")));
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

/// Changes the owners of this object and of no other of its name; nothing if it is gone.
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
    .or_absent()
    .map_err(Error::api(format!("{verb} {} {key}", K::kind(&()))))
}

/// The owners of a kind that are to hear of a change: those who had or have the object, and, if it
/// newly has none, those who might want it.
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
