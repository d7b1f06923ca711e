//! The objects of one kind, kept current by one watch that everybody shares.
//!
//! A controller that acts on an old picture does things twice. kube-controller-manager counts what
//! it expects to see; here a controller waits until the cache has seen what it wrote
//! ([`Cache::saw`], [`Cache::saw_deletion`]), which revisions make exact: they are numbers, and
//! one counter for all objects.

mod index;
mod reflect;
mod state;
mod wire;

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Api;
use parking_lot::RwLock;
use serde::de::DeserializeOwned;
use tokio::sync::watch;

use crate::Key;
pub use index::Index;
use reflect::Filling;
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

/// What happened to one object.
#[derive(Debug, Clone)]
pub struct Change<K> {
    /// What it was, unless it is new.
    pub old: Option<Arc<K>>,
    /// What it is, unless it is gone.
    pub new: Option<Arc<K>>,
}

impl<K> Change<K> {
    /// The object, as it is or as it last was.
    pub fn object(&self) -> Option<&Arc<K>> {
        self.new.as_ref().or(self.old.as_ref())
    }

    /// Both sides of the change.
    pub fn sides(&self) -> impl Iterator<Item = &Arc<K>> {
        self.old.iter().chain(&self.new)
    }
}

/// How far a cache has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Progress {
    /// Whether everything has been listed once.
    listed: bool,
    /// Everything up to this revision has been seen.
    revision: u64,
    /// Grows with every change, also those without a revision of their own.
    changes: u64,
    /// Whether nothing will be seen any more.
    ended: bool,
    /// Whether the kind was not served when it was last asked for.
    absent: bool,
}

/// The objects of one kind; clones share them.
pub struct Cache<K> {
    shared: Arc<Shared<K>>,
}

struct Shared<K> {
    state: RwLock<State<K>>,
    progress: watch::Sender<Progress>,
}

impl<K> Clone for Cache<K> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<K: Kind> Cache<K> {
    /// An empty cache, and what fills it through `api` and keeps it current for as long as it runs.
    ///
    /// [`Manager::cache`](crate::Manager::cache) does this for kinds known at compile time; a cache
    /// of kinds found at run time (`PartialObjectMeta<DynamicObject>`, say) is made here.
    pub fn follow(api: Api<K>) -> (Self, impl Future<Output = ()> + Send + 'static) {
        // What hardly any controller reads: managed fields are half of an object.
        Self::follow_with(api, |object| object.meta_mut().managed_fields = None)
    }

    /// The same for the objects of one name. Somebody may be allowed to see these and no others.
    pub fn follow_named(
        api: Api<K>,
        name: &str,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let selection = Selection::by_fields(format!("metadata.name={name}"));
        Self::follow_selected(api, selection, |object| {
            object.meta_mut().managed_fields = None;
        })
    }

    /// The same for the objects that a field selector selects.
    pub fn follow_matching(
        api: Api<K>,
        fields: &str,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let selection = Selection::by_fields(fields.to_owned());
        Self::follow_selected(api, selection, |object| {
            object.meta_mut().managed_fields = None;
        })
    }

    /// The same for the objects that a label selector selects, with a say in what is kept of them.
    pub fn follow_labelled(
        api: Api<K>,
        labels: &str,
        trim: impl Fn(&mut K) + Send + Sync + 'static,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        Self::follow_selected(api, Selection::by_labels(labels.to_owned()), trim)
    }

    /// The same, with a say in what is kept of an object.
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
            }),
        };
        let filling = Filling::new(cache.clone(), trim);
        let running = reflect::run(Box::new(filling), Wire::new(api, selection));
        (cache, running)
    }

    /// One object.
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<K>> {
        self.find(&Key::new(namespace, name))
    }

    /// One object.
    pub fn find(&self, key: &Key) -> Option<Arc<K>> {
        self.shared.state.read().objects.get(key).cloned()
    }

    /// All objects, by namespace and name.
    pub fn list(&self) -> Vec<Arc<K>> {
        self.shared.state.read().objects.values().cloned().collect()
    }

    /// All objects of a namespace, by name.
    pub fn in_namespace(&self, namespace: &str) -> Vec<Arc<K>> {
        self.shared.state.read().in_namespace(namespace)
    }

    /// Objects whose controller has this uid.
    pub fn controlled_by(&self, uid: &str) -> Vec<Arc<K>> {
        self.shared.state.read().controlled_by(uid)
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.shared.state.read().objects.len()
    }

    /// Whether there are no objects.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Finds objects by something they say. Make an index once, not for every question.
    pub fn index(&self, terms: fn(&K) -> Vec<String>) -> Index<K> {
        let slot = self.shared.state.write().add_index(terms);
        Index::new(self.clone(), slot)
    }

    /// Has every change told to somebody, in order, after the cache shows it; all there is now is
    /// told first. The cache waits meanwhile: tell a queue and return.
    pub fn on_change(&self, tell: impl Fn(&Change<K>) + Send + Sync + 'static) {
        let mut state = self.shared.state.write();
        for object in state.objects.values() {
            tell(&Change {
                old: None,
                new: Some(Arc::clone(object)),
            });
        }
        state.listeners.push(Arc::new(tell));
    }

    /// Whether everything has been listed once.
    pub fn is_synced(&self) -> bool {
        self.shared.progress.borrow().listed
    }

    /// Whether the kind was not served when it was last asked for: there is nothing to list.
    pub fn is_absent(&self) -> bool {
        self.shared.progress.borrow().absent
    }

    /// Whether nothing will be seen any more: the kind is not served. Who waits for such a cache
    /// waits no longer.
    pub fn has_ended(&self) -> bool {
        self.shared.progress.borrow().ended
    }

    /// Waits until everything has been listed once.
    pub async fn synced(&self) {
        self.wait(|progress| progress.listed).await;
    }

    /// Waits until everything has been listed once, or the server has said that the kind is not served.
    pub async fn settled(&self) {
        self.wait(|progress| progress.listed || progress.absent)
            .await;
    }

    /// Waits until the cache has seen a write, given what the server answered to it, or some of that.
    pub async fn saw(&self, written: &impl kube::Resource) {
        let Some(revision) = revision(written.meta()) else {
            return;
        };
        self.wait(|progress| progress.listed && progress.revision >= revision)
            .await;
    }

    /// Waits until the cache has seen that an object is gone, or on its way out.
    pub async fn saw_deletion(&self, deleted: &ObjectMeta) {
        self.shows(&Key::of(deleted), |object| {
            object.is_none_or(|object| {
                object.meta().uid != deleted.uid || object.meta().deletion_timestamp.is_some()
            })
        })
        .await;
    }

    /// Waits until the cache shows an object as told. That is for writes whose answer has no
    /// revision to wait for: taking the last finalizer away may delete the object.
    pub async fn shows(&self, key: &Key, holds: impl Fn(Option<&K>) -> bool) {
        let shared = &self.shared;
        self.wait(|progress| {
            progress.listed && holds(shared.state.read().objects.get(key).map(|object| &**object))
        })
        .await;
    }

    async fn wait(&self, mut enough: impl FnMut(&Progress) -> bool) {
        let mut progress = self.shared.progress.subscribe();
        // An error means that the sender is gone; this very cache holds it.
        let _ = progress
            .wait_for(|progress| progress.ended || enough(progress))
            .await;
    }
}

/// The revision an object was written at.
fn revision(meta: &ObjectMeta) -> Option<u64> {
    meta.resource_version.as_deref()?.parse().ok()
}

#[cfg(test)]
mod tests;
