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

mod inspect;
mod nodes;
mod pulls;
mod read;
mod read_cache;
mod registries;
mod release;
mod snapshot;
mod traffic;

use std::collections::BTreeMap;
use std::sync::Arc;

use api::placement::PlacementPolicy;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::core::v1::{Namespace, Node};
use k8s_openapi::api::node::v1;
use kube::api::DynamicObject;
use kube::{Api, Client, ResourceExt as _};
use parking_lot::MappedRwLockReadGuard;
use placement::multiarch::{self, MultiarchTuning};
use placement::{Policies, RuntimeClass};
use runtime::{Cache, Change, Error, Manager, OptionalKindChange, OptionalKinds, kind_of};
use serde_json::json;

use crate::nodes::NodeView;
use crate::placement::read::read;
use crate::policies;
pub use crate::settings::ViewChange;
use crate::settings::{Derived, Listeners, apply};

pub use inspect::inspect_images;
pub use nodes::PlacementNodes;
pub use pulls::PullCredentials;
pub use registries::{Failure, Registries};
pub use release::{write_changes, write_release};
pub use snapshot::PlacementSnapshot;
pub use traffic::RegistryMetrics;

/// The cluster state placement decisions read besides the pod; clones share it.
#[derive(Clone)]
pub struct PlacementView {
    client: Client,
    nodes: Cache<Node>,
    cluster: NodeView<PlacementNodes>,
    namespaces: Cache<Namespace>,
    runtime_classes: Cache<v1::RuntimeClass>,
    multiarch: Cache<MutatingWebhookConfiguration>,
    kinds: OptionalKinds,
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

#[derive(Default)]
struct Shared {
    settings: Derived<Sources>,
    listeners: Listeners,
}

/// The objects that settings are derived from.
#[derive(Default)]
struct Sources {
    policies: BTreeMap<String, PlacementPolicy>,
    classes: BTreeMap<String, RuntimeClass>,
    multiarch: Option<MultiarchTuning>,
}

impl crate::settings::Sources for Sources {
    type Settings = Settings;

    fn settings(&self) -> Settings {
        let multiarch = self.multiarch.clone();
        Settings::new(self.policies.values(), self.classes.clone(), multiarch)
    }
}

impl Settings {
    /// Merges these objects; the RuntimeClasses are by name.
    pub fn new<'a>(
        policies: impl IntoIterator<Item = &'a PlacementPolicy>,
        classes: BTreeMap<String, RuntimeClass>,
        multiarch: Option<MultiarchTuning>,
    ) -> Self {
        let policies = policies.into_iter().map(|policy| {
            let name = policy.metadata.name.as_deref();
            (name.unwrap_or_default(), &policy.spec)
        });
        Self {
            policies: Policies::new(policies, &classes).beside(multiarch),
            classes,
        }
    }
}

impl PlacementView {
    /// Starts the watches; they run as long as the manager.
    pub fn start(manager: &Manager) -> Self {
        let kinds = manager.optional_kinds().clone();
        kinds.follow(&kind_of::<PlacementPolicy>());
        let shared = Arc::<Shared>::default();
        // Listeners hold weak references, so that they do not keep the view alive.
        let weak = Arc::downgrade(&shared);
        let nodes = manager.cache();
        let cluster = NodeView::follow(&nodes, move |name| {
            if let Some(shared) = weak.upgrade() {
                shared.listeners.notify(&ViewChange::Node(name));
            }
        });
        let runtime_classes: Cache<v1::RuntimeClass> = manager.cache();
        let weak = Arc::downgrade(&shared);
        runtime_classes.on_change(move |change| {
            if let Some(shared) = weak.upgrade() {
                shared.class(change);
            }
        });
        let registrations: Api<MutatingWebhookConfiguration> = Api::all(manager.client());
        let multiarch = manager.watch(Cache::follow_named(registrations, multiarch::REGISTRATION));
        let weak = Arc::downgrade(&shared);
        multiarch.on_change(move |change| {
            if let Some(shared) = weak.upgrade() {
                let live = change.new.as_deref();
                let live = live.and_then(|live| MultiarchTuning::read(&json!(live)));
                shared.update(|sources| sources.multiarch = live);
            }
        });
        let weak = Arc::downgrade(&shared);
        kinds.on_change(move |change| {
            if let (Some(shared), OptionalKindChange::Object { kind, change, .. }) =
                (weak.upgrade(), change)
                && *kind == &kind_of::<PlacementPolicy>()
            {
                shared.policy(change);
            }
        });
        Self {
            client: manager.client(),
            nodes,
            cluster,
            namespaces: manager.cache(),
            runtime_classes,
            multiarch,
            kinds,
            shared,
        }
    }

    /// Waits until all watched kinds are listed. A kind that is not installed counts as listed.
    pub async fn synced(&self) {
        self.nodes.synced().await;
        self.namespaces.synced().await;
        self.runtime_classes.synced().await;
        self.multiarch.synced().await;
        self.kinds.synced().await;
    }

    /// The nodes and what they offer. The lock blocks updates: release it before awaiting.
    pub fn cluster(&self) -> MappedRwLockReadGuard<'_, PlacementNodes> {
        self.cluster.read()
    }

    /// The current policies and runtime classes.
    pub fn settings(&self) -> Arc<Settings> {
        self.shared.settings.current()
    }

    /// The labels of a namespace. A namespace missing from the cache was created a moment ago, and is
    /// read from the API server.
    pub async fn labels(&self, namespace: &str) -> Result<BTreeMap<String, String>, Error> {
        if let Some(known) = self.namespaces.get("", namespace) {
            return Ok(known.labels().clone());
        }
        let api: Api<Namespace> = Api::all(self.client.clone());
        // Admission of the first pod of a namespace often follows its creation by milliseconds. Empty labels would
        // select the wrong policy, so this one case pays for a request.
        let found = read(&api, namespace).await;
        let found = found.map_err(Error::api(format!("reading namespace {namespace}")))?;
        Ok(found
            .map(|found| found.labels().clone())
            .unwrap_or_default())
    }

    /// Calls `notify` for every change once the view shows it. Add a key to a queue and return.
    pub fn on_change(&self, notify: impl Fn(&ViewChange<'_>) + Send + Sync + 'static) {
        self.shared.listeners.add(notify);
    }
}

impl Shared {
    fn class(&self, change: &Change<v1::RuntimeClass>) {
        let read = |class: &_| Some(RuntimeClass::read(&json!(class)));
        self.update(|sources| apply(&mut sources.classes, change, read));
    }

    fn policy(&self, change: &Change<DynamicObject>) {
        self.update(|sources| apply(&mut sources.policies, change, policies::decode));
    }

    fn update(&self, change: impl FnOnce(&mut Sources)) {
        if self.settings.update(change) {
            self.listeners.notify(&ViewChange::Settings);
        }
    }
}
