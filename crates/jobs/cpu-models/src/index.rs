//! The nodes of the cluster as bit sets, so that a query costs a few bit operations instead of a
//! scan of all nodes.

mod capacity;
mod labels;
pub mod node;
mod select;
pub(crate) mod set;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use capacity::{Allocatable, Capacity};
use fixedbitset::FixedBitSet;
use serde_json::Value;

pub(crate) use labels::{Label, LabelId, ModelId};
use labels::{Labels, next};
use node::{NodeInputs, NodeVendor};
pub(crate) use select::Selection;
use select::keep;
use set::NodeSet;

use crate::names::{
    FEATURE_LABEL, HOST_MODEL_FEATURE_LABEL, HOST_MODEL_LABEL, MIGRATION_LABEL, MODEL_LABEL,
    SCHEDULABLE_LABEL, TRUE,
};
use crate::table::Vendor;

/// Taints that repeat `spec.unschedulable` or the Ready condition. They are folded into those
/// states, so that `spec.nodes` of the policy decides about them, not the taint rule.
const UNSCHEDULABLE_TAINT: &str = "node.kubernetes.io/unschedulable";
const NOT_READY_TAINTS: [&str; 2] = [
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
];
/// The taint effects that keep new pods away.
const EFFECTS: [&str; 2] = ["NoSchedule", "NoExecute"];

/// The nodes of the cluster.
///
/// Updates are incremental: the cost of a change depends on the labels of that node, not on the
/// number of nodes.
#[derive(Debug, Clone, Default)]
pub struct Index {
    places: HashMap<Arc<str>, u32>,
    nodes: Vec<Option<Indexed>>,
    free: Vec<u32>,
    all: FixedBitSet,
    labels: Labels,
    vendors: BTreeMap<Vendor, NodeSet>,
    architectures: BTreeMap<String, NodeSet>,
    taints: Vec<(Value, NodeSet)>,
    unschedulable: NodeSet,
    not_ready: NodeSet,
    capacity: Capacity,
}

/// A node in the index.
#[derive(Debug, Clone)]
pub(crate) struct Indexed {
    pub(crate) name: Arc<str>,
    /// Sorted.
    labels: Box<[LabelId]>,
    /// The models that it supports, sorted.
    pub(crate) models: Box<[ModelId]>,
    /// The labels of its host model and its required features, sorted. Nodes of one class have the
    /// same.
    pub(crate) host: Box<[LabelId]>,
    pub(crate) vendor: NodeVendor,
    pub(crate) architecture: Option<String>,
    allocatable: Allocatable,
}

impl Indexed {
    /// How much of a resource it offers, in thousandths; `None` if it reports no resources at all.
    pub(crate) fn offers(&self, resource: &str) -> Option<i64> {
        let found = self
            .allocatable
            .iter()
            .find(|(name, _)| **name == *resource);
        let offered = found.map(|(_, amount)| *amount);
        (!self.allocatable.is_empty()).then(|| offered.unwrap_or_default())
    }
}

impl Index {
    /// Builds the index of these nodes.
    pub fn new(nodes: impl IntoIterator<Item = NodeInputs>) -> Self {
        let mut index = Self::default();
        for node in nodes {
            index.upsert(&node);
        }
        index
    }

    /// The number of nodes.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether the index has no nodes.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Whether the index has a node of this name.
    pub fn contains(&self, name: &str) -> bool {
        self.places.contains_key(name)
    }

