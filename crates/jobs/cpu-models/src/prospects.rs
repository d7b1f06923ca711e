//! What a VM would get, before it has a node.

#[cfg(test)]
mod tests;

use crate::decide::{Fallback, ModelVerdict, Survey};
use crate::index::Index;
use crate::machine::Machine;
use crate::policy::Policy;

/// What a VM would get on the nodes that it could start on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Prospects {
    /// How many nodes the cluster has.
    pub of: usize,
    /// How many nodes it could start on.
    pub nodes: usize,
    /// On how many of them it would fall back to `host-model`.
    pub without_model: usize,
    /// Why, on the first such node.
    pub why: Option<Fallback>,
}

/// Whether a VM can start on no node of the cluster now; false without nodes, where nothing can be said about the VM.
pub fn is_excluded_everywhere(index: &Index, policy: &Policy, machine: &Machine) -> bool {
    let selection = index.select(&machine.demand, policy.scope);
    selection.eligible.is_clear() && !index.is_empty()
}

/// Decides for each node that a VM could start on now.
pub fn prospects(index: &Index, policy: &Policy, machine: &Machine) -> Prospects {
    let mut survey = Survey::new(index, policy);
    let pool = survey.pool(&machine.demand);
    let places: Vec<usize> = survey.pool_at(pool).selection.eligible.ones().collect();
    let mut found = Prospects {
        of: index.len(),
        ..Prospects::default()
    };
    for place in places {
        let place = u32::try_from(place).unwrap_or(u32::MAX);
        let Some(node) = index.node(place) else {
            continue;
        };
        found.nodes += 1;
        if let ModelVerdict::HostModel(why) = survey.choose(machine, &node.name) {
            found.without_model += 1;
            found.why.get_or_insert(why);
        }
    }
    found
}

impl Prospects {
    /// Whether the demand of the VM excludes every node of the cluster.
    pub fn excludes_all(&self) -> bool {
        self.nodes == 0 && self.of > 0
    }

    /// The admission warning if no node can run the VM, or every node leads to the fallback.
    pub fn warning(&self) -> Option<String> {
        if self.excludes_all() {
            return Some(format!(
                "best-match-model: none of the {} nodes can run the VM now: check its nodeSelector, affinity, tolerations, CPU features and devices",
                self.of
            ));
        }
        let why = self.why.as_ref()?;
        // Not if some nodes lead to a model: the scheduler may choose one of those, and a warning
        // on most creations would be ignored soon.
        (self.without_model == self.nodes).then(|| {
            format!(
                "best-match-model: no CPU model can be chosen on any of the {} nodes that the VM could start on ({why}); using host-model: the VM can migrate only to nodes that support the host model of its first node",
                self.nodes
            )
        })
    }
}
