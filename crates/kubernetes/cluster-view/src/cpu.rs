//! The view that CPU model decisions read, kept current by watches: nodes, KubeVirt's settings and the
//! policy.
//!
//! ```text
//! Node ------------------> Index      one node at a time
//! KubeVirt, CpuModelPolicy -> Settings  read when they change, not per decision
//! ```
//!
//! The admission webhook and the controller share this code, so that a report never contradicts a
//! decision for long.

mod settings;

use std::sync::Arc;

use api::cpu::CpuModelPolicy;
use api::kubevirt::KubeVirt;
use cpu_models::{Index, NodeInputs};
use k8s_openapi::api::core::v1::Node;
use kube::api::DynamicObject;
use kube::core::GroupVersionKind;
use parking_lot::{Mutex, RwLock, RwLockReadGuard};
use runtime::{Cache, Change, Manager, OptionalKindChange, OptionalKinds, kind_of};

pub use cpu_models::Settings;
use settings::Sources;

type Listener = Box<dyn Fn(&ViewChange<'_>) + Send + Sync>;

/// Which part of the view changed.
#[derive(Debug, Clone, Copy)]
pub enum ViewChange<'a> {
    /// A node was added or removed, or changed in a way that matters for CPU models.
    Node(&'a str),
    /// The settings of KubeVirt or of the policy.
    Settings,
}

/// The cluster state CPU model decisions read; clones share it.
#[derive(Clone)]
pub struct CpuView {
    shared: Arc<Shared>,
}

struct Shared {
    nodes: Cache<Node>,
    foreign: OptionalKinds,
    index: RwLock<Index>,
    sources: Mutex<Sources>,
    settings: RwLock<Arc<Settings>>,
    listeners: RwLock<Vec<Listener>>,
}

impl CpuView {
    /// Starts the watches; they run as long as the manager.
    pub fn start(manager: &Manager) -> Self {
        let foreign = manager.optional_kinds().clone();
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
        // Listeners hold weak references, so that they do not keep the view alive.
        let weak = Arc::downgrade(&shared);
        shared.nodes.on_change(move |change| {
            if let Some(shared) = weak.upgrade() {
                shared.node(change);
            }
        });
        let weak = Arc::downgrade(&shared);
        shared.foreign.on_change(move |change| {
            if let (Some(shared), OptionalKindChange::Object { kind, change, .. }) =
                (weak.upgrade(), change)
            {
                shared.object(kind, change);
            }
        });
        Self { shared }
    }

    /// Waits until all watched kinds are listed. A kind that is not installed counts as listed.
    pub async fn synced(&self) {
        self.shared.nodes.synced().await;
        self.shared.foreign.synced().await;
    }

    /// The nodes, indexed by the CPU models they support. The lock blocks updates: release it before
    /// awaiting.
    pub fn index(&self) -> RwLockReadGuard<'_, Index> {
        self.shared.index.read()
    }

    /// The settings of KubeVirt and of the policy.
    pub fn settings(&self) -> Arc<Settings> {
        Arc::clone(&self.shared.settings.read())
    }

    /// Calls `notify` for every change once the view shows it. Add a key to a queue and return.
    pub fn on_change(&self, notify: impl Fn(&ViewChange<'_>) + Send + Sync + 'static) {
        self.shared.listeners.write().push(Box::new(notify));
    }
}

impl Shared {
    fn node(&self, change: &Change<Node>) {
        let facts = |side: &Option<Arc<Node>>| side.as_deref().map(NodeInputs::from_node);
        let (old, new) = (facts(&change.old), facts(&change.new));
        // Node heartbeats change nothing that CPU models depend on.
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
        self.notify(&ViewChange::Node(name));
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
        self.notify(&ViewChange::Settings);
    }

    fn notify(&self, change: &ViewChange<'_>) {
        for listener in &*self.listeners.read() {
            listener(change);
        }
    }
}
