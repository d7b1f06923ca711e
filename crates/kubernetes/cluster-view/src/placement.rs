//! The view that placement decisions read, kept current by watches.
//!
//! ```text
//! Node ----------------------> Cluster     one node at a time
//! RuntimeClass, PlacementPolicy -> Policies  read when they change, not per decision
//! Namespace -----------------> its labels
//! pod --PullCredentials--> Keyring --Registries--> platforms of its images
//! ```
//!
//! The admission webhook and the controller share this code, so that they decide alike.

mod pulls;
mod read;
mod read_cache;
mod registries;
mod traffic;

use std::collections::BTreeMap;
use std::sync::Arc;

use api::placement::{PlacementPolicy, PlacementPolicySpec};
use k8s_openapi::api::core::v1::{Namespace, Node};
use k8s_openapi::api::node::v1;
use kube::api::DynamicObject;
use kube::{Api, Client, ResourceExt as _};
use parking_lot::{Mutex, RwLock, RwLockReadGuard};
use placement::{Cluster, Policies, RuntimeClass};
use runtime::{Cache, Change, Error, Key, Manager, OptionalKindChange, OptionalKinds, kind_of};
use serde_json::{Value, json};
use tracing::warn;

use crate::placement::read::read;

pub use pulls::PullCredentials;
pub use registries::{Failure, Registries};
pub use traffic::RegistryMetrics;

type Listener = Box<dyn Fn(&ViewChange) + Send + Sync>;

/// Which part of the view changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ViewChange {
    /// The nodes and what they offer.
    Nodes,
    /// The policies or runtime classes.
    Settings,
}

/// The cluster state placement decisions read besides the pod; clones share it.
#[derive(Clone)]
pub struct PlacementView {
    shared: Arc<Shared>,
}

/// All policies and runtime classes, merged.
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
    foreign: OptionalKinds,
    cluster: RwLock<Cluster>,
    sources: Mutex<Sources>,
    settings: RwLock<Arc<Settings>>,
    listeners: RwLock<Vec<Listener>>,
}

/// The objects that settings are derived from.
#[derive(Default)]
struct Sources {
    policies: BTreeMap<String, PlacementPolicySpec>,
    classes: BTreeMap<String, RuntimeClass>,
}

impl Sources {
    fn settings(&self) -> Settings {
        let policies = self.policies.iter();
        let policies = policies.map(|(name, spec)| (name.as_str(), spec));
        Settings {
            policies: Policies::new(policies, &self.classes),
            classes: self.classes.clone(),
        }
    }
}

/// Inserts, replaces or removes an entry.
fn set<T>(map: &mut BTreeMap<String, T>, name: String, value: Option<T>) {
    match value {
        Some(value) => map.insert(name, value),
        None => map.remove(&name),
    };
}

impl PlacementView {
    /// Starts the watches; they run as long as the manager.
    pub fn start(manager: &Manager) -> Self {
        let foreign = manager.optional_kinds().clone();
        foreign.follow(&kind_of::<PlacementPolicy>());
        let shared = Arc::new(Shared {
            client: manager.client(),
            nodes: manager.cache(),
            namespaces: manager.cache(),
            runtime_classes: manager.cache(),
            foreign,
            cluster: RwLock::default(),
            sources: Mutex::default(),
            settings: RwLock::default(),
            listeners: RwLock::default(),
        });
        // Listeners hold weak references, so that they do not keep the view alive.
        let weak = Arc::downgrade(&shared);
        shared.nodes.on_change(move |change| {
            if let Some(shared) = weak.upgrade() {
                shared.node(change);
            }
        });
        let weak = Arc::downgrade(&shared);
        shared.runtime_classes.on_change(move |change| {
            if let Some(shared) = weak.upgrade() {
                shared.class(change);
            }
        });
        let weak = Arc::downgrade(&shared);
        shared.foreign.on_change(move |change| {
            if let (Some(shared), OptionalKindChange::Object { kind, change, .. }) =
                (weak.upgrade(), change)
                && *kind == &kind_of::<PlacementPolicy>()
            {
                shared.policy(change);
            }
        });
        Self { shared }
    }

    /// Waits until all watched kinds are listed. A kind that is not installed counts as listed.
    pub async fn synced(&self) {
        self.shared.nodes.synced().await;
        self.shared.namespaces.synced().await;
        self.shared.runtime_classes.synced().await;
        self.shared.foreign.synced().await;
    }

    /// The nodes and what they offer. The lock blocks updates: release it before awaiting.
    pub fn cluster(&self) -> RwLockReadGuard<'_, Cluster> {
        self.shared.cluster.read()
    }

    /// The current policies and runtime classes.
    pub fn settings(&self) -> Arc<Settings> {
        Arc::clone(&self.shared.settings.read())
    }

    /// The labels of a namespace. A namespace missing from the cache was created a moment ago, and is
    /// read from the API server.
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

    /// Calls `notify` for every change once the view shows it. Add a key to a queue and return.
    pub fn on_change(&self, notify: impl Fn(&ViewChange) + Send + Sync + 'static) {
        self.shared.listeners.write().push(Box::new(notify));
    }
}

impl Shared {
    fn node(&self, change: &Change<Node>) {
        let read = |side: &Option<Arc<Node>>| {
            let node = side.as_deref().map(|node| json!(node))?;
            Some(placement::Node::read(&node))
        };
        let (old, new) = (read(&change.old), read(&change.new));
        // Node heartbeats change nothing that placement reads.
        if old == new {
            return;
        }
        match (old, new) {
            (_, Some(node)) => self.cluster.write().upsert(node),
            (Some(node), None) => self.cluster.write().remove(node.name()),
            (None, None) => return,
        }
        self.notify(ViewChange::Nodes);
    }

    fn class(&self, change: &Change<v1::RuntimeClass>) {
        let Some(name) = change.object().map(|class| class.name_any()) else {
            return;
        };
        let class = change.new.as_ref().map(|class| {
            let class: Value = json!(**class);
            RuntimeClass::read(&class)
        });
        self.update(|sources| set(&mut sources.classes, name, class));
    }

    fn policy(&self, change: &Change<DynamicObject>) {
        let Some(name) = change.object().map(|object| object.name_any()) else {
            return;
        };
        let read = change.new.as_ref().and_then(|object| {
            let read = DynamicObject::clone(object).try_parse::<PlacementPolicy>();
            read.inspect_err(|error| {
                let name = Key::of(&object.metadata);
                warn!(%name, %error, "ignoring an invalid PlacementPolicy");
            })
            .ok()
        });
        let spec = read.map(|policy| policy.spec);
        self.update(|sources| set(&mut sources.policies, name, spec));
    }

    /// Changes the sources and derives the settings from them under one lock: policies and classes come from two watches, and
    /// settings that one of them derived from an older state would undo the other's.
    fn update(&self, change: impl FnOnce(&mut Sources)) {
        {
            let mut sources = self.sources.lock();
            change(&mut sources);
            let settings = sources.settings();
            if **self.settings.read() == settings {
                return;
            }
            *self.settings.write() = Arc::new(settings);
        }
        self.notify(ViewChange::Settings);
    }

    fn notify(&self, change: ViewChange) {
        for listener in &*self.listeners.read() {
            listener(&change);
        }
    }
}
