//! The objects of one kind, kept current by one shared watch.
//!
//! A controller that acts on a stale cache acts twice. kube-controller-manager guards against that with
//! expectations (`pkg/controller/controller_utils.go`); here a controller waits until the cache has
//! observed its writes ([`Cache::saw`], [`Cache::wait_for_deletion`]). That is exact because resource
//! versions are numbers from one counter for all objects.

mod index;
mod reflect;
mod state;
mod wire;

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Api;
use parking_lot::{Mutex, RwLock};
use serde::de::DeserializeOwned;
use tokio::sync::watch;

use crate::Key;
pub use index::Index;
use reflect::CacheTarget;
use state::State;
use wire::{Selection, Wire};

/// A kind that can be cached.
pub trait Kind:
    kube::Resource + Clone + DeserializeOwned + std::fmt::Debug + Send + Sync + 'static
{
}

impl<K> Kind for K where
    K: kube::Resource + Clone + DeserializeOwned + std::fmt::Debug + Send + Sync + 'static
{
}

/// A change of one object.
#[derive(Debug, Clone)]
pub struct Change<K> {
    /// The previous object; `None` if it was created.
    pub old: Option<Arc<K>>,
    /// The current object; `None` if it was deleted.
    pub new: Option<Arc<K>>,
}

impl<K> Change<K> {
    /// The current object, or the last one if it was deleted.
    pub fn object(&self) -> Option<&Arc<K>> {
        self.new.as_ref().or(self.old.as_ref())
    }

    /// The previous and the current object.
    pub fn sides(&self) -> impl Iterator<Item = &Arc<K>> {
        self.old.iter().chain(&self.new)
    }
}

/// An object that the API server returned and that its Rust type cannot hold: a field of another type,
/// for example, from a CRD of another version.
#[derive(Debug, Clone)]
pub struct Undecodable {
    /// The metadata of the object.
    pub metadata: ObjectMeta,
    /// Why it cannot be decoded.
    pub error: String,
}

/// How far a cache has followed the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Progress {
    /// Whether the first list has completed.
    listed: bool,
    /// All changes up to this resource version have been observed.
    revision: u64,
    /// Grows with every change, also those without a resource version of their own.
    changes: u64,
    /// Whether the cache is closed: it observes no further changes.
    ended: bool,
    /// What the server answered instead of a list, if it did.
    refusal: Refusal,
}

/// What a server answers instead of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Refusal {
    /// Nothing: it has listed the objects, or has not answered yet.
    #[default]
    None,
    /// The kind is not served.
    NotServed,
    /// The request is rejected.
    Rejected,
}

/// The objects of one kind; clones share them.
pub struct Cache<K> {
    shared: Arc<Shared<K>>,
}

struct Shared<K> {
    state: RwLock<State<K>>,
    progress: watch::Sender<Progress>,
    /// Why the server rejected the last list or watch; empty if it did not.
    rejection: Mutex<Option<String>>,
}

impl<K> Clone for Cache<K> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<K: Kind> Cache<K> {
    /// An empty cache, and the reflector that fills it through `api` and keeps it current while it
    /// runs.
    ///
    /// [`Manager::cache`](crate::Manager::cache) does this for kinds known at compile time; use this
    /// for kinds found at run time (`PartialObjectMeta<DynamicObject>`, for example).
    pub fn follow(api: Api<K>) -> (Self, impl Future<Output = ()> + Send + 'static) {
        // Managed fields are about half of an object, and hardly any controller reads them.
        Self::follow_with(api, |object| object.meta_mut().managed_fields = None)
    }

    /// Like [`Cache::follow`] for the objects of one name, as RBAC may grant access to these alone.
    pub fn follow_named(
        api: Api<K>,
        name: &str,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let selection = Selection::by_fields(format!("metadata.name={name}"));
        Self::follow_selected(api, selection, |object| {
            object.meta_mut().managed_fields = None;
        })
    }

    /// Like [`Cache::follow`] for the objects a field selector selects.
    pub fn follow_matching(
        api: Api<K>,
        fields: &str,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let selection = Selection::by_fields(fields.to_owned());
        Self::follow_selected(api, selection, |object| {
            object.meta_mut().managed_fields = None;
        })
    }

    /// Like [`Cache::follow_with`] for the objects a label selector selects.
    pub fn follow_labelled(
        api: Api<K>,
        labels: &str,
        trim: impl Fn(&mut K) + Send + Sync + 'static,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        Self::follow_selected(api, Selection::by_labels(labels.to_owned()), trim)
    }

    /// Like [`Cache::follow`]; `trim` drops parts of each object before it is stored.
    pub fn follow_with(
        api: Api<K>,
        trim: impl Fn(&mut K) + Send + Sync + 'static,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        Self::follow_selected(api, Selection::default(), trim)
    }

