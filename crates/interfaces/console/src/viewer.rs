//! A user's view of the cluster: read with their own client, kept current by watches, and shown
//! only while their permissions last.
//!
//! Caches belong to a session and end with it. They are filled when a page first needs them, so the
//! first request costs a list and later ones cost nothing. Sharing them between users would save
//! memory, but then the console would have to decide who sees what; that is up to the API server.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use cluster_view::nodes::{NodeIndex, NodeView};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::Node;
use kube::{Api, Client, Resource};
use parking_lot::Mutex;
use runtime::{Cache, Kind};
use tokio::sync::broadcast;
use tokio::task::JoinSet;
use tracing::debug;

use crate::derived::{Derived, DerivedCache};
use crate::error::Problem;
use crate::permissions::{Permission, PermissionCache};

/// How long a page waits for the initial list.
const INITIAL_LIST_TIMEOUT: Duration = Duration::from_secs(10);
/// Capacity of the change channel; a page that lags refreshes once.
const CHANGE_CAPACITY: usize = 256;

/// A kind whose objects pages show, and the parts of them that are kept.
pub(crate) trait Shown: Kind<DynamicType = ()> {
    /// Drops the fields that no page reads: objects are many, and so are users.
    fn trim(&mut self) {
        self.meta_mut().managed_fields = None;
    }
}

impl Shown for Node {
    fn trim(&mut self) {
        self.metadata.managed_fields = None;
        if let Some(annotations) = &mut self.metadata.annotations {
            // Only the machine-config state of nodes is read.
            annotations.retain(|name, _| name.starts_with("machineconfiguration.openshift.io/"));
        }
        if let Some(status) = &mut self.status {
            status.images = None;
            status.volumes_attached = None;
            status.volumes_in_use = None;
            status.addresses = None;
        }
    }
}

/// Why objects are not shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Unavailable {
    /// The CRD is not installed.
    Absent {
        /// The plural name of the kind.
        resource: String,
    },
    /// The user may not list it.
    Forbidden {
        /// The plural name of the kind.
        resource: String,
    },
    /// The token is no longer valid.
    SignedOut,
    /// It could not be read.
    Failed(String),
}

impl std::fmt::Display for Unavailable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Absent { resource } => {
                write!(
                    f,
                    "This cluster has no {resource}: the CRD is not installed."
                )
            }
            Self::Forbidden { resource } => write!(
                f,
                "Your account may not read {resource}: it needs permission to list and to watch them."
            ),
            Self::SignedOut => f.write_str("You are signed out."),
            Self::Failed(why) => f.write_str(why),
        }
    }
}

impl From<Unavailable> for Problem {
    fn from(unavailable: Unavailable) -> Self {
        match unavailable {
            Unavailable::SignedOut => Self::SignedOut {
                next: "/".to_owned(),
            },
            Unavailable::Absent { .. } => Self::missing(unavailable.to_string()),
            Unavailable::Forbidden { .. } => Self::refused(unavailable.to_string()),
            Unavailable::Failed(why) => Self::broken(why),
        }
    }
}

/// Data of a page, or why a part of it is not shown. A page cannot show that the user is signed out.
pub(crate) fn shown<T>(data: Result<T, Unavailable>) -> Result<Result<T, Unavailable>, Problem> {
    match data {
        Err(Unavailable::SignedOut) => Err(Unavailable::SignedOut.into()),
        data => Ok(data),
    }
}

/// The objects of a kind, or why they are not shown.
pub(crate) type Objects<K> = Result<Vec<Arc<K>>, Unavailable>;

/// Key of a cache: a kind, in a namespace or everywhere.
type Place = (TypeId, Option<String>);

/// The caches of a user.
pub(crate) struct Viewer {
    client: Client,
    permissions: PermissionCache,
    caches: Mutex<HashMap<Place, Box<dyn Any + Send>>>,
    /// Indexes of the nodes, by type.
    node_views: Mutex<HashMap<TypeId, Box<dyn Any + Send>>>,
    derived_cache: DerivedCache,
    /// The plural name of the changed kind.
    changes: broadcast::Sender<String>,
    /// The watches, which end when this is dropped.
    tasks: Mutex<JoinSet<()>>,
}

impl Viewer {
    pub(crate) fn new(client: Client) -> Self {
        Self {
            client,
            permissions: PermissionCache::default(),
            caches: Mutex::default(),
            node_views: Mutex::default(),
            derived_cache: DerivedCache::default(),
            changes: broadcast::Sender::new(CHANGE_CAPACITY),
            tasks: Mutex::default(),
        }
    }

    /// The user's own client.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Whether the user has a permission. A failed review counts as no.
    pub(crate) async fn may(&self, permission: &Permission) -> bool {
        match self.permissions.may(&self.client, permission).await {
            Ok(may) => may,
            Err(error) => {
                debug!(%error, ?permission, "access review failed");
                false
            }
        }
    }

    /// All objects of a kind.
    pub(crate) async fn all<K: Shown>(&self) -> Objects<K> {
        // Pages read many kinds at once: boxing keeps the future of the page small.
        Box::pin(self.look(None, || Api::all(self.client.clone()))).await
    }

    /// All objects of a namespace.
    pub(crate) async fn all_in<K>(&self, namespace: &str) -> Objects<K>
    where
        K: Shown + Resource<Scope = NamespaceResourceScope>,
    {
        let api = || Api::namespaced(self.client.clone(), namespace);
        Box::pin(self.look(Some(namespace), api)).await
    }

