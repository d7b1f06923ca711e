//! Kinds that may not be installed: those of other operators, found at run time.
//!
//! ```text
//! follow(kind) ----> wanted ---.
//!                               KindWatcher --starts and stops--> Cache --> on_change
//! CRDs, discovery -------------'
//! ```
//!
//! A kind that is not installed is not an error. It is watched when it is installed, dropped when it is
//! removed, and watched again when it comes back, without a restart. Kinds with a
//! CustomResourceDefinition are tracked by it; those without one (built-in, or of an aggregated API
//! server) are looked up through discovery.

mod installed;
mod keeper;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::DynamicObject;
use kube::core::GroupVersionKind;
use kube::discovery::ApiResource;
use kube::{Api, Client, Resource};
use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot, watch};

use crate::{Cache, Change, Error, Index, Key, Writer};
pub use installed::Installed;
use keeper::KindWatcher;

/// How long [`OptionalKinds::open`] waits for the objects of a kind.
// A worker waits meanwhile. Longer would block the queue behind one kind whose conversion webhook is down; the error
// requeues the object with backoff instead.
const OPEN_TIMEOUT: Duration = Duration::from_secs(10);

/// A change of a watched kind or of one of its objects.
#[derive(Debug, Clone, Copy)]
pub enum OptionalKindChange<'a> {
    /// The kind is installed; notifications of its objects follow.
    Appeared(&'a GroupVersionKind),
    /// The CRD of the kind changed, for example its schema.
    Redefined(&'a GroupVersionKind),
    /// The kind is no longer served; deletions of all its objects were sent before.
    Disappeared(&'a GroupVersionKind),
    /// An object was created, updated or deleted.
    Object {
        /// The kind, in the version that is watched.
        kind: &'a GroupVersionKind,
        /// Namespace and name of the object.
        key: &'a Key,
        /// The previous and the current object.
        change: &'a Change<DynamicObject>,
    },
}

impl OptionalKindChange<'_> {
    /// The kind that changed or whose object changed.
    pub fn kind(&self) -> &GroupVersionKind {
        match self {
            Self::Appeared(kind)
            | Self::Redefined(kind)
            | Self::Disappeared(kind)
            | Self::Object { kind, .. } => kind,
        }
    }
}

type Listener = Arc<dyn Fn(&OptionalKindChange<'_>) + Send + Sync>;

/// Kinds that may not be installed, and their objects; clones share them.
///
/// Obtained from [`Manager::optional_kinds`](crate::Manager::optional_kinds).
#[derive(Clone)]
pub struct OptionalKinds {
    shared: Arc<Shared>,
}

struct Shared {
    client: Client,
    definitions: Cache<CustomResourceDefinition>,
    by_kind: Index<CustomResourceDefinition>,
    state: Mutex<State>,
    /// Notified when a kind is requested or a CRD changes.
    wake: Notify,
    /// Notified when the state of a kind has been determined.
    settled: watch::Sender<()>,
}

#[derive(Default)]
struct State {
    wanted: BTreeMap<Wanted, KindState>,
    listeners: Vec<Listener>,
}

/// A kind in a version; ordered, so that kinds are processed in the same order every time.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Wanted {
    group: String,
    kind: String,
    version: String,
}

impl Wanted {
    fn new(kind: &GroupVersionKind) -> Self {
        Self {
            group: kind.group.clone(),
            kind: kind.kind.clone(),
            version: kind.version.clone(),
        }
    }

    fn kind(&self) -> GroupVersionKind {
        GroupVersionKind::gvk(&self.group, &self.version, &self.kind)
    }
}

/// The state of a requested kind.
#[derive(Default)]
enum KindState {
    /// Not determined yet.
    #[default]
    Unknown,
    /// Not served.
    Absent,
    /// Served and watched.
    Followed(Followed),
}

/// A watched kind.
struct Followed {
    served: Served,
    cache: Cache<DynamicObject>,
    /// Stops the watch when dropped.
    stop: oneshot::Sender<()>,
    /// Ready when the watch has stopped and the deletions of all objects were sent.
    ended: oneshot::Receiver<()>,
}

/// How a kind is served.
struct Served {
    resource: ApiResource,
    namespaced: bool,
    /// The CRD, if the kind has one.
    definition: Option<Arc<CustomResourceDefinition>>,
}

impl OptionalKinds {
    /// No watches yet; the future watches requested kinds while it runs.
    pub(crate) fn new(
        client: Client,
        definitions: Cache<CustomResourceDefinition>,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let shared = Arc::new(Shared {
            client,
            by_kind: definitions.index(installed::terms),
            definitions,
            state: Mutex::default(),
            wake: Notify::new(),
            settled: watch::Sender::new(()),
        });
        // Weak, because the cache of CRDs owns this listener and `shared` owns the cache: a strong reference would be
        // a cycle that is never freed.
        let weak = Arc::downgrade(&shared);
        shared.definitions.on_change(move |_| {
            if let Some(shared) = weak.upgrade() {
                shared.wake.notify_one();
            }
        });
        let keeper = KindWatcher::new(Arc::clone(&shared));
        (Self { shared }, keeper.run())
    }

    /// A kind that has an established CRD. Built-in kinds have none.
    ///
    /// Call after [`OptionalKinds::synced`]: before, the CRDs are not known.
    pub fn kind(&self, group: &str, kind: &str) -> Option<Installed> {
        self.shared.installed(group, kind)
    }

    /// Requests a kind: it is watched as soon as it is installed.
    pub fn follow(&self, kind: &GroupVersionKind) {
        let mut state = self.shared.state.lock();
        state.wanted.entry(Wanted::new(kind)).or_insert_with(|| {
            self.shared.wake.notify_one();
            KindState::Unknown
        });
    }

    /// The objects of a kind, if it is watched now. The first call requests the kind; [`OptionalKinds::open`]
    /// waits until its state is determined.
    pub fn cache(&self, kind: &GroupVersionKind) -> Option<Cache<DynamicObject>> {
        self.follow(kind);
        self.shared.followed(kind, |one| one.cache.clone())
    }

    /// The objects of a kind, completely listed; `None` if the kind is not installed.
    ///
    /// Fails if the API server does not answer within ten seconds.
    pub async fn open(
        &self,
        kind: &GroupVersionKind,
    ) -> Result<Option<Cache<DynamicObject>>, Error> {
        self.follow(kind);
        let mut news = self.shared.settled.subscribe();
        let known = async {
            loop {
                // Before the state is read: a change after it wakes the loop. The other way round, one that happens
                // between reading and waiting would be missed, and `open` would run into its timeout.
                news.mark_unchanged();
                if self.shared.is_absent(kind) {
                    return None;
                }
                if let Some(cache) = self.cache(kind) {
                    cache.synced().await;
                    if !cache.has_ended() {
                        return Some(cache);
                    }
                    // The kind was removed, or its CRD replaced, while it was listed: the new state decides whether
                    // it is absent or has another cache.
                    continue;
                }
                if news.changed().await.is_err() {
                    return None;
                }
            }
        };
        tokio::time::timeout(OPEN_TIMEOUT, known)
            .await
            .map_err(|_| {
                Error::Late(format!(
                    "listing {} ({}): no answer within {} s",
                    kind.kind,
                    kind.api_version(),
                    OPEN_TIMEOUT.as_secs()
                ))
            })
    }

    /// An API client for a watched kind: in a namespace, or in all.
    pub fn api(
        &self,
        kind: &GroupVersionKind,
        namespace: Option<&str>,
    ) -> Option<Api<DynamicObject>> {
        self.follow(kind);
        let client = self.shared.client.clone();
        self.shared.followed(kind, |one| {
            let resource = &one.served.resource;
            match namespace.filter(|_| one.served.namespaced) {
                Some(namespace) => Api::namespaced_with(client, namespace, resource),
                None => Api::all_with(client, resource),
            }
        })
    }

    /// Writes objects of a watched kind, in a namespace or in all, and waits until its cache shows them;
    /// `None` if the kind is not watched now.
    pub fn writer(
        &self,
        kind: &GroupVersionKind,
        namespace: Option<&str>,
        manager: &str,
    ) -> Option<Writer<DynamicObject>> {
        let api = self.api(kind, namespace)?;
        let cache = self.cache(kind)?;
        Some(Writer::of_kind(api, &kind.kind, manager).shown_by(&cache))
    }

    /// The API resource of a watched kind, and whether it is namespaced.
    pub fn resource(&self, kind: &GroupVersionKind) -> Option<(ApiResource, bool)> {
        self.follow(kind);
        self.shared.followed(kind, |one| {
            (one.served.resource.clone(), one.served.namespaced)
        })
    }

    /// Calls `notify` for every change of every watched kind, also of kinds requested later, and first
    /// for the current objects. Changes are ordered per kind; add a key to a queue and return.
    pub fn on_change(&self, notify: impl Fn(&OptionalKindChange<'_>) + Send + Sync + 'static) {
        let notify: Listener = Arc::new(notify);
        let mut state = self.shared.state.lock();
        // Under the same lock as `KindWatcher::serve`, which subscribes the listeners to a new cache: a kind that
        // appears now is subscribed exactly once, here or there.
        for (wanted, standing) in &state.wanted {
            if let KindState::Followed(followed) = standing {
                subscribe(&notify, &wanted.kind(), &followed.cache);
            }
        }
        state.listeners.push(notify);
    }

    /// Waits until the CRDs are listed and every kind requested so far is either listed or known to be
    /// absent.
    pub async fn synced(&self) {
        self.wait_for_all(async |cache| cache.synced().await).await;
    }

    /// As [`OptionalKinds::synced`], but does not wait for kinds whose list the server rejects: one missing permission
    /// must not delay what does not depend on it.
    pub async fn answered(&self) {
        self.wait_for_all(async |cache| cache.answered().await)
            .await;
    }

    async fn wait_for_all(&self, ready: impl AsyncFn(&Cache<DynamicObject>)) {
        self.shared.definitions.synced().await;
        let mut news = self.shared.settled.subscribe();
        loop {
            news.mark_unchanged();
            let (unknown, caches) = self.shared.undetermined_and_caches();
            for cache in &caches {
                ready(cache).await;
            }
            if !unknown || news.changed().await.is_err() {
                return;
            }
        }
    }

    /// Why a watched kind cannot be listed: the server rejects it, and has never listed it before.
    pub fn rejection(&self, kind: &GroupVersionKind) -> Option<String> {
        let cache = self.cache(kind)?;
        cache.rejection().filter(|_| !cache.is_synced())
    }

    /// The watched kinds that the server does not list, with its message.
    pub fn rejections(&self) -> Vec<(String, String)> {
        let state = self.shared.state.lock();
        let rejected = state.wanted.iter().filter_map(|(wanted, standing)| {
            let KindState::Followed(followed) = standing else {
                return None;
            };
            let rejection = followed.cache.rejection();
            let why = rejection.filter(|_| !followed.cache.is_synced())?;
            Some((wanted.kind.clone(), why))
        });
        rejected.collect()
    }

    /// The requested kinds that are neither listed nor known to be absent, by name. Those that the server rejects are in
    /// [`OptionalKinds::rejections`].
    pub fn unsynced(&self) -> Vec<String> {
        let state = self.shared.state.lock();
        let unclear = state.wanted.iter().filter(|(_, standing)| match standing {
            KindState::Unknown => true,
            KindState::Absent => false,
            KindState::Followed(Followed { cache, .. }) => {
                !cache.is_synced() && cache.rejection().is_none()
            }
        });
        unclear.map(|(wanted, _)| wanted.kind.clone()).collect()
    }
}

/// The group, version and kind of a type.
pub fn kind_of<K: Resource<DynamicType = ()>>() -> GroupVersionKind {
    GroupVersionKind::gvk(&K::group(&()), &K::version(&()), &K::kind(&()))
}

/// Notifies a listener of a kind, of its current objects, and of all changes from now on.
fn subscribe(notify: &Listener, kind: &GroupVersionKind, cache: &Cache<DynamicObject>) {
    notify(&OptionalKindChange::Appeared(kind));
    let (notify, kind) = (Arc::clone(notify), kind.clone());
    cache.on_change(move |change| {
        if let Some(object) = change.object() {
            notify(&OptionalKindChange::Object {
                kind: &kind,
                key: &Key::of(&object.metadata),
                change,
            });
        }
    });
}

impl Shared {
    fn installed(&self, group: &str, kind: &str) -> Option<Installed> {
        let found = self.by_kind.find(&installed::term(group, kind));
        found.iter().find_map(Installed::new)
    }

    fn followed<T>(&self, kind: &GroupVersionKind, get: impl FnOnce(&Followed) -> T) -> Option<T> {
        match self.state.lock().wanted.get(&Wanted::new(kind)) {
            Some(KindState::Followed(followed)) => Some(get(followed)),
            _ => None,
        }
    }

    fn is_absent(&self, kind: &GroupVersionKind) -> bool {
        let state = self.state.lock();
        matches!(
            state.wanted.get(&Wanted::new(kind)),
            Some(KindState::Absent)
        )
    }

    fn is_unknown(&self, wanted: &Wanted) -> bool {
        let state = self.state.lock();
        matches!(state.wanted.get(wanted), Some(KindState::Unknown))
    }

    /// Whether the state of any kind is undetermined, and the caches of the watched ones.
    fn undetermined_and_caches(&self) -> (bool, Vec<Cache<DynamicObject>>) {
        let state = self.state.lock();
        let mut caches = Vec::new();
        let mut unknown = false;
        for standing in state.wanted.values() {
            match standing {
                KindState::Unknown => unknown = true,
                KindState::Absent => {}
                KindState::Followed(followed) => caches.push(followed.cache.clone()),
            }
        }
        (unknown, caches)
    }
}

#[cfg(test)]
mod tests;
