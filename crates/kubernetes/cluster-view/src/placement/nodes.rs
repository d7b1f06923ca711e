//! The nodes for placement, with the fits computed since the last node change.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1 as core;
use parking_lot::Mutex;
use placement::{Cluster, Fit, FitKey, FitMemo, Node, Nodes};

use crate::nodes::NodeIndex;

/// Maximum number of fits. Users choose the platforms of their images, so the number of keys is unbounded.
const MAX_FITS: usize = 1_000;

/// The nodes of a cluster, grouped by platform, and a memo of fits.
#[derive(Clone, Default)]
pub struct PlacementNodes {
    cluster: Cluster,
    fits: FitTable,
}

impl NodeIndex for PlacementNodes {
    type Inputs = Node;

    fn read(node: &core::Node) -> Node {
        Node::read(node)
    }

    fn upsert(&mut self, node: Node) {
        // All fits, whichever node changed: a fit lists the nodes of every platform, and
        // finding the affected ones would cost as much as computing them again. `get_mut` needs
        // no lock, because the caller has the only reference.
        self.fits.0.get_mut().clear();
        self.cluster.upsert(node);
    }

    fn remove(&mut self, name: &str) {
        self.fits.0.get_mut().clear();
        self.cluster.remove(name);
    }
}

impl<'a> From<&'a PlacementNodes> for Nodes<'a> {
    fn from(nodes: &'a PlacementNodes) -> Self {
        Self::with_memo(&nodes.cluster, &nodes.fits)
    }
}

/// Fits for the current nodes. The lock is not held while a fit is computed; at worst two callers compute the same.
#[derive(Default)]
struct FitTable(Mutex<HashMap<FitKey, Arc<Fit>>>);

impl Clone for FitTable {
    /// Derived state: a copy starts empty.
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl FitMemo for FitTable {
    fn get(&self, key: &FitKey) -> Option<Arc<Fit>> {
        self.0.lock().get(key).cloned()
    }

    fn insert(&self, key: FitKey, fit: Arc<Fit>) {
        let mut known = self.0.lock();
        // Cleared rather than evicted one by one: real clusters use a handful of platform sets, so only a user who
        // varies them on purpose gets here.
        if known.len() >= MAX_FITS {
            known.clear();
        }
        known.insert(key, fit);
    }
}
