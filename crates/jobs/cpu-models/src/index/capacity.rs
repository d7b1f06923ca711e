//! Allocatable resources of the nodes, as sets of the nodes that offer the same amount.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use fixedbitset::FixedBitSet;

use super::set::NodeSet;
use crate::resources::Resources;

/// The nodes by amount of each resource.
#[derive(Debug, Clone, Default)]
pub(super) struct Capacity {
    by_name: HashMap<Arc<str>, BTreeMap<i64, NodeSet>>,
    /// Nodes that report no allocatable resources at all, such as manifests of nodes to add.
    unreported: NodeSet,
}

/// Allocatable resources of one node, with shared names.
pub(super) type Allocatable = Box<[(Arc<str>, i64)]>;

impl Capacity {
    /// Adds a node.
    pub(super) fn put(&mut self, resources: &Resources, place: u32) -> Allocatable {
        if resources.is_empty() {
            self.unreported.insert(place);
        }
        let known = resources.iter().map(|(name, amount)| {
            let name = match self.by_name.get_key_value(&**name) {
                Some((name, _)) => Arc::clone(name),
                None => Arc::from(name.as_str()),
            };
            let amounts = self.by_name.entry(Arc::clone(&name)).or_default();
            amounts.entry(*amount).or_default().insert(place);
            (name, *amount)
        });
        known.collect()
    }

    /// Removes a node that was added with these resources.
    pub(super) fn take(&mut self, allocatable: &Allocatable, place: u32) {
        self.unreported.remove(place);
        for (name, amount) in allocatable {
            let Some(amounts) = self.by_name.get_mut(name) else {
                continue;
            };
            if let Some(nodes) = amounts.get_mut(amount) {
                nodes.remove(place);
                if nodes.is_empty() {
                    amounts.remove(amount);
                }
            }
            if amounts.is_empty() {
                self.by_name.remove(name);
            }
        }
    }

    /// Keeps the nodes that offer as much of every requested resource.
    pub(super) fn keep(&self, nodes: &mut FixedBitSet, requests: &Resources) {
        for (name, amount) in requests.iter().filter(|(_, amount)| **amount > 0) {
            let mut enough = FixedBitSet::with_capacity(nodes.len());
            self.unreported.add_to(&mut enough);
            let amounts = self.by_name.get(&**name).into_iter();
            for (_, with) in amounts.flat_map(|amounts| amounts.range(*amount..)) {
                with.add_to(&mut enough);
            }
            nodes.intersect_with(&enough);
        }
    }
}
