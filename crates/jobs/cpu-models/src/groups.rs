//! Nodes grouped by class, for an overview of the cluster.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::Serialize;

use crate::decide::Survey;
use crate::index::{Index, Indexed, ModelId};
use crate::policy::Policy;
use crate::table::Vendor;

/// Nodes of one class: the same architecture, vendor and host model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Group {
    /// Their architecture.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub architecture: Option<String>,
    /// Their vendor; `None` if labels are missing or ambiguous.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vendor: Option<Vendor>,
    /// Their host model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_model: Option<String>,
    /// Their names, sorted.
    pub nodes: Vec<String>,
    /// Models that all of them support and that the policy admits, best first.
    pub models: Vec<GroupModel>,
    /// How many models at least one of them supports, admitted or not.
    pub supported: u32,
}

/// A model that all nodes of a group support.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupModel {
    /// Its name.
    pub model: String,
    /// Its launch year.
    pub year: i32,
    /// How many nodes of the same vendor support it, in this group and in others.
    pub nodes: u32,
}

/// The groups of the nodes, largest first.
pub fn groups(index: &Index, policy: &Policy) -> Vec<Group> {
    type Key<'a> = (Option<&'a str>, Option<&'a Vendor>, Option<&'a str>);
    let mut by_key: BTreeMap<Key<'_>, Vec<&Indexed>> = BTreeMap::new();
    for (_, node) in index.nodes() {
        let key = (
            node.architecture.as_deref(),
            node.vendor.one(),
            index.host_model_of(node),
        );
        by_key.entry(key).or_default().push(node);
    }
    let mut survey = Survey::new(index, policy);
    let mut groups: Vec<Group> = by_key
        .into_iter()
        .map(|((architecture, vendor, host_model), nodes)| {
            let mut names: Vec<String> = nodes.iter().map(|node| node.name.to_string()).collect();
            names.sort();
            let mut counts: BTreeMap<ModelId, usize> = BTreeMap::new();
            for id in nodes.iter().flat_map(|node| &*node.models) {
                *counts.entry(*id).or_default() += 1;
            }
            // Of a class that is being updated, some nodes have new microcode and lack models; what
            // all have is safe to name.
            let common = counts.iter().filter(|(_, count)| **count == nodes.len());
            let common: Vec<ModelId> = common.map(|(id, _)| *id).collect();
            Group {
                architecture: architecture.map(str::to_owned),
                vendor: vendor.cloned(),
                host_model: host_model.map(str::to_owned),
                nodes: names,
                models: vendor.map_or_else(Vec::new, |vendor| survey.order(vendor, &common)),
                supported: u32::try_from(counts.len()).unwrap_or(u32::MAX),
            }
        })
        .collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.nodes.len()));
    groups
}

/// The models that nodes support and whose launch year neither the built-in table nor the policy
/// knows, sorted.
pub fn unknown_models(index: &Index, policy: &Policy) -> Vec<String> {
    let models = index.models().into_keys();
    let unknown = models.filter(|name| policy.model(name).is_none());
    unknown.map(str::to_owned).collect()
}
