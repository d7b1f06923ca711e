//! Which nodes the pods of a machine ask for because of its CPU model.
//!
//! A stock KubeVirt takes `best-match-model` for the name of a model, and makes the launcher pod ask
//! for a label that no node has. These functions say what the pod should ask for instead.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Affinity, NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm,
};

use crate::index::node::{NodeVendor, true_labels};
use crate::names::{
    BEST_MATCH_MODEL, FEATURE_LABEL, HOST_MODEL, HOST_MODEL_FEATURE_LABEL, HOST_MODEL_LABEL,
    HOST_PASSTHROUGH, MIGRATION_LABEL, MODEL_LABEL, OBSOLETE_HOST_MODEL_LABEL, TRUE, VENDOR_LABEL,
};

/// The nodes that a pod asks for.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Placement {
    /// `spec.nodeSelector`.
    pub node_selector: BTreeMap<String, String>,
    /// `spec.affinity`.
    pub affinity: Option<Affinity>,
}

/// Where a machine migrates from.
#[derive(Debug, Clone, Copy)]
pub struct Source<'a> {
    /// The node that it is on.
    pub node: &'a str,
    /// The labels of that node.
    pub labels: &'a BTreeMap<String, String>,
    /// What the pod that it is in asks for.
    pub node_selector: &'a BTreeMap<String, String>,
}

/// Why no pod can be made for a migration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// The words are KubeVirt's.
    #[error(
        "unable to locate host cpu model, node {node:?} does not contain label \"host-model-cpu.node.kubevirt.io/\" with information"
    )]
    NoHostModel {
        /// The node.
        node: String,
    },
}

/// The label that no node has.
pub fn impossible_label() -> String {
    format!("{MODEL_LABEL}{BEST_MATCH_MODEL}")
}

/// Whether a pod is that of a machine that leaves the choice to Medley: it asks for the label that no
/// node has.
pub fn is_undecided(node_selector: &BTreeMap<String, String>) -> bool {
    node_selector.contains_key(&impossible_label())
}

/// What the first pod of a machine asks for: no model, for it is chosen when the node is known.
///
/// Nodes whose own model is obsolete are left out, as for every machine that may end up with the
/// model of its host.
#[must_use]
pub fn initial(mut placement: Placement) -> Placement {
    placement.node_selector.remove(&impossible_label());
    avoid_obsolete_hosts(&mut placement.affinity);
    placement
}

/// What the pod that a machine migrates to asks for, once the model is known: a name, or one of the
/// words that stand for the host's.
pub fn target(
    mut placement: Placement,
    model: &str,
    source: Source<'_>,
) -> Result<Placement, TargetError> {
    placement.node_selector.remove(&impossible_label());
    match model {
        HOST_PASSTHROUGH => {}
        HOST_MODEL => {
            placement.node_selector.extend(host_model_labels(source)?);
            avoid_obsolete_hosts(&mut placement.affinity);
        }
        name => {
            let label = format!("{MODEL_LABEL}{name}");
            placement.node_selector.insert(label, TRUE.to_owned());
        }
    }
    let has_vendor = |key: &String| key.starts_with(VENDOR_LABEL);
    if !placement.node_selector.keys().any(has_vendor) {
        let labels = source.labels.iter();
        let vendor =
            NodeVendor::of_labels(labels.map(|(key, value)| (key.as_str(), value.as_str())));
        if let Some(vendor) = vendor.one() {
            // Labels may spell a vendor in another way than the table does.
            let spelt = true_labels(source.labels, VENDOR_LABEL)
                .find(|name| crate::table::Vendor::new(name) == *vendor)
                .unwrap_or(vendor.as_str());
            let label = format!("{VENDOR_LABEL}{spelt}");
            placement.node_selector.insert(label, TRUE.to_owned());
        }
    }
    Ok(placement)
}

/// The labels of nodes that a machine with the model of its host can migrate to.
///
/// A machine that has migrated before keeps what its pod asks for: the node that it started on
/// decides, so that it finds its way back. KubeVirt also takes features for a sign of that, which
/// forgets the host model of machines that demand a feature; only the model is one.
pub fn host_model_labels(source: Source<'_>) -> Result<BTreeMap<String, String>, TargetError> {
    let before = carried(source.node_selector);
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

/// What a pod asks for because its machine, which has the model of its host, migrated before; empty
/// if it did not.
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

/// Adds to every term that the model of the host must not be obsolete. Terms are alternatives, so
/// each has to say it; a term that says nothing matches nothing, and is left to.
fn avoid_obsolete_hosts(affinity: &mut Option<Affinity>) {
    let avoid = || NodeSelectorRequirement {
        key: OBSOLETE_HOST_MODEL_LABEL.to_owned(),
        operator: "DoesNotExist".to_owned(),
        values: None,
    };
    let required = &mut affinity
        .get_or_insert_with(Affinity::default)
        .node_affinity
        .get_or_insert_with(NodeAffinity::default)
        .required_during_scheduling_ignored_during_execution;
    let Some(selector) = required else {
        *required = Some(NodeSelector {
            node_selector_terms: vec![NodeSelectorTerm {
                match_expressions: Some(vec![avoid()]),
                match_fields: None,
            }],
        });
        return;
    };
    for term in &mut selector.node_selector_terms {
        let says = |list: &Option<Vec<NodeSelectorRequirement>>| {
            list.as_ref().is_some_and(|list| !list.is_empty())
        };
        if !says(&term.match_expressions) && !says(&term.match_fields) {
            continue;
        }
        let expressions = term.match_expressions.get_or_insert_default();
        if !expressions.contains(&avoid()) {
            expressions.push(avoid());
        }
    }
}
