//! What decisions about where pods go rest on, kept current for whoever decides.
//!
//! ```text
//! Node ----------------------> Cluster     one node at a time
//! RuntimeClass, PlacementPolicy -> Policies  read when they change, not when somebody asks
//! Namespace -----------------> its labels
//! pod --Pulls--> Keyring --Registries--> what its images are for
//! ```
//!
//! The admission check and the controller follow the same things in the same way.

mod pulls;
mod read;
mod registries;
mod remembered;
mod traffic;

use std::collections::BTreeMap;
use std::sync::Arc;

use api::placement::{PlacementPolicy, PlacementPolicySpec};
use k8s_openapi::api::core::v1::{Namespace, Node};
use k8s_openapi::api::node::v1;
use kube::api::DynamicObject;
use kube::{Api, Client, ResourceExt as _};
use parking_lot::{RwLock, RwLockReadGuard};
use placement::{Cluster, Policies, RuntimeClass};
use runtime::{Cache, Change, Error, Foreign, ForeignChange, Key, Manager, kind_of};
use serde_json::{Value, json};
use tracing::warn;

use crate::placement::read::read;

pub use pulls::Pulls;
pub use registries::{Failure, Registries};
pub use traffic::Traffic;

type Listener = Box<dyn Fn(&News) + Send + Sync>;

/// What changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum News {
    /// What nodes offer.
    Nodes,
    /// What policies or runtime classes say.
    Settings,
}

/// What decisions rest on besides the pod; clones share it.
#[derive(Clone)]
pub struct Watch {
    shared: Arc<Shared>,
}

/// What policies and classes say together.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Settings {
    /// The policies.
    pub policies: Policies,
    /// The RuntimeClasses, by name.
    pub classes: BTreeMap<String, RuntimeClass>,
}

struct Shared {
    client: Client,
    nodes: Cache<Node>,
    namespaces: Cache<Namespace>,
    runtime_classes: Cache<v1::RuntimeClass>,
    foreign: Foreign,
    cluster: RwLock<Cluster>,
    written: RwLock<BTreeMap<String, PlacementPolicySpec>>,
    settings: RwLock<Arc<Settings>>,
    listeners: RwLock<Vec<Listener>>,
}

impl Watch {
    /// Follows everything for as long as the manager runs.
    pub fn start(manager: &Manager) -> Self {
        let foreign = manager.foreign().clone();
        foreign.follow(&kind_of::<PlacementPolicy>());
        let shared = Arc::new(Shared {
            client: manager.client(),
            nodes: manager.cache(),
            namespaces: manager.cache(),
            runtime_classes: manager.cache(),
            foreign,
            cluster: RwLock::default(),
            written: RwLock::default(),
            settings: RwLock::default(),
            listeners: RwLock::default(),
        });
        // The caches outlive nobody who asks: who is told must not keep them alive.
        let told = Arc::downgrade(&shared);
        shared.nodes.on_change(move |change| {
            if let Some(shared) = told.upgrade() {
                shared.node(change);
            }
        });
        let told = Arc::downgrade(&shared);
        shared.runtime_classes.on_change(move |change| {
            if let Some(shared) = told.upgrade() {
                shared.class(change);
            }
        });
        let told = Arc::downgrade(&shared);
        shared.foreign.on_change(move |change| {
            if let (Some(shared), ForeignChange::Object { kind, change, .. }) =
                (told.upgrade(), change)
                && *kind == &kind_of::<PlacementPolicy>()
            {
                shared.policy(change);
            }
        });
        Self { shared }
    }

    /// Waits until everything there is has been seen. A kind that is not installed has nothing to see.
    pub async fn synced(&self) {
        self.shared.nodes.synced().await;
        self.shared.namespaces.synced().await;
        self.shared.runtime_classes.synced().await;
        self.shared.foreign.synced().await;
    }

    /// What the nodes offer. Nothing changes while it is held: let it go before waiting.
    pub fn cluster(&self) -> RwLockReadGuard<'_, Cluster> {
        self.shared.cluster.read()
    }

    /// What policies and classes say.
    pub fn settings(&self) -> Arc<Settings> {
        Arc::clone(&self.shared.settings.read())
    }

    /// The labels of a namespace. One that is not known here was made a moment ago, and is asked for.
    pub async fn labels(&self, namespace: &str) -> Result<BTreeMap<String, String>, Error> {
        let known = self.shared.namespaces.get("", namespace);
        if let Some(known) = known {
            return Ok(known.labels().clone());
        }
        let api: Api<Namespace> = Api::all(self.shared.client.clone());
        let found = read(&api, namespace).await;
        let found = found.map_err(Error::api(format!("reading namespace {namespace}")))?;
        Ok(found
            .map(|found| found.labels().clone())
            .unwrap_or_default())
    }

    /// Has every change told to somebody after it can be seen here. Tell a queue and return.
    pub fn on_change(&self, tell: impl Fn(&News) + Send + Sync + 'static) {
        self.shared.listeners.write().push(Box::new(tell));
    }
}

impl Shared {
    fn node(&self, change: &Change<Node>) {
        let read = |side: &Option<Arc<Node>>| {
            let node = side.as_deref().map(|node| json!(node))?;
            Some(placement::Node::read(&node))
        };
        let (old, new) = (read(&change.old), read(&change.new));
        // Nodes tell all the time that they are alive.
        if old == new {
            return;
        }
        match (old, new) {
            (_, Some(node)) => self.cluster.write().upsert(node),
            (Some(node), None) => self.cluster.write().remove(node.name()),
            (None, None) => return,
        }
        self.tell(News::Nodes);
    }

    fn class(&self, change: &Change<v1::RuntimeClass>) {
        let Some(name) = change.object().map(|class| class.name_any()) else {
            return;
        };
        let mut settings = Settings::clone(&self.settings.read());
        match &change.new {
            Some(class) => {
                let class: Value = json!(**class);
                settings.classes.insert(name, RuntimeClass::read(&class));
            }
            None => {
                settings.classes.remove(&name);
            }
        }
        self.settle(settings);
    }

    fn policy(&self, change: &Change<DynamicObject>) {
        let Some(name) = change.object().map(|object| object.name_any()) else {
            return;
        };
        let read = change.new.as_ref().and_then(|object| {
            let read = DynamicObject::clone(object).try_parse::<PlacementPolicy>();
            read.inspect_err(|error| {
                let name = Key::of(&object.metadata);
                warn!(%name, %error, "a PlacementPolicy cannot be read and does not count");
            })
            .ok()
        });
        match read {
            Some(policy) => self.written.write().insert(name, policy.spec),
            None => self.written.write().remove(&name),
        };
        let settings = Settings::clone(&self.settings.read());
        self.settle(settings);
    }

    /// Puts what policies and classes say in place of what they said.
    fn settle(&self, mut settings: Settings) {
        {
            let written = self.written.read();
            let written = written.iter().map(|(name, spec)| (name.as_str(), spec));
            settings.policies = Policies::new(written, &settings.classes);
            if **self.settings.read() == settings {
                return;
            }
            *self.settings.write() = Arc::new(settings);
        }
        self.tell(News::Settings);
    }

    fn tell(&self, news: News) {
        for listener in &*self.listeners.read() {
            listener(&news);
        }
    }
}
