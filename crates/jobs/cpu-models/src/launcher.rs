//! Node selectors of virt-launcher pods that depend on the CPU model.
//!
//! An unmodified KubeVirt takes `best-match-model` for the name of a model, and makes the launcher
//! pod select a label that no node has. These functions compute the selector that replaces it.

#[cfg(test)]
mod tests;

use std::borrow::Borrow;
use std::collections::BTreeMap;

use api::kubevirt::{VirtualMachineInstance, annotations, labels};
use k8s_openapi::api::core::v1::{
    Affinity, Container, NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm,
    Pod, PodSpec, PreferredSchedulingTerm,
};
use kube_core::ResourceExt as _;
use serde_json::{Value, json};

use crate::index::node::{NodeVendor, true_labels};
use crate::names::{
    BEST_MATCH_MODEL, FEATURE_LABEL, HOST_MODEL, HOST_MODEL_FEATURE_LABEL, HOST_MODEL_LABEL,
    HOST_PASSTHROUGH, MIGRATION_LABEL, MODEL_LABEL, OBSOLETE_HOST_MODEL_LABEL, TRUE, VENDOR_LABEL,
};

/// The weight of the preference for nodes whose host model is not obsolete: the largest that Kubernetes allows.
const AVOIDANCE_WEIGHT: i32 = 100;

/// The node constraints of a pod.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Placement {
    /// `spec.nodeSelector`.
    pub node_selector: BTreeMap<String, String>,
    /// `spec.affinity`.
    pub affinity: Option<Affinity>,
}

impl Placement {
    /// The node constraints of a pod.
    pub fn of_pod(pod: &Pod) -> Self {
        let spec = pod.spec.as_ref();
        let selector = spec.and_then(|spec| spec.node_selector.clone());
        Self {
            node_selector: selector.unwrap_or_default(),
            affinity: spec.and_then(|spec| spec.affinity.clone()),
        }
    }

    /// The JSON patch that changes a pod with these constraints to others.
    pub fn patch_to(&self, wanted: &Self) -> Vec<Value> {
        let add = |path: &str, value: Value| json!({ "op": "add", "path": path, "value": value });
        let mut patch = Vec::new();
        if self.node_selector != wanted.node_selector {
            patch.push(add("/spec/nodeSelector", json!(wanted.node_selector)));
        }
        if self.affinity != wanted.affinity {
            patch.push(add("/spec/affinity", json!(wanted.affinity)));
        }
        patch
    }
}

/// Whether a launcher pod is the target of a migration.
pub fn is_migration_target(pod: &Pod) -> bool {
    pod.labels().contains_key(labels::MIGRATION)
}

/// The name of the instance of a launcher pod: that of its owner, else of KubeVirt's annotation.
pub fn instance_name(pod: &Pod) -> Option<&str> {
    let mut owners = pod.owner_references().iter();
    let owner = owners.find(|owner| owner.kind == "VirtualMachineInstance");
    let owner = owner.map(|owner| owner.name.as_str());
    owner.or_else(|| {
        pod.annotations()
            .get(annotations::DOMAIN)
            .map(String::as_str)
    })
}

/// Whether a pod is a launcher of this instance, and not of another one with the same name.
pub fn belongs_to(pod: &Pod, instance: &VirtualMachineInstance) -> bool {
    let uid = pod.labels().get(labels::CREATED_BY);
    // The launcher of an earlier instance may still terminate when the VM starts again under its
    // name.
    uid.is_none_or(|uid| instance.metadata.uid.as_ref() == Some(uid))
}

/// The first of these pods that is on the node.
pub fn on_node<'p, P: Borrow<Pod>>(node: &str, pods: &'p [P]) -> Option<&'p Pod> {
    let node_of = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
    let mut pods = pods.iter().map(Borrow::borrow);
    pods.find(|pod| node_of(pod).as_deref() == Some(node))
}

