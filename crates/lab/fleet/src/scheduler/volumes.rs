//! Claims, volumes and storage classes: where a pod's volumes are, or can be.

use std::collections::{HashMap, HashSet};
use std::str::FromStr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use machinery::node_affinity::volume_matches;
use machinery::quantity::Quantity as Exact;
use runtime::Key;
use serde_json::{Value, json};

use super::cluster::NodeInfo;
use super::pod::{self, Labels, PodInfo};
use super::reason::Reason;

const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
pub(crate) const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

/// Caches of claims, volumes and classes.
#[derive(Debug, Default)]
pub(crate) struct Volumes {
    pub(crate) claims: HashMap<Key, Arc<PersistentVolumeClaim>>,
    pub(crate) existing: HashMap<String, Arc<PersistentVolume>>,
    pub(crate) classes: HashMap<String, Arc<StorageClass>>,
    /// Volumes assumed for claims by decisions that are being written.
    pub(crate) promised: HashSet<String>,
}

/// The volumes of a pod.
#[derive(Debug, Default)]
pub(crate) struct Needs {
    /// Node affinity of bound volumes; `None` for missing ones.
    bound: Vec<Option<Value>>,
    /// Unbound claims of `WaitForFirstConsumer` classes, with the node an earlier decision
    /// selected.
    waiting: Vec<(Arc<PersistentVolumeClaim>, Option<String>)>,
}

/// How an unbound claim gets its volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    /// An existing volume.
    Existing(String),
    /// A volume provisioned for the node.
    Provisioned,
}

/// A claim and the source of its volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Supply {
    pub(crate) claim: Key,
    pub(crate) uid: String,
    pub(crate) source: Source,
}

/// Whether a claim is fully bound.
pub(crate) fn is_bound(claim: &PersistentVolumeClaim) -> bool {
    let named = claim
        .spec
        .as_ref()
        .and_then(|spec| spec.volume_name.as_deref())
        .is_some_and(|name| !name.is_empty());
    let annotations = claim.metadata.annotations.as_ref();
    let completed = annotations.is_some_and(|all| all.contains_key(BIND_COMPLETED));
    let phase = claim
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    named && (completed || phase == Some("Bound"))
}

/// The node a claim's volume is provisioned for.
pub(crate) fn selected_node(claim: &PersistentVolumeClaim) -> Option<&str> {
    let annotations = claim.metadata.annotations.as_ref()?;
    annotations.get(SELECTED_NODE).map(String::as_str)
}

impl Volumes {
    /// The volumes of a pod, or why it cannot be scheduled on any node. A selected node that no
    /// longer exists is ignored.
    pub(crate) fn needs(
        &self,
        pod: &PodInfo,
        node_exists: impl Fn(&str) -> bool,
    ) -> Result<Needs, String> {
        let mut needs = Needs::default();
        for name in &pod.claims {
            let key = Key::new(pod.key.namespace.clone(), name.clone());
            let Some(claim) = self.claims.get(&key) else {
                return Err(format!("persistentvolumeclaim {name:?} not found"));
            };
            if claim.metadata.deletion_timestamp.is_some() {
                return Err(format!("persistentvolumeclaim {name:?} is being deleted"));
            }
            if is_bound(claim) {
                let volume = claim
                    .spec
                    .as_ref()
                    .and_then(|spec| self.existing.get(spec.volume_name.as_deref()?));
                needs.bound.push(volume.map(|volume| affinity(volume)));
            } else if self.waits_for_consumer(claim) {
                let selected = selected_node(claim).filter(|name| node_exists(name));
                let selected = selected.map(str::to_owned);
                needs.waiting.push((Arc::clone(claim), selected));
            } else {
                return Err("pod has unbound immediate PersistentVolumeClaims".into());
            }
        }
        Ok(needs)
    }

    fn class(&self, claim: &PersistentVolumeClaim) -> Option<&StorageClass> {
        let name = claim.spec.as_ref()?.storage_class_name.as_deref()?;
        self.classes.get(name).map(|class| &**class)
    }

    fn waits_for_consumer(&self, claim: &PersistentVolumeClaim) -> bool {
        // A claim with `spec.volumeName` waits for that volume, not for a node.
        let named = claim
            .spec
            .as_ref()
            .and_then(|spec| spec.volume_name.as_deref())
            .is_some_and(|name| !name.is_empty());
        !named
            && self.class(claim).is_some_and(|class| {
                class.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer")
            })
    }