    fn follow_selected(
        api: Api<K>,
        selection: Selection,
        trim: impl Fn(&mut K) + Send + Sync + 'static,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let cache = Self {
            shared: Arc::new(Shared {
                state: RwLock::new(State::default()),
                progress: watch::Sender::new(Progress::default()),
                rejection: Mutex::default(),
            }),
        };
        let target = CacheTarget::new(cache.clone(), trim);
        let running = reflect::run(Box::new(target), Wire::new(api, selection));
        (cache, running)
    }

    /// An object by namespace and name.
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<K>> {
        self.find(&Key::new(namespace, name))
    }

    /// An object by key.
    pub fn find(&self, key: &Key) -> Option<Arc<K>> {
        self.shared.state.read().objects.get(key).cloned()
    }

    /// All objects, ordered by namespace and name.
    pub fn list(&self) -> Vec<Arc<K>> {
        self.shared.state.read().objects.values().cloned().collect()
    }

    /// All objects of a namespace, ordered by name.
    pub fn in_namespace(&self, namespace: &str) -> Vec<Arc<K>> {
        self.shared.state.read().in_namespace(namespace)
    }

    /// Objects whose controller owner reference has this uid.
    pub fn controlled_by(&self, uid: &str) -> Vec<Arc<K>> {
        self.shared.state.read().controlled_by(uid)
    }

    /// The number of objects.
    pub fn len(&self) -> usize {
        self.shared.state.read().objects.len()
    }

    /// Whether there are no objects.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Indexes the objects by terms. Create an index once, not per query.
    pub fn index(&self, terms: fn(&K) -> Vec<String>) -> Index<K> {
        let slot = self.shared.state.write().add_index(terms);
        Index::new(self.clone(), slot)
    }

    /// Calls `notify` for every change, in order, after the cache shows it, and first for each object
    /// already present. The reflector waits for it: add a key to a queue and return.
    pub fn on_change(&self, notify: impl Fn(&Change<K>) + Send + Sync + 'static) {
        let mut state = self.shared.state.write();
        // Under the write lock: a change between this loop and the push would otherwise reach no listener, and its
        // object would be reconciled only after the next change. `notify` must therefore not read this cache.
        for object in state.objects.values() {
            notify(&Change {
                old: None,
                new: Some(Arc::clone(object)),
            });
        }
        state.listeners.push(Arc::new(notify));
    }

    /// Calls `notify` when an object cannot be decoded, and when the reason changes; first for those already
    /// known. The cache keeps the last state that could be decoded, if there was one.
    pub fn on_undecodable(&self, notify: impl Fn(&Undecodable) + Send + Sync + 'static) {
        let mut state = self.shared.state.write();
        state.undecodable.values().for_each(&notify);
        state.undecodable_listeners.push(Arc::new(notify));
    }

    /// The number of objects whose current state cannot be decoded.
    pub fn undecodable_len(&self) -> usize {
        self.shared.state.read().undecodable.len()
    }

    /// Whether the first list has completed.
    pub fn is_synced(&self) -> bool {
        self.shared.progress.borrow().listed
    }

    /// Whether the kind was not served at the last request.
    pub fn is_absent(&self) -> bool {
        self.shared.progress.borrow().refusal == Refusal::NotServed
    }

    /// Whether the cache is closed because the kind is no longer served. Waiting on such a cache
    /// returns at once.
    pub fn has_ended(&self) -> bool {
        self.shared.progress.borrow().ended
    }

    /// Why the API server rejects requests for the kind, if it does: a missing permission, or a conversion webhook that
    /// does not answer. The reflector keeps trying.
    pub fn rejection(&self) -> Option<String> {
        self.shared.rejection.lock().clone()
    }

    /// Waits until the first list has completed, or the server has answered that it will not: the kind is not served,
    /// or the request is rejected.
    pub async fn answered(&self) {
        self.wait(|progress| progress.listed || progress.refusal != Refusal::None)
            .await;
    }

    /// Waits until the first list has completed.
    pub async fn synced(&self) {
        self.wait(|progress| progress.listed).await;
    }

    /// Waits until the first list has completed, or the server has answered that the kind is not
    /// served.
    pub async fn settled(&self) {
        self.wait(|progress| progress.listed || progress.refusal == Refusal::NotServed)
            .await;
    }

    /// Waits until the cache has observed a write, given the server's response to it or its metadata.
    pub async fn saw(&self, written: &impl kube::Resource) {
        let Some(revision) = revision(written.meta()) else {
            return;
        };
        self.wait(|progress| progress.listed && progress.revision >= revision)
            .await;
    }

    /// Waits until the cache has observed that an object is deleted or terminating.
    pub async fn wait_for_deletion(&self, deleted: &ObjectMeta) {
        self.shows(&Key::of(deleted), |object| {
            object.is_none_or(|object| {
                // A terminating object counts: with finalizers it may exist for hours, and the caller's write, the
                // deletion, has been observed. Another UID means that the object is gone and its name in use again.
                object.meta().uid != deleted.uid || object.meta().deletion_timestamp.is_some()
            })
        })
        .await;
    }

    /// Waits until an object in the cache satisfies a predicate. For writes whose response has no
    /// resource version to wait for: removing the last finalizer may delete the object.
    pub async fn shows(&self, key: &Key, holds: impl Fn(Option<&K>) -> bool) {
        let shared = &self.shared;
        self.wait(|progress| {
            progress.listed && holds(shared.state.read().objects.get(key).map(|object| &**object))
        })
        .await;
    }

    async fn wait(&self, mut enough: impl FnMut(&Progress) -> bool) {
        let mut progress = self.shared.progress.subscribe();
        // Fails only when the sender is dropped, and `self` holds it.
        let _ = progress
            // A closed cache never observes anything again. Waiting for it would block the worker for ever; the
            // reconcile goes on, finds the kind absent, and is requeued when it returns.
            .wait_for(|progress| progress.ended || enough(progress))
            .await;
    }
}

/// The resource version of an object as a number.
// Kubernetes long declared resource versions opaque. Since KEP-5504 clients may compare those of one resource as
// numbers, and etcd has one counter for all. A server with other versions would parse as `None`: `saw` then returns
// at once, and controllers are as stale as those of client-go, but not stuck.
fn revision(meta: &ObjectMeta) -> Option<u64> {
    meta.resource_version.as_deref()?.parse().ok()
}

#[cfg(test)]
mod tests;
