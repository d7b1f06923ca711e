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
mod snapshot;

use std::sync::Arc;

use api::cpu::CpuModelPolicy;
use api::kubevirt::KubeVirt;
use cpu_models::{Index, NodeInputs};
use k8s_openapi::api::core::v1::Node;
use kube::api::DynamicObject;
use kube::core::GroupVersionKind;
use parking_lot::MappedRwLockReadGuard;
use runtime::{Cache, Change, Manager, OptionalKindChange, OptionalKinds, kind_of};

use crate::nodes::{NodeIndex, NodeView};
pub use crate::settings::ViewChange;
use crate::settings::{Derived, Listeners};
pub use cpu_models::Settings;
use settings::Sources;
pub use settings::settings;
pub use snapshot::CpuSnapshot;

impl NodeIndex for Index {
    type Inputs = NodeInputs;

    fn read(node: &Node) -> NodeInputs {
        NodeInputs::from_node(node)
    }

    fn upsert(&mut self, node: NodeInputs) {
        self.upsert(&node);
    }

    fn remove(&mut self, name: &str) {
        self.remove(name);
    }
}

/// The cluster state CPU model decisions read; clones share it.
#[derive(Clone)]
pub struct CpuView {
    nodes: Cache<Node>,
    index: NodeView<Index>,
    kinds: OptionalKinds,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    settings: Derived<Sources>,
    listeners: Listeners,
}

impl CpuView {
    /// Starts the watches; they run as long as the manager.
    pub fn start(manager: &Manager) -> Self {
        let kinds = manager.optional_kinds().clone();
        kinds.follow(&kind_of::<KubeVirt>());
        kinds.follow(&kind_of::<CpuModelPolicy>());
        let shared = Arc::<Shared>::default();
        // Listeners hold weak references, so that they do not keep the view alive.
        let weak = Arc::downgrade(&shared);
        let nodes = manager.cache();
        let index = NodeView::follow(&nodes, move |name| {
            if let Some(shared) = weak.upgrade() {
                shared.listeners.notify(&ViewChange::Node(name));
            }
        });
        let weak = Arc::downgrade(&shared);
        kinds.on_change(move |change| {
            if let (Some(shared), OptionalKindChange::Object { kind, change, .. }) =
                (weak.upgrade(), change)
            {
                shared.object(kind, change);
            }
        });
        Self {
            nodes,
            index,
            kinds,
            shared,
        }
    }

    /// Waits until all watched kinds are listed. A kind that is not installed counts as listed.
    pub async fn synced(&self) {
        self.nodes.synced().await;
        self.kinds.synced().await;
    }

    /// The nodes, indexed by the CPU models they support. The lock blocks updates: release it before
    /// awaiting.
    pub fn index(&self) -> MappedRwLockReadGuard<'_, Index> {
        self.index.read()
    }

    /// The settings of KubeVirt and of the policy.
    pub fn settings(&self) -> Arc<Settings> {
        self.shared.settings.current()
    }

    /// Calls `notify` for every change once the view shows it. Add a key to a queue and return.
    pub fn on_change(&self, notify: impl Fn(&ViewChange<'_>) + Send + Sync + 'static) {
        self.shared.listeners.add(notify);
    }
}

impl Shared {
    fn object(&self, kind: &GroupVersionKind, change: &Change<DynamicObject>) {
        let changed = if *kind == kind_of::<KubeVirt>() {
            self.settings.update(|sources| sources.kubevirt(change))
        } else if *kind == kind_of::<CpuModelPolicy>() {
            self.settings.update(|sources| sources.policy(change))
        } else {
            false
        };
        if changed {
            self.listeners.notify(&ViewChange::Settings);
        }
    }
}