    /// The sources of the volumes on this node.
    pub(crate) fn supply(&self, needs: &Needs, node: &NodeInfo) -> Result<Vec<Supply>, Reason> {
        for volume in &needs.bound {
            let Some(spec) = volume else {
                return Err(Reason::VolumeGone);
            };
            if !volume_matches(spec, &node.view).unwrap_or(false) {
                return Err(Reason::VolumeConflict);
            }
        }
        // Two claims of one pod must not get the same volume.
        let mut taken = HashSet::new();
        let mut supplies = Vec::with_capacity(needs.waiting.len());
        for (claim, selected) in &needs.waiting {
            let source = match self.smallest_match(claim, node, &taken) {
                Some(name) => {
                    taken.insert(name.clone());
                    Source::Existing(name)
                }
                // An earlier decision is kept, since the provisioner may already be creating the
                // volume there.
                None if selected.as_ref().is_none_or(|name| *name == node.name)
                    && self.can_provision(claim, node) =>
                {
                    Source::Provisioned
                }
                None => return Err(Reason::NoVolume),
            };
            supplies.push(Supply {
                claim: Key::of(&claim.metadata),
                uid: claim.metadata.uid.clone().unwrap_or_default(),
                source,
            });
        }
        Ok(supplies)
    }

    fn can_provision(&self, claim: &PersistentVolumeClaim, node: &NodeInfo) -> bool {
        let Some(class) = self.class(claim) else {
            return false;
        };
        if class.provisioner == NO_PROVISIONER {
            return false;
        }
        let allowed = class.allowed_topologies.as_deref().unwrap_or_default();
        allowed.is_empty()
            || allowed.iter().any(|term| {
                term.match_label_expressions.iter().flatten().all(|wanted| {
                    let found = node.labels.get(&wanted.key);
                    found.is_some_and(|found| wanted.values.contains(found))
                })
            })
    }

    /// The smallest matching volume for a claim on a node; one already reserved for it goes first.
    fn smallest_match(
        &self,
        claim: &PersistentVolumeClaim,
        node: &NodeInfo,
        taken: &HashSet<String>,
    ) -> Option<String> {
        let spec = claim.spec.as_ref()?;
        let asked = spec
            .resources
            .as_ref()
            .and_then(|resources| resources.requests.as_ref()?.get("storage"))
            .and_then(|quantity| Exact::from_str(&quantity.0).ok());
        let labels = spec
            .selector
            .as_ref()
            .map(|wanted| pod::selector(Some(wanted)));
        let fits = |name: &str, volume: &PersistentVolume| -> Option<Exact> {
            let has = volume.spec.as_ref()?;
            let free = match &has.claim_ref {
                None => !taken.contains(name) && !self.promised.contains(name),
                Some(of) => {
                    of.namespace == claim.metadata.namespace
                        && of.name == claim.metadata.name
                        && of.uid.as_ref().is_none_or(|uid| {
                            uid.is_empty() || Some(uid) == claim.metadata.uid.as_ref()
                        })
                }
            };
            let modes = spec.access_modes.iter().flatten();
            let offers = has.access_modes.as_deref().unwrap_or_default();
            let mode =
                |mode: &Option<String>| mode.clone().unwrap_or_else(|| "Filesystem".to_owned());
            let size = Exact::from_str(&has.capacity.as_ref()?.get("storage")?.0).ok()?;
            let empty = Labels::new();
            let own = volume.metadata.labels.as_ref().unwrap_or(&empty);
            let fits = free
                && volume.metadata.deletion_timestamp.is_none()
                && class_name(has.storage_class_name.as_ref())
                    == class_name(spec.storage_class_name.as_ref())
                && modes.clone().all(|mode| offers.contains(mode))
                && mode(&has.volume_mode) == mode(&spec.volume_mode)
                && asked.as_ref().is_none_or(|asked| size >= *asked)
                && labels
                    .as_ref()
                    .is_none_or(|wanted| pod::matches(wanted, own))
                && volume_matches(&affinity(volume), &node.view).unwrap_or(false);
            fits.then_some(size)
        };
        self.existing
            .iter()
            .filter_map(|(name, volume)| {
                let given = volume.spec.as_ref()?.claim_ref.is_some();
                // Reserved ones first, then the smallest; the name decides between equal ones,
                // because a map has no order.
                Some((!given, fits(name, volume)?, name))
            })
            .min()
            .map(|(_, _, name)| name.clone())
    }
}

fn class_name(name: Option<&String>) -> &str {
    name.map(String::as_str).unwrap_or_default()
}

/// The node affinity of a volume.
fn affinity(volume: &PersistentVolume) -> Value {
    let spec = volume.spec.as_ref();
    json!({ "nodeAffinity": spec.and_then(|spec| spec.node_affinity.as_ref()) })
}
