//! What decisions about CPU models rest on, kept current for whoever decides: the nodes, KubeVirt's
//! settings and the policy.
//!
//! ```text
//! Node ------------------> Index      one node at a time
//! KubeVirt, CpuModelPolicy -> Settings  read when they change, not when somebody asks
//! ```
//!
//! The admission check and the controller follow the same things in the same way, so that a report
//! never contradicts a decision for long.

mod settings;

use std::sync::Arc;

use api::cpu::CpuModelPolicy;
use api::kubevirt::KubeVirt;
use cpu_models::{Index, NodeFacts};
use k8s_openapi::api::core::v1::Node;
use kube::api::DynamicObject;
use kube::core::GroupVersionKind;
use parking_lot::{Mutex, RwLock, RwLockReadGuard};
use runtime::{Cache, Change, Foreign, ForeignChange, Manager, kind_of};

pub use cpu_models::Settings;
use settings::Sources;

type Listener = Box<dyn Fn(&News<'_>) + Send + Sync>;

/// What changed.
#[derive(Debug, Clone, Copy)]
pub enum News<'a> {
    /// A node came, went, or is another one as far as CPU models go.
    Node(&'a str),
    /// KubeVirt or the policy says something else.
    Settings,
}

/// What decisions rest on; clones share it.
#[derive(Clone)]
pub struct Watch {
    shared: Arc<Shared>,
}

struct Shared {
    nodes: Cache<Node>,
    foreign: Foreign,
    index: RwLock<Index>,
    sources: Mutex<Sources>,
    settings: RwLock<Arc<Settings>>,
    listeners: RwLock<Vec<Listener>>,
}

impl Watch {
    /// Follows everything for as long as the manager runs.
    pub fn start(manager: &Manager) -> Self {
        let foreign = manager.foreign().clone();
        foreign.follow(&kind_of::<KubeVirt>());
        foreign.follow(&kind_of::<CpuModelPolicy>());
        let shared = Arc::new(Shared {
            nodes: manager.cache(),
            foreign,
            index: RwLock::default(),
            sources: Mutex::default(),
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
        shared.foreign.on_change(move |change| {
            if let (Some(shared), ForeignChange::Object { kind, change, .. }) =
                (told.upgrade(), change)
            {
                shared.object(kind, change);
            }
        });
        Self { shared }
    }

    /// Waits until everything there is has been seen. A kind that is not installed has nothing to see.
    pub async fn synced(&self) {
        self.shared.nodes.synced().await;
        self.shared.foreign.synced().await;
    }

    /// The nodes, by what they can run. Nothing changes while it is held: let it go before waiting.
    pub fn index(&self) -> RwLockReadGuard<'_, Index> {
        self.shared.index.read()
    }

    /// What KubeVirt and the policy say.
    pub fn settings(&self) -> Arc<Settings> {
        Arc::clone(&self.shared.settings.read())
    }

    /// Has every change told to somebody after it can be seen here. Tell a queue and return.
    pub fn on_change(&self, tell: impl Fn(&News<'_>) + Send + Sync + 'static) {
        self.shared.listeners.write().push(Box::new(tell));
    }
}

impl Shared {
    fn node(&self, change: &Change<Node>) {
        let facts = |side: &Option<Arc<Node>>| side.as_deref().map(NodeFacts::from_node);
        let (old, new) = (facts(&change.old), facts(&change.new));
        // Nodes tell all the time that they are alive.
        if old == new {
            return;
        }
        let name = match (&old, &new) {
            (_, Some(node)) => {
                self.index.write().upsert(node);
                &node.name
            }
            (Some(node), None) => {
                self.index.write().remove(&node.name);
                &node.name
            }
            (None, None) => return,
        };
        self.tell(&News::Node(name));
    }

    fn object(&self, kind: &GroupVersionKind, change: &Change<DynamicObject>) {
        {
            let mut sources = self.sources.lock();
            if *kind == kind_of::<KubeVirt>() {
                sources.kubevirt(change);
            } else if *kind == kind_of::<CpuModelPolicy>() {
                sources.policy(change);
            } else {
                return;
            }
            let settings = sources.settings();
            if **self.settings.read() == settings {
                return;
            }
            *self.settings.write() = Arc::new(settings);
        }
        self.tell(&News::Settings);
    }

    fn tell(&self, news: &News<'_>) {
        for listener in &*self.listeners.read() {
            listener(news);
        }
    }
}
