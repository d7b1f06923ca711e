//! Inputs that several layers share: nodes, the HyperConverged, built-in templates, and the policy.

use std::sync::Arc;
use std::time::Duration;

use api::golden::GoldenImagePolicy;
use api::hco::{self, Images, Version};
use api::node;
use api::ssp::SSP;
use cluster_view::policies;
use golden_images::architectures::{self, Architectures};
use golden_images::policy::{EffectivePolicy, Override, Policy};
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::api::DynamicObject;
use kube::core::GroupVersionKind;
use kube::{Api, Resource};
use runtime::{
    Cache, Change, Error, Key, Manager, OptionalKindChange, OptionalKinds, decode, kind_of,
};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Timeout of the first list of an installed kind.
const LIST_TIMEOUT: Duration = Duration::from_secs(10);
/// Kind of the HyperConverged CR.
const HYPERCONVERGED: &str = "HyperConverged";

/// Shared inputs; clones share the caches.
#[derive(Clone)]
pub(super) struct Cluster {
    foreign: OptionalKinds,
    nodes: Cache<Node>,
    built_in: Cache<ConfigMap>,
}

/// A HyperConverged CR.
pub(super) struct Converged {
    /// Kind and version it was read in.
    pub(super) kind: GroupVersionKind,
    /// The object as read.
    pub(super) object: Arc<DynamicObject>,
    /// Its settings for golden images.
    pub(super) images: Images,
}

impl Cluster {
    /// Starts the caches; returns once nodes and built-in templates have synced.
    pub(super) async fn follow(manager: &Manager) -> Self {
        let foreign = manager.optional_kinds().clone();
        for version in Version::ALL {
            let kind = GroupVersionKind::gvk(hco::GROUP, version.name(), HYPERCONVERGED);
            foreign.follow(&kind);
        }
        foreign.follow(&kind_of::<GoldenImagePolicy>());
        let built_in = manager.watch(Cache::follow_named(
            Api::all(manager.client()),
            hco::TEMPLATES,
        ));
        let nodes = manager.cache::<Node>();
        nodes.synced().await;
        built_in.synced().await;
        Self {
            foreign,
            nodes,
            built_in,
        }
    }

    /// Calls `notify` when nodes or built-in templates change. [`concerns`] recognises the changes of the other inputs,
    /// which are foreign kinds.
    pub(super) fn on_change(&self, notify: impl Fn() + Clone + Send + Sync + 'static) {
        let on_nodes = notify.clone();
        self.nodes.on_change(move |change| {
            if affects_images(change) {
                on_nodes();
            }
        });
        self.built_in.on_change(move |_| notify());
    }

    /// Architectures of the current nodes.
    pub(super) fn architectures(
        &self,
        placement: Option<&Value>,
        policy: &Policy,
    ) -> Architectures {
        architectures::decide(&architectures::ArchitectureInputs {
            nodes: &self.nodes.list(),
            placement,
            wanted: Override {
                image: None,
                cluster: policy.default_architecture.as_deref(),
            },
        })
    }

    /// A built-in list of templates, from a ConfigMap next to the HyperConverged. An unreadable list is an error:
    /// treating it as empty would delete images.
    pub(super) fn built_in<T: DeserializeOwned>(
        &self,
        namespace: &str,
        key: &str,
    ) -> Result<Vec<T>, Error> {
        let map = self.built_in.get(namespace, hco::TEMPLATES);
        let data = map.as_ref().and_then(|map| map.data.as_ref());
        let Some(text) = data.and_then(|data| data.get(key)) else {
            return Ok(Vec::new());
        };
        serde_saphyr::from_str(text).map_err(|error| {
            Error::Invalid(format!(
                "reading {key} of ConfigMap {namespace}/{}: {error}; a list of templates in YAML is accepted",
                hco::TEMPLATES
            ))
        })
    }

    /// The GoldenImagePolicy.
    pub(super) async fn policy(&self) -> Result<EffectivePolicy, Error> {
        Ok(EffectivePolicy::new(policies::cached(&self.foreign).await?))
    }

    /// A HyperConverged, in the preferred served version.
    pub(super) async fn hyperconverged(&self, key: &Key) -> Result<Option<Converged>, Error> {
        let found = self.hyperconvergeds().await?;
        let mut found = found.into_iter();
        Ok(found.find(|it| Key::of(&it.object.metadata) == *key))
    }

    /// The HyperConverged that applies to a namespace: the one there, or else the only one in the cluster.
    pub(super) async fn hyperconverged_for(
        &self,
        namespace: &str,
    ) -> Result<Option<Converged>, Error> {
        let mut found = self.hyperconvergeds().await?;
        // Stable: the object of the namespace first, the others in the order of the cache.
        found.sort_by_key(|it| it.images.namespace != namespace);
        Ok(found.into_iter().next())
    }

    async fn hyperconvergeds(&self) -> Result<Vec<Converged>, Error> {
        let installed = self.foreign.kind(hco::GROUP, HYPERCONVERGED);
        let mut versions = Version::ALL.into_iter();
        let served = installed.and_then(|installed| {
            let version = versions.find(|version| installed.serves(version.name()))?;
            Some((installed.in_version(version.name()), version))
        });
        let Some((kind, version)) = served else {
            return Ok(Vec::new());
        };
        let Some(cache) = self.foreign.open(&kind).await? else {
            return Ok(Vec::new());
        };
        let objects = cache.list().into_iter();
        objects
            .map(|object| {
                let images = match version {
                    Version::V1 => decode::<hco::v1::HyperConverged>(&object)?.into(),
                    Version::V1Beta1 => decode::<hco::v1beta1::HyperConverged>(&object)?.into(),
                };
                Ok(Converged {
                    kind: kind.clone(),
                    object,
                    images,
                })
            })
            .collect()
    }
}

/// Whether a change is one of a HyperConverged or of the policy.
pub(super) fn concerns(change: &OptionalKindChange<'_>) -> bool {
    let kind = change.kind();
    is_hyperconverged(kind) || *kind == kind_of::<GoldenImagePolicy>()
}

/// Whether a kind is HyperConverged, in any version.
pub(super) fn is_hyperconverged(kind: &GroupVersionKind) -> bool {
    kind.group == hco::GROUP && kind.kind == HYPERCONVERGED
}

pub(super) fn ssp_kind() -> GroupVersionKind {
    kind_of::<SSP>()
}

/// Waits until the objects of a kind are listed; returns whether it is installed.
pub(super) async fn is_listed<K>(foreign: &OptionalKinds, cache: &Cache<K>) -> Result<bool, Error>
where
    K: runtime::Kind + Resource<DynamicType = ()>,
{
    let kind = kind_of::<K>();
    if foreign.kind(&kind.group, &kind.kind).is_none() {
        return Ok(false);
    }
    let listed = tokio::time::timeout(LIST_TIMEOUT, cache.synced()).await;
    listed.map(|()| true).map_err(|_| {
        Error::Late(format!(
            "listing {} ({}): no answer within {} s",
            kind.kind,
            kind.api_version(),
            LIST_TIMEOUT.as_secs()
        ))
    })
}

/// Whether a node changed in a part that images depend on; heartbeats do not.
fn affects_images(change: &Change<Node>) -> bool {
    let (old, new) = (change.old.as_deref(), change.new.as_deref());
    old.map(image_relevant_parts) != new.map(image_relevant_parts)
}

fn image_relevant_parts(node: &Node) -> impl PartialEq + use<'_> {
    let labels = node.metadata.labels.as_ref();
    (labels, node::architecture(node), node::os(node))
}
