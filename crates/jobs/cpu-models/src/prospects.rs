//! What a machine can expect before it has a node.

#[cfg(test)]
mod tests;

use crate::decide::{Fallback, Survey, Verdict};
use crate::index::Index;
use crate::machine::Machine;
use crate::policy::Policy;

/// What a machine gets, wherever it starts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Prospects {
    /// How many nodes it could start on.
    pub nodes: usize,
    /// On how many of them it would get the model of its host, because no other will do.
    pub without_model: usize,
    /// Why it would get the model of its host, on the first such node.
    pub why: Option<Fallback>,
}

/// What a machine gets on each of the nodes that it could start on now.
pub fn prospects(index: &Index, policy: &Policy, machine: &Machine) -> Prospects {
    let mut survey = Survey::new(index, policy);
    let pool = survey.pool(&machine.demand);
    let places: Vec<usize> = survey.pool_at(pool).selection.eligible.ones().collect();
    let mut found = Prospects::default();
    for place in places {
        let place = u32::try_from(place).unwrap_or(u32::MAX);
        let Some(node) = index.node(place) else {
            continue;
        };
        found.nodes += 1;
        if let Verdict::HostModel(why) = survey.choose(machine, &node.name) {
            found.without_model += 1;
            found.why.get_or_insert(why);
        }
    }
    found
}

impl Prospects {
    /// What whoever makes the machine should know.
    pub fn warning(&self) -> Option<String> {
        let why = self.why.as_ref()?;
        (self.without_model == self.nodes).then(|| {
            format!(
                "best-match-model: no CPU model will do on any of the {} nodes that the machine could start on ({why}); it gets host-model, and can migrate only to nodes like its first one",
                self.nodes
            )
        })
    }
}
