//! What other nodes, or another policy, would change for the machines that run.

#[cfg(test)]
mod tests;

use serde::Serialize;

use crate::decide::Survey;
use crate::index::Index;
use crate::machine::Running;
use crate::policy::Policy;
use crate::review::{Review, Standing};

/// Nodes and a policy.
#[derive(Debug, Clone, Copy)]
pub struct World<'a> {
    /// The nodes.
    pub index: &'a Index,
    /// The policy.
    pub policy: &'a Policy,
}

/// What would change.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    /// How machines fare now.
    pub before: Totals,
    /// How they would fare.
    pub after: Totals,
    /// Those that would fare differently, in the order in which they were given.
    pub changes: Vec<Change>,
}

/// How many machines fare how.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Totals {
    /// All of them.
    pub machines: u32,
    /// Those that would get a newer model if they were restarted.
    pub stale: u32,
    /// Those whose model too few nodes support.
    pub stranded: u32,
    /// Those of them that no other node could take.
    pub without_target: u32,
    /// Those whose node is not there.
    pub without_node: u32,
}

/// A machine that would fare differently.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Change {
    /// Where it is.
    pub namespace: String,
    /// What it is called.
    pub name: String,
    /// The node that it is on.
    pub node: String,
    /// How it fares now.
    pub before: Review,
    /// How it would fare.
    pub after: Review,
    /// What is different.
    pub effects: Vec<Effect>,
}

/// What is different for a machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(
    rename_all = "camelCase",
    tag = "effect",
    rename_all_fields = "camelCase"
)]
pub enum Effect {
    /// Its node is gone.
    #[error("must move (targets: {targets})")]
    MustMove {
        /// How many nodes could take it.
        targets: u32,
    },
    /// No other node could take it any more.
    #[error("no other node could take it any more")]
    LosesLastTarget,
    /// Another node could take it again.
    #[error("another node could take it")]
    GainsTarget,
    /// Too few nodes would support its model.
    #[error("becomes stranded")]
    BecomesStranded,
    /// Enough nodes would support its model.
    #[error("is no longer stranded")]
    NoLongerStranded,
    /// A restart would give it a newer model.
    #[error("a restart would give it {model}")]
    BecomesStale {
        /// Which.
        model: String,
    },
    /// A restart would not give it a newer model any more.
    #[error("a restart would give it no newer model any more")]
    NoLongerStale,
}

/// Compares two worlds over all machines. Only those that fare differently are told; that some more
/// or fewer nodes could take a machine is no difference, as long as there are enough.
pub fn what_if<'r>(
    before: World<'_>,
    after: World<'_>,
    machines: impl IntoIterator<Item = &'r Running>,
) -> Outcome {
    let mut now = Survey::new(before.index, before.policy);
    let mut then = Survey::new(after.index, after.policy);
    let mut outcome = Outcome::default();
    for running in machines {
        let before = now.standing(running);
        let after = then.standing(running);
        outcome.before.add(&before);
        outcome.after.add(&after);
        let effects = effects(&before, &after);
        if !effects.is_empty() {
            outcome.changes.push(Change {
                namespace: running.machine.namespace.clone(),
                name: running.machine.name.clone(),
                node: running.node.clone(),
                before: before.owned(),
                after: after.owned(),
                effects,
            });
        }
    }
    outcome
}

impl Totals {
    fn add(&mut self, standing: &Standing<'_>) {
        self.machines += 1;
        self.stale += u32::from(standing.stale.is_some());
        self.stranded += u32::from(standing.stranded.is_some());
        self.without_target += u32::from(standing.has_no_target());
        self.without_node += u32::from(!standing.node_known);
    }
}

fn effects(before: &Standing<'_>, after: &Standing<'_>) -> Vec<Effect> {
    let mut effects = Vec::new();
    if before.node_known && !after.node_known {
        effects.push(Effect::MustMove {
            targets: after.targets,
        });
    }
    match (before.has_no_target(), after.has_no_target()) {
        (false, true) => effects.push(Effect::LosesLastTarget),
        (true, false) => effects.push(Effect::GainsTarget),
        _ => {}
    }
    match (before.stranded.is_some(), after.stranded.is_some()) {
        (false, true) => effects.push(Effect::BecomesStranded),
        (true, false) => effects.push(Effect::NoLongerStranded),
        _ => {}
    }
    let model = |stale: Option<(&str, bool)>| stale.map(|(model, _)| model.to_owned());
    match (model(before.stale), model(after.stale)) {
        (_, None) if before.stale.is_some() => effects.push(Effect::NoLongerStale),
        (before, Some(model)) if before.as_ref() != Some(&model) => {
            effects.push(Effect::BecomesStale { model });
        }
        _ => {}
    }
    effects
}