    /// All objects, or those of one namespace for users who may not list all.
    pub(crate) async fn all_or_in<K>(&self, namespace: &str) -> Objects<K>
    where
        K: Shown + Resource<Scope = NamespaceResourceScope>,
    {
        match self.all().await {
            Err(Unavailable::Forbidden { .. }) => self.all_in(namespace).await,
            seen => seen,
        }
    }

    /// An index of the nodes that the user may read, which follows their cache.
    pub(crate) async fn nodes<I: NodeIndex>(&self) -> Result<Arc<I>, Unavailable> {
        self.all::<Node>().await?;
        let known = {
            let views = self.node_views.lock();
            let view = views.get(&TypeId::of::<I>());
            view.and_then(|it| it.downcast_ref::<NodeView<I>>())
                .cloned()
        };
        if let Some(view) = known {
            return Ok(view.snapshot());
        }
        let place = (TypeId::of::<Node>(), None);
        let cache = self.cache(place, || Api::all(self.client.clone()));
        // Indexing thousands of nodes takes a moment; other requests are answered meanwhile.
        let view = tokio::task::spawn_blocking(move || NodeView::<I>::follow(&cache, |_| {}));
        let view = view.await.map_err(|error| {
            Unavailable::Failed(format!("The nodes could not be indexed: {error}"))
        })?;
        let index = view.snapshot();
        self.node_views
            .lock()
            .insert(TypeId::of::<I>(), Box::new(view));
        Ok(index)
    }

    /// A value computed from objects, cached while they do not change.
    pub(crate) async fn derived<W: Derived>(&self, from: W::From) -> Result<W, Unavailable> {
        self.derived_cache.get(from).await
    }

    async fn look<K: Shown>(
        &self,
        namespace: Option<&str>,
        api: impl FnOnce() -> Api<K>,
    ) -> Objects<K> {
        let place = (TypeId::of::<K>(), namespace.map(str::to_owned));
        // Asked for every page, although the cache has the objects: a watch that is open continues
        // after a permission is revoked, until the API server ends it.
        let [list, watch] = ["list", "watch"].map(|verb| Permission::to::<K>(verb, namespace));
        let may = tokio::try_join!(
            self.permissions.may(&self.client, &list),
            self.permissions.may(&self.client, &watch),
        );
        match may {
            Ok((true, true)) => {}
            Ok(_) => {
                // Objects read with permissions that are gone must not be shown again.
                self.caches.lock().remove(&place);
                // Indexes are made of the nodes in the cache, and hold them on their own.
                self.node_views.lock().clear();
                let resource = list.resource;
                return Err(Unavailable::Forbidden { resource });
            }
            Err(kube::Error::Api(status)) if status.code == 401 => {
                return Err(Unavailable::SignedOut);
            }
            Err(error) => return Err(Unavailable::Failed(unreachable(&error))),
        }
        let cache = self.cache(place, api);
        if tokio::time::timeout(INITIAL_LIST_TIMEOUT, cache.settled())
            .await
            .is_err()
        {
            let resource = K::plural(&());
            return Err(Unavailable::Failed(format!(
                "The API server did not list {resource} within {} seconds.",
                INITIAL_LIST_TIMEOUT.as_secs()
            )));
        }
        if cache.is_absent() {
            return Err(Unavailable::Absent {
                resource: format!("{}.{}", K::plural(&()), K::group(&())),
            });
        }
        Ok(cache.list())
    }

    fn cache<K: Shown>(&self, place: Place, api: impl FnOnce() -> Api<K>) -> Cache<K> {
        // Held until the new cache is stored: two tabs that open the same page would otherwise
        // start two watches.
        let mut caches = self.caches.lock();
        let known = caches
            .get(&place)
            .and_then(|it| it.downcast_ref::<Cache<K>>());
        if let Some(cache) = known {
            return cache.clone();
        }
        let (cache, running) = Cache::follow_with(api(), K::trim);
        let changes = self.changes.clone();
        let resource = K::plural(&()).into_owned();
        cache.on_change(move |_| {
            // Fails only if no page is open.
            let _ = changes.send(resource.clone());
        });
        self.tasks.lock().spawn(running);
        caches.insert(place, Box::new(cache.clone()));
        cache
    }

    /// Waits until the cache contains a write, given the object that the server returned.
    pub(crate) async fn saw<K: Shown>(&self, written: &K) {
        let namespace = written.meta().namespace.clone();
        // A page may read all namespaces or one, so both caches may exist.
        for place in [None, namespace] {
            let cache = {
                let caches = self.caches.lock();
                let known = caches.get(&(TypeId::of::<K>(), place));
                known.and_then(|it| it.downcast_ref::<Cache<K>>()).cloned()
            };
            if let Some(cache) = cache {
                // On a timeout the page shows the change a moment later.
                let _ = tokio::time::timeout(INITIAL_LIST_TIMEOUT, cache.saw(written)).await;
            }
        }
    }

    /// The plural names of kinds, as their objects change.
    pub(crate) fn changes(&self) -> broadcast::Receiver<String> {
        self.changes.subscribe()
    }
}

fn unreachable(error: &kube::Error) -> String {
    format!("The API server cannot be reached: {error}")
}