/// The labels that a pod selects for its VM: without those that depend on the node that it started on or migrates from,
/// and without CPU features, which follow from the instance.
pub(crate) fn lasting(
    node_selector: Option<&BTreeMap<String, String>>,
) -> BTreeMap<String, String> {
    let of_node = [MODEL_LABEL, MIGRATION_LABEL, VENDOR_LABEL, FEATURE_LABEL];
    let labels = node_selector.into_iter().flatten();
    let kept = labels.filter(|(key, _)| !of_node.iter().any(|prefix| key.starts_with(prefix)));
    kept.map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

/// Drops what no demand depends on: there are as many launchers as VMs.
pub fn trim(pod: &mut Pod) {
    pod.metadata.managed_fields = None;
    pod.metadata.annotations = None;
    pod.status = None;
    let Some(spec) = &mut pod.spec else {
        return;
    };
    let resources = |containers: Vec<Container>| -> Vec<Container> {
        let kept = containers.into_iter().map(|container| Container {
            resources: container.resources,
            restart_policy: container.restart_policy,
            ..Container::default()
        });
        kept.collect()
    };
    let node_affinity = spec.affinity.take().and_then(|it| it.node_affinity);
    *spec = PodSpec {
        node_name: spec.node_name.take(),
        node_selector: spec.node_selector.take(),
        affinity: node_affinity.map(|node_affinity| Affinity {
            node_affinity: Some(node_affinity),
            ..Affinity::default()
        }),
        tolerations: spec.tolerations.take(),
        containers: resources(std::mem::take(&mut spec.containers)),
        init_containers: spec.init_containers.take().map(resources),
        overhead: spec.overhead.take(),
        ..PodSpec::default()
    };
}

/// The source of a migration.
#[derive(Debug, Clone, Copy)]
pub struct Source<'a> {
    /// The node that the VM runs on.
    pub node: &'a str,
    /// The labels of that node.
    pub labels: &'a BTreeMap<String, String>,
    /// `spec.nodeSelector` of the pod that it runs in.
    pub node_selector: &'a BTreeMap<String, String>,
}

/// Why no target pod can be created for a migration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// KubeVirt's wording, with the node added.
    #[error(
        "unable to locate host cpu model, node {node:?} does not contain label \"host-model-cpu.node.kubevirt.io/\" with information"
    )]
    NoHostModel {
        /// The node.
        node: String,
    },
}

/// The label of the model `best-match-model`, which no node has.
pub fn best_match_label() -> String {
    format!("{MODEL_LABEL}{BEST_MATCH_MODEL}")
}

/// Whether a pod belongs to a VM whose model is not chosen yet: it selects the label that no node
/// has.
pub fn is_undecided(node_selector: &BTreeMap<String, String>) -> bool {
    node_selector.contains_key(&best_match_label())
}

/// The constraints of the first launcher pod of a VM: no model, because it is chosen once the pod
/// is bound.
///
/// Nodes with an obsolete host model come last, because the VM may end up with `host-model`. They are not excluded:
/// such a node may support a model by name, and a VM that names it can run there.
#[must_use]
pub fn initial(mut placement: Placement) -> Placement {
    placement.node_selector.remove(&best_match_label());
    let preferred = &mut placement
        .affinity
        .get_or_insert_with(Affinity::default)
        .node_affinity
        .get_or_insert_with(NodeAffinity::default)
        .preferred_during_scheduling_ignored_during_execution;
    let preferred = preferred.get_or_insert_default();
    let term = PreferredSchedulingTerm {
        preference: NodeSelectorTerm {
            match_expressions: Some(vec![no_obsolete_host_model()]),
            match_fields: None,
        },
        weight: AVOIDANCE_WEIGHT,
    };
    if !preferred.contains(&term) {
        preferred.push(term);
    }
    placement
}

/// The constraints of a target pod whose instance is unknown or has no model yet: those requested, except for the label
/// that no node has.
#[must_use]
pub fn without_model(mut placement: Placement) -> Placement {
    placement.node_selector.remove(&best_match_label());
    placement
}

/// The constraints of the target pod of a migration, for a chosen model: a model name, `host-model`
/// or `host-passthrough`.
pub fn target(
    mut placement: Placement,
    model: &str,
    source: Source<'_>,
) -> Result<Placement, TargetError> {
    placement.node_selector.remove(&best_match_label());
    match model {
        HOST_PASSTHROUGH => {}
        HOST_MODEL => {
            placement.node_selector.extend(host_model_labels(source)?);
            // KubeVirt requires it of every target with host-model. A VM that runs on such a node itself would have
            // no target of its own kind left.
            if source.labels.contains_key(OBSOLETE_HOST_MODEL_LABEL) {
                allow_obsolete_hosts(&mut placement.affinity);
            } else {
                avoid_obsolete_hosts(&mut placement.affinity);
            }
        }
        name => {
            let label = format!("{MODEL_LABEL}{name}");
            placement.node_selector.insert(label, TRUE.to_owned());
        }
    }
    // As KubeVirt after 1.7 does it for every migration, whatever the model. It takes any vendor label of
    // the source (`getCPUVendorLabelKey`); of two, the right one is taken here.
    let has_vendor = |key: &String| key.starts_with(VENDOR_LABEL);
    if !placement.node_selector.keys().any(has_vendor) {
        let labels = source.labels.iter();
        let vendor =
            NodeVendor::of_labels(labels.map(|(key, value)| (key.as_str(), value.as_str())));
        if let Some(vendor) = vendor.one() {
            // The label may spell the vendor differently from the table (CentaurHauls for Zhaoxin).
            let spelt = true_labels(source.labels, VENDOR_LABEL)
                .find(|name| crate::table::Vendor::new(name) == *vendor)
                .unwrap_or(vendor.as_str());
            let label = format!("{VENDOR_LABEL}{spelt}");
            placement.node_selector.insert(label, TRUE.to_owned());
        }
    }
    Ok(placement)
}

