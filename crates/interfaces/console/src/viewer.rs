//! What a user sees of the cluster: read with their own client, kept current by watches, and shown only
//! while their rights last.
//!
//! Caches belong to a session and end with it. They are filled when a page first asks, so a
//! first look costs a list and later ones cost nothing. Sharing them between users would save memory
//! and would need the console to decide who sees what; that is the API server's to decide.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::Node;
use kube::{Api, Client, Resource};
use parking_lot::Mutex;
use runtime::{Cache, Kind};
use tokio::sync::broadcast;
use tokio::task::JoinSet;
use tracing::debug;

use crate::error::Problem;
use crate::rights::{Right, Rights};
use crate::worked::{Worked, Workshop};

/// How long a page waits for a first list.
const PATIENCE: Duration = Duration::from_secs(10);
/// Changes that may wait for a page to look.
const CHANGES: usize = 256;

/// A kind whose objects pages show, and what is kept of them.
pub(crate) trait Shown: Kind<DynamicType = ()> {
    /// Throws away what no page reads: objects are many, and so are users.
    fn trim(&mut self) {
        self.meta_mut().managed_fields = None;
    }
}

impl Shown for Node {
    fn trim(&mut self) {
        self.metadata.managed_fields = None;
        if let Some(annotations) = &mut self.metadata.annotations {
            // How a machine gets on with its configuration is all that is read of them.
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
pub(crate) enum Unseen {
    /// The kind is not installed.
    Absent {
        /// The plural name of the kind.
        resource: String,
    },
    /// The user may not see it.
    Forbidden {
        /// The plural name of the kind.
        resource: String,
    },
    /// The token is not good any more.
    SignedOut,
    /// It could not be read.
    Failed(String),
}

impl std::fmt::Display for Unseen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Absent { resource } => {
                write!(
                    f,
                    "This cluster has no {resource}: the kind is not installed."
                )
            }
            Self::Forbidden { resource } => write!(
                f,
                "Your account may not see {resource}: it takes the rights to list and to watch them."
            ),
            Self::SignedOut => f.write_str("You are signed out."),
            Self::Failed(why) => f.write_str(why),
        }
    }
}

impl From<Unseen> for Problem {
    fn from(unseen: Unseen) -> Self {
        match unseen {
            Unseen::SignedOut => Self::SignedOut {
                next: "/".to_owned(),
            },
            Unseen::Absent { .. } => Self::missing(unseen.to_string()),
            Unseen::Forbidden { .. } => Self::refused(unseen.to_string()),
            Unseen::Failed(why) => Self::broken(why),
        }
    }
}

/// What a page gets.
pub(crate) type Objects<K> = Result<Vec<Arc<K>>, Unseen>;

/// Where objects are looked for: a kind, in a namespace or everywhere.
type Place = (TypeId, Option<String>);

/// What a user sees.
pub(crate) struct Viewer {
    client: Client,
    rights: Rights,
    caches: Mutex<HashMap<Place, Box<dyn Any + Send>>>,
    workshop: Workshop,
    /// The plural name of what changed.
    changes: broadcast::Sender<String>,
    /// They end when this is dropped.
    tasks: Mutex<JoinSet<()>>,
}

impl Viewer {
    pub(crate) fn new(client: Client) -> Self {
        Self {
            client,
            rights: Rights::default(),
            caches: Mutex::default(),
            workshop: Workshop::default(),
            changes: broadcast::Sender::new(CHANGES),
            tasks: Mutex::default(),
        }
    }

    /// The user's own client.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Whether they may do something. Who cannot be asked about may not.
    pub(crate) async fn may(&self, right: &Right) -> bool {
        match self.rights.may(&self.client, right).await {
            Ok(may) => may,
            Err(error) => {
                debug!(%error, ?right, "asking for a right failed");
                false
            }
        }
    }

    /// All objects of a kind.
    pub(crate) async fn all<K: Shown>(&self) -> Objects<K> {
        // Pages read many kinds at once: what each takes is not to be part of the page.
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

    /// All objects, or those of one namespace for who may see no others.
    pub(crate) async fn all_or_in<K>(&self, namespace: &str) -> Objects<K>
    where
        K: Shown + Resource<Scope = NamespaceResourceScope>,
    {
        match self.all().await {
            Err(Unseen::Forbidden { .. }) => self.all_in(namespace).await,
            seen => seen,
        }
    }

    /// What is worked out from what they see, once for as long as that is the same.
    pub(crate) async fn worked<W: Worked>(&self, from: W::From) -> Result<W, Unseen> {
        self.workshop.get(from).await
    }

    async fn look<K: Shown>(
        &self,
        namespace: Option<&str>,
        api: impl FnOnce() -> Api<K>,
    ) -> Objects<K> {
        let place = (TypeId::of::<K>(), namespace.map(str::to_owned));
        let [list, watch] = ["list", "watch"].map(|verb| Right::to::<K>(verb, namespace));
        let may = tokio::try_join!(
            self.rights.may(&self.client, &list),
            self.rights.may(&self.client, &watch),
        );
        match may {
            Ok((true, true)) => {}
            Ok(_) => {
                // What was seen with rights that are gone is not to be seen again.
                self.caches.lock().remove(&place);
                let resource = list.resource;
                return Err(Unseen::Forbidden { resource });
            }
            Err(kube::Error::Api(status)) if status.code == 401 => {
                return Err(Unseen::SignedOut);
            }
            Err(error) => return Err(Unseen::Failed(unreachable(&error))),
        }
        let cache = self.cache(place, api);
        if tokio::time::timeout(PATIENCE, cache.settled())
            .await
            .is_err()
        {
            let resource = K::plural(&());
            return Err(Unseen::Failed(format!(
                "The cluster did not list its {resource} in {} seconds.",
                PATIENCE.as_secs()
            )));
        }
        if cache.is_absent() {
            return Err(Unseen::Absent {
                resource: format!("{}.{}", K::plural(&()), K::group(&())),
            });
        }
        Ok(cache.list())
    }

    fn cache<K: Shown>(&self, place: Place, api: impl FnOnce() -> Api<K>) -> Cache<K> {
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
            // Nobody looks at the moment, at worst.
            let _ = changes.send(resource.clone());
        });
        self.tasks.lock().spawn(running);
        caches.insert(place, Box::new(cache.clone()));
        cache
    }

    /// Waits until pages show a write, given what the server answered to it.
    pub(crate) async fn saw<K: Shown>(&self, written: &K) {
        let namespace = written.meta().namespace.clone();
        for place in [None, namespace] {
            let cache = {
                let caches = self.caches.lock();
                let known = caches.get(&(TypeId::of::<K>(), place));
                known.and_then(|it| it.downcast_ref::<Cache<K>>()).cloned()
            };
            if let Some(cache) = cache {
                // Who waits in vain sees it a moment later.
                let _ = tokio::time::timeout(PATIENCE, cache.saw(written)).await;
            }
        }
    }

    /// The plural names of kinds, as their objects change.
    pub(crate) fn changes(&self) -> broadcast::Receiver<String> {
        self.changes.subscribe()
    }
}

fn unreachable(error: &kube::Error) -> String {
    format!("The cluster cannot be asked: {error}")
}