    /// The names of all nodes, sorted.
    pub fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.places.keys().map(|name| &**name).collect();
        names.sort_unstable();
        names
    }

    /// Adds a node, or applies its changes.
    pub fn upsert(&mut self, facts: &NodeInputs) {
        let place = self.place(&facts.name);
        if let Some(before) = self.nodes[place as usize].take() {
            for id in before.labels {
                let label = self.labels.label(id);
                let stays = facts.labels.get(&*label.key);
                // Labels that stay keep their ids and sets: most updates change none of the
                // hundreds that a node has. Removed before anything is added, as `Labels::take`
                // requires.
                if stays.is_none_or(|value| **value != *label.value) {
                    self.labels.take(id, place);
                }
            }
            self.capacity.take(&before.allocatable, place);
            self.forget(place, &before.vendor, before.architecture.as_deref());
        }
        let mut ids = Vec::with_capacity(facts.labels.len());
        let (mut models, mut host) = (Vec::new(), Vec::new());
        for (key, value) in &facts.labels {
            let id = self.labels.put(key, value, place);
            ids.push(id);
            models.extend(self.labels.label(id).model);
            let of_host =
                key.starts_with(HOST_MODEL_LABEL) || key.starts_with(HOST_MODEL_FEATURE_LABEL);
            if of_host && value == TRUE {
                host.push(id);
            }
        }
        ids.sort_unstable();
        models.sort_unstable();
        host.sort_unstable();
        let vendor = facts.vendor();
        if let Some(one) = vendor.one() {
            self.vendors.entry(one.clone()).or_default().insert(place);
        }
        if let Some(name) = &facts.architecture {
            let nodes = self.architectures.entry(name.clone()).or_default();
            nodes.insert(place);
        }
        self.note_state(facts, place);
        self.nodes[place as usize] = Some(Indexed {
            name: Arc::from(facts.name.as_str()),
            labels: ids.into(),
            models: models.into(),
            host: host.into(),
            vendor,
            architecture: facts.architecture.clone(),
            allocatable: self.capacity.put(&facts.allocatable, place),
        });
    }

    /// Removes a node; returns whether the index had it.
    pub fn remove(&mut self, name: &str) -> bool {
        let Some(place) = self.places.remove(name) else {
            return false;
        };
        self.all.remove(place as usize);
        if let Some(node) = self.nodes[place as usize].take() {
            for id in node.labels {
                self.labels.take(id, place);
            }
            self.capacity.take(&node.allocatable, place);
            self.forget(place, &node.vendor, node.architecture.as_deref());
        }
        // Places are reused: bit sets are as long as the largest one, and clusters with autoscaling
        // replace nodes without end.
        self.free.push(place);
        true
    }

    /// The labels of a node; `None` if the index does not have it.
    pub fn labels_of(&self, name: &str) -> Option<BTreeMap<&str, &str>> {
        let node = self.node(self.place_of(name)?)?;
        Some(self.labels_in(node).collect())
    }

    /// A new node of the same class as an indexed one: ready, schedulable and without taints.
    pub fn node_like(&self, like: &str) -> Option<NodeInputs> {
        let node = self.node(self.place_of(like)?)?;
        let labels = self.labels_in(node);
        Some(NodeInputs {
            name: like.to_owned(),
            labels: labels
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .collect(),
            ready: true,
            architecture: node.architecture.clone(),
            allocatable: node
                .allocatable
                .iter()
                .map(|(name, amount)| (name.to_string(), *amount))
                .collect(),
            ..NodeInputs::default()
        })
    }

    /// The models that at least one node supports, by name, and the number of nodes that do.
    pub fn models(&self) -> BTreeMap<&str, usize> {
        let models = self.labels.models();
        models
            .map(|(_, label)| (label.model_name(), label.nodes.len()))
            .collect()
    }

    pub(crate) fn place_of(&self, name: &str) -> Option<u32> {
        self.places.get(name).copied()
    }

    pub(crate) fn node(&self, place: u32) -> Option<&Indexed> {
        self.nodes.get(place as usize)?.as_ref()
    }

    /// The models that at least one node supports.
    pub(crate) fn all_models(&self) -> impl Iterator<Item = (ModelId, &Label)> {
        self.labels.models()
    }

    /// All nodes, in arbitrary order.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = (u32, &Indexed)> {
        let places = self.nodes.iter().enumerate();
        places.filter_map(|(place, node)| Some((next(place), node.as_ref()?)))
    }

    pub(crate) fn labels_in<'a>(
        &'a self,
        node: &'a Indexed,
    ) -> impl Iterator<Item = (&'a str, &'a str)> {
        node.labels.iter().map(|id| {
            let label = self.labels.label(*id);
            (&*label.key, &*label.value)
        })
    }

    /// The host model of a node; the first by name while the node labeller is between two labels.
    pub(crate) fn host_model_of(&self, node: &Indexed) -> Option<&str> {
        self.host_model_in(&node.host)
    }

    fn host_model_in(&self, host: &[LabelId]) -> Option<&str> {
        let labels = host.iter().map(|id| self.labels.label(*id));
        let models = labels.filter_map(|label| label.key.strip_prefix(HOST_MODEL_LABEL));
        models.min()
    }

    /// The nodes that can run VMs with the host model of these labels; empty if the labels name
    /// none.
    pub(crate) fn host_model_targets(&self, host: &[LabelId]) -> FixedBitSet {
        let mut nodes = self.all.clone();
        let model = self.host_model_in(host);
        // What KubeVirt selects targets by (`getHostCpuModelFromMap` in
        // pkg/virt-controller/watch/migration/migration.go): the model by its migration label, and
        // every required feature.
        let known = model.and_then(|model| self.with(&format!("{MIGRATION_LABEL}{model}"), TRUE));
        keep(&mut nodes, known);
        for id in host {
            let key = &self.labels.label(*id).key;
            if let Some(feature) = key.strip_prefix(HOST_MODEL_FEATURE_LABEL) {
                let has = self.with(&format!("{FEATURE_LABEL}{feature}"), TRUE);
                keep(&mut nodes, has);
            }
        }
        nodes
    }

    /// The nodes that have all of these labels.
    pub(crate) fn with_all<'a>(
        &self,
        labels: impl IntoIterator<Item = (&'a String, &'a String)>,
    ) -> FixedBitSet {
        let mut nodes = self.all.clone();
        for (key, value) in labels {
            keep(&mut nodes, self.labels.with(key, value));
        }
        nodes
    }

    pub(crate) fn model(&self, id: ModelId) -> Option<&Label> {
        self.labels.model(id)
    }

    pub(crate) fn model_named(&self, name: &str) -> Option<ModelId> {
        let id = self.labels.find(&format!("{MODEL_LABEL}{name}"), TRUE)?;
        self.labels.label(id).model
    }

    pub(crate) fn model_places(&self) -> usize {
        self.labels.model_places()
    }

    pub(crate) fn vendor_nodes(&self, vendor: &Vendor) -> Option<&NodeSet> {
        self.vendors.get(vendor)
    }

    /// The nodes that have this label; `None` if no node has.
    pub(crate) fn with(&self, key: &str, value: &str) -> Option<&NodeSet> {
        self.labels.with(key, value)
    }

    /// The nodes that have a label with this key; `None` if no node has.
    pub(crate) fn with_key(&self, key: &str) -> Option<&NodeSet> {
        self.labels.with_key(key)
    }

    pub(crate) fn is_unschedulable(&self, place: u32) -> bool {
        self.unschedulable.contains(place)
    }

    pub(crate) fn is_not_ready(&self, place: u32) -> bool {
        self.not_ready.contains(place)
    }

    /// The taints of a node that keep new pods away.
    pub(crate) fn taints_of(&self, place: u32) -> impl Iterator<Item = &Value> {
        let taints = self.taints.iter();
        taints
            .filter(move |(_, nodes)| nodes.contains(place))
            .map(|(taint, _)| taint)
    }

    fn place(&mut self, name: &str) -> u32 {
        if let Some(place) = self.places.get(name) {
            return *place;
        }
        let place = self.free.pop().unwrap_or_else(|| {
            self.nodes.push(None);
            next(self.nodes.len() - 1)
        });
        self.all.grow(place as usize + 1);
        self.all.insert(place as usize);
        self.places.insert(Arc::from(name), place);
        place
    }

    fn note_state(&mut self, facts: &NodeInputs, place: u32) {
        let effective = |key: &str, effect: &str| {
            facts
                .taints
                .iter()
                .any(|taint| taint.key == key && taint.effect == effect)
        };
        let has_taint = |key: &str| EFFECTS.iter().any(|effect| effective(key, effect));
        // virt-handler sets it with its heartbeat, and every launcher pod selects it. The proof of
        // concept ignores it and cordons, and so counts targets that no VM can migrate to.
        let alive = facts.labels.get(SCHEDULABLE_LABEL).map(String::as_str) == Some(TRUE);
        if facts.unschedulable || has_taint(UNSCHEDULABLE_TAINT) || !alive {
            self.unschedulable.insert(place);
        }
        if !facts.ready || NOT_READY_TAINTS.iter().any(|key| has_taint(key)) {
            self.not_ready.insert(place);
        }
        for taint in &facts.taints {
            let redundant =
                taint.key == UNSCHEDULABLE_TAINT || NOT_READY_TAINTS.contains(&&*taint.key);
            if redundant || !EFFECTS.contains(&&*taint.effect) {
                continue;
            }
            let taint = serde_json::json!({
                "key": taint.key, "value": taint.value.as_deref().unwrap_or_default(), "effect": taint.effect,
            });
            // A list and no map: clusters have a handful of distinct taints.
            match self.taints.iter_mut().find(|(known, _)| *known == taint) {
                Some((_, nodes)) => nodes.insert(place),
                None => self.taints.push((taint, NodeSet::Few(vec![place]))),
            }
        }
    }

    fn forget(&mut self, place: u32, vendor: &NodeVendor, architecture: Option<&str>) {
        if let Some(vendor) = vendor.one()
            && let Some(nodes) = self.vendors.get_mut(vendor)
        {
            nodes.remove(place);
            if nodes.is_empty() {
                self.vendors.remove(vendor);
            }
        }
        if let Some(name) = architecture
            && let Some(nodes) = self.architectures.get_mut(name)
        {
            nodes.remove(place);
            if nodes.is_empty() {
                self.architectures.remove(name);
            }
        }
        self.unschedulable.remove(place);
        self.not_ready.remove(place);
        for (_, nodes) in &mut self.taints {
            nodes.remove(place);
        }
        self.taints.retain(|(_, nodes)| !nodes.is_empty());
    }
}