/// The labels of nodes that a VM with `host-model` can migrate to.
///
/// A VM that has migrated before keeps the selector of its pod: the node that it started on
/// decides, so that it can migrate back. KubeVirt also takes a `cpu-feature` key as a sign of an
/// earlier migration, and so loses the host model of VMs that require a feature; here only a
/// `cpu-model-migration` key is one.
pub fn host_model_labels(source: Source<'_>) -> Result<BTreeMap<String, String>, TargetError> {
    let before = carried(source.node_selector);
    // As in `prepareNodeSelectorForHostCpuModel`: labels of the current node could exclude the
    // first one.
    if !before.is_empty() {
        return Ok(before);
    }
    let model = true_labels(source.labels, HOST_MODEL_LABEL).next();
    let model = model.ok_or_else(|| TargetError::NoHostModel {
        node: source.node.to_owned(),
    })?;
    let features = true_labels(source.labels, HOST_MODEL_FEATURE_LABEL);
    let features = features.map(|feature| (format!("{FEATURE_LABEL}{feature}"), TRUE.to_owned()));
    let model = (format!("{MIGRATION_LABEL}{model}"), TRUE.to_owned());
    Ok(features.chain([model]).collect())
}

/// The labels that a pod selects because its VM has `host-model` and migrated before; empty if it
/// did not.
pub fn carried(node_selector: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let migrated = |key: &String| key.starts_with(MIGRATION_LABEL);
    if !node_selector.keys().any(migrated) {
        return BTreeMap::new();
    }
    let kept = node_selector
        .iter()
        .filter(|(key, _)| migrated(key) || key.starts_with(FEATURE_LABEL));
    kept.map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

fn no_obsolete_host_model() -> NodeSelectorRequirement {
    NodeSelectorRequirement {
        key: OBSOLETE_HOST_MODEL_LABEL.to_owned(),
        operator: "DoesNotExist".to_owned(),
        values: None,
    }
}

/// Removes `obsolete-host-model DoesNotExist` from every term.
fn allow_obsolete_hosts(affinity: &mut Option<Affinity>) {
    let node_affinity = affinity.as_mut().and_then(|it| it.node_affinity.as_mut());
    let Some(node_affinity) = node_affinity else {
        return;
    };
    let required = &mut node_affinity.required_during_scheduling_ignored_during_execution;
    let terms = required
        .iter_mut()
        .flat_map(|it| &mut it.node_selector_terms);
    let mut matches_any_node = false;
    for term in terms {
        let expressions = term.match_expressions.get_or_insert_default();
        let before = expressions.len();
        expressions.retain(|it| *it != no_obsolete_host_model());
        let fields = term.match_fields.as_deref().unwrap_or_default();
        // A term that is empty now was only there for this; left empty it would match no node.
        matches_any_node |= before > 0 && expressions.is_empty() && fields.is_empty();
    }
    if matches_any_node {
        *required = None;
    }
}

/// Adds `obsolete-host-model DoesNotExist` to every term. Terms are ORed, so each needs it; an
/// empty term matches no node and must stay empty.
fn avoid_obsolete_hosts(affinity: &mut Option<Affinity>) {
    let required = &mut affinity
        .get_or_insert_with(Affinity::default)
        .node_affinity
        .get_or_insert_with(NodeAffinity::default)
        .required_during_scheduling_ignored_during_execution;
    let Some(selector) = required else {
        *required = Some(NodeSelector {
            node_selector_terms: vec![NodeSelectorTerm {
                match_expressions: Some(vec![no_obsolete_host_model()]),
                match_fields: None,
            }],
        });
        return;
    };
    for term in &mut selector.node_selector_terms {
        let is_filled = |list: &Option<Vec<NodeSelectorRequirement>>| {
            list.as_ref().is_some_and(|list| !list.is_empty())
        };
        if !is_filled(&term.match_expressions) && !is_filled(&term.match_fields) {
            continue;
        }
        let expressions = term.match_expressions.get_or_insert_default();
        if !expressions.contains(&no_obsolete_host_model()) {
            expressions.push(no_obsolete_host_model());
        }
    }
}
