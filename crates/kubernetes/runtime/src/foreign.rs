//! Kinds that may not be there: those of other people's operators, found at run time.
//!
//! ```text
//! follow(kind) ----> wanted ---.
//!                               Keeper --starts and ends--> Cache of the kind --> on_change
//! definitions, discovery ------'
//! ```
//!
//! A kind that is not installed is no error. It is picked up when it comes, let go when it goes,
//! and picked up again when it comes back, all while the process runs. Kinds with a
//! CustomResourceDefinition are followed by it; those without one (built in, or of an aggregated
//! server) are looked for through discovery.

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

use crate::{Cache, Change, Error, Index, Key};
pub use installed::Installed;
use keeper::Keeper;

/// How long [`Foreign::open`] waits for the objects of a kind.
const PATIENCE: Duration = Duration::from_secs(10);

/// What happened to a kind that is followed, or to an object of it.
#[derive(Debug, Clone, Copy)]
pub enum ForeignChange<'a> {
    /// The kind is installed; its objects are told next.
    Appeared(&'a GroupVersionKind),
    /// The definition of the kind says something else than before: its schema, say.
    Redefined(&'a GroupVersionKind),
    /// The kind is not served any more; its objects have been told to be gone.
    Disappeared(&'a GroupVersionKind),
    /// An object is new, different or gone.
    Object {
        /// Its kind, in the version it is followed in.
        kind: &'a GroupVersionKind,
        /// Its namespace and name.
        key: &'a Key,
        /// What it was and what it is.
        change: &'a Change<DynamicObject>,
    },
}

impl ForeignChange<'_> {
    /// The kind it is about.
    pub fn kind(&self) -> &GroupVersionKind {
        match self {
            Self::Appeared(kind)
            | Self::Redefined(kind)
            | Self::Disappeared(kind)
            | Self::Object { kind, .. } => kind,
        }
    }
}

type Listener = Arc<dyn Fn(&ForeignChange<'_>) + Send + Sync>;

/// The kinds that may not be there, and their objects; clones share them.
///
/// [`Manager::foreign`](crate::Manager::foreign) gives it.
#[derive(Clone)]
pub struct Foreign {
    shared: Arc<Shared>,
}

struct Shared {
    client: Client,
    definitions: Cache<CustomResourceDefinition>,
    by_kind: Index<CustomResourceDefinition>,
    state: Mutex<State>,
    /// Told when a kind is wanted or a definition changes.
    look: Notify,
    /// Told when it has become known how a kind stands.
    settled: watch::Sender<()>,
}

#[derive(Default)]
struct State {
    wanted: BTreeMap<Wanted, Standing>,
    listeners: Vec<Listener>,
}

/// A kind in a version; ordered, so that the work is done in the same order every time.
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

/// What is known of a kind that somebody wants.
#[derive(Default)]
enum Standing {
    /// Nothing yet.
    #[default]
    Unknown,
    /// It is not served.
    Absent,
    /// It is served and followed.
    Followed(Followed),
}

/// A kind whose objects are followed.
struct Followed {
    served: Served,
    cache: Cache<DynamicObject>,
    /// Ends the watch when it is dropped.
    stop: oneshot::Sender<()>,
    /// Ready when the watch has ended and all objects have been told to be gone.
    ended: oneshot::Receiver<()>,
}

/// How a kind is served.
struct Served {
    resource: ApiResource,
    namespaced: bool,
    /// Its definition, if it has one.
    definition: Option<Arc<CustomResourceDefinition>>,
}

impl Foreign {
    /// Nothing is followed yet; the second part follows what is wanted for as long as it runs.
    pub(crate) fn new(
        client: Client,
        definitions: Cache<CustomResourceDefinition>,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let shared = Arc::new(Shared {
            client,
            by_kind: definitions.index(installed::terms),
            definitions,
            state: Mutex::default(),
            look: Notify::new(),
            settled: watch::Sender::new(()),
        });
        let told = Arc::downgrade(&shared);
        shared.definitions.on_change(move |_| {
            if let Some(shared) = told.upgrade() {
                shared.look.notify_one();
            }
        });
        let keeper = Keeper::new(Arc::clone(&shared));
        (Self { shared }, keeper.run())
    }

    /// A kind that has an established definition. Kinds that are built in have none.
    ///
    /// Call after [`Foreign::synced`]: before, nothing is known.
    pub fn kind(&self, group: &str, kind: &str) -> Option<Installed> {
        self.shared.installed(group, kind)
    }

    /// Declares interest: the kind is followed as soon as it is installed.
    pub fn follow(&self, kind: &GroupVersionKind) {
        let mut state = self.shared.state.lock();
        state.wanted.entry(Wanted::new(kind)).or_insert_with(|| {
            self.shared.look.notify_one();
            Standing::Unknown
        });
    }

    /// The objects of a kind, if they are followed at this moment. The first who asks declares
    /// interest; [`Foreign::open`] waits until it is known whether there is anything to follow.
    pub fn cache(&self, kind: &GroupVersionKind) -> Option<Cache<DynamicObject>> {
        self.follow(kind);
        self.shared.followed(kind, |one| one.cache.clone())
    }

    /// The objects of a kind, all of them; `None` if the kind is not installed.
    ///
    /// An error if the server does not say within ten seconds.
    pub async fn open(
        &self,
        kind: &GroupVersionKind,
    ) -> Result<Option<Cache<DynamicObject>>, Error> {
        self.follow(kind);
        let mut news = self.shared.settled.subscribe();
        let known = async {
            loop {
                news.mark_unchanged();
                if self.shared.is_absent(kind) {
                    return None;
                }
                if let Some(cache) = self.cache(kind) {
                    cache.synced().await;
                    if !cache.has_ended() {
                        return Some(cache);
                    }
                    continue;
                }
                if news.changed().await.is_err() {
                    return None;
                }
            }
        };
        tokio::time::timeout(PATIENCE, known).await.map_err(|_| {
            Error::Late(format!(
                "listing {} ({}): no answer within {} s",
                kind.kind,
                kind.api_version(),
                PATIENCE.as_secs()
            ))
        })
    }

    /// How to read and write objects of a kind that is followed: in a namespace, or in all.
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

    /// How objects of a kind that is followed are addressed, and whether they are in namespaces.
    pub fn resource(&self, kind: &GroupVersionKind) -> Option<(ApiResource, bool)> {
        self.follow(kind);
        self.shared.followed(kind, |one| {
            (one.served.resource.clone(), one.served.namespaced)
        })
    }

    /// Has every change of every followed kind told to somebody, also of kinds followed later. What
    /// there is now is told first. The order is true for each kind; tell a queue and return.
    pub fn on_change(&self, tell: impl Fn(&ForeignChange<'_>) + Send + Sync + 'static) {
        let tell: Listener = Arc::new(tell);
        let mut state = self.shared.state.lock();
        for (wanted, standing) in &state.wanted {
            if let Standing::Followed(followed) = standing {
                introduce(&tell, &wanted.kind(), &followed.cache);
            }
        }
        state.listeners.push(tell);
    }

    /// Waits until the definitions have been listed and all kinds followed by now stand clear: not
    /// installed, or listed.
    pub async fn synced(&self) {
        self.shared.definitions.synced().await;
        let mut news = self.shared.settled.subscribe();
        loop {
            news.mark_unchanged();
            let (unknown, caches) = self.shared.standings();
            for cache in caches {
                cache.synced().await;
            }
            if !unknown || news.changed().await.is_err() {
                return;
            }
        }
    }

    /// The kinds that are wanted and do not stand clear yet, by name.
    pub fn unsynced(&self) -> Vec<String> {
        let state = self.shared.state.lock();
        let unclear = state.wanted.iter().filter(|(_, standing)| match standing {
            Standing::Unknown => true,
            Standing::Absent => false,
            Standing::Followed(followed) => !followed.cache.is_synced(),
        });
        unclear.map(|(wanted, _)| wanted.kind.clone()).collect()
    }
}

/// A kind as the API knows it.
pub fn kind_of<K: Resource<DynamicType = ()>>() -> GroupVersionKind {
    GroupVersionKind::gvk(&K::group(&()), &K::version(&()), &K::kind(&()))
}

/// Tells somebody of a kind, of the objects there are, and of all changes from now on.
fn introduce(tell: &Listener, kind: &GroupVersionKind, cache: &Cache<DynamicObject>) {
    tell(&ForeignChange::Appeared(kind));
    let (tell, kind) = (Arc::clone(tell), kind.clone());
    cache.on_change(move |change| {
        if let Some(object) = change.object() {
            tell(&ForeignChange::Object {
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
            Some(Standing::Followed(followed)) => Some(get(followed)),
            _ => None,
        }
    }

    fn is_absent(&self, kind: &GroupVersionKind) -> bool {
        let state = self.state.lock();
        matches!(state.wanted.get(&Wanted::new(kind)), Some(Standing::Absent))
    }

    fn is_unknown(&self, wanted: &Wanted) -> bool {
        let state = self.state.lock();
        matches!(state.wanted.get(wanted), Some(Standing::Unknown))
    }

    /// Whether it is unknown how some kind stands, and the caches there are.
    fn standings(&self) -> (bool, Vec<Cache<DynamicObject>>) {
        let state = self.state.lock();
        let mut caches = Vec::new();
        let mut unknown = false;
        for standing in state.wanted.values() {
            match standing {
                Standing::Unknown => unknown = true,
                Standing::Absent => {}
                Standing::Followed(followed) => caches.push(followed.cache.clone()),
            }
        }
        (unknown, caches)
    }
}

#[cfg(test)]
mod tests;
