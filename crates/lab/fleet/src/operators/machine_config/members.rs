//! Assignment of nodes to pools.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use machinery::selector::LabelSelector;
use serde_json::json;

use crate::names::{OS, label};
use crate::operators::MachineConfigPool;

/// Pools with parsed selectors.
pub(super) struct Pools {
    pools: Vec<(String, LabelSelector)>,
}

impl Pools {
    pub(super) fn new(pools: &[Arc<MachineConfigPool>]) -> Self {
        let pools = pools.iter().filter_map(|pool| {
            let name = pool.metadata.name.clone()?;
            let selector = json!(pool.spec.node_selector);
            let selector = LabelSelector::from_label_selector_object(&selector).ok()?;
            // A pool without a selector selects no nodes, instead of all.
            (!selector.is_empty()).then_some((name, selector))
        });
        Self {
            pools: pools.collect(),
        }
    }

    /// The pool of a node: its custom pool if it has one, else `master` or `worker`. Control-plane
    /// nodes are never in a custom pool. Windows nodes belong to no pool, and neither does a node
    /// that two custom pools select.
    pub(super) fn of(&self, node: &Node) -> Option<&str> {
        let label = |key: &str| label(&node.metadata, key);
        if label(OS) == Some("windows") {
            return None;
        }
        let matching = self
            .pools
            .iter()
            .filter(|(_, selector)| selector.matches(label));
        let (mut master, mut worker, mut custom) = (None, None, Vec::new());
        for (name, _) in matching {
            match name.as_str() {
                "master" => master = Some("master"),
                "worker" => worker = Some("worker"),
                other => custom.push(other),
            }
        }
        match custom.as_slice() {
            [] => master.or(worker),
            [one] => master.or(Some(*one)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
