//! The effect of other nodes, or another policy, on the running VMs.

#[cfg(test)]
mod tests;

use serde::Serialize;

use crate::decide::Survey;
use crate::index::Index;
use crate::machine::RunningVm;
use crate::policy::Policy;
use crate::review::{Review, ReviewRef};

/// The nodes and the policy to compare.
#[derive(Debug, Clone, Copy)]
pub struct Scenario<'a> {
    /// The nodes.
    pub index: &'a Index,
    /// The policy.
    pub policy: &'a Policy,
}

/// The differences between two views of the cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    /// The VMs by state now.
    pub before: Totals,
    /// The VMs by state afterwards.
    pub after: Totals,
    /// The VMs that would be affected, in the order of the input.
    pub changes: Vec<Change>,
}

/// VMs counted by state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Totals {
    /// All VMs.
    pub machines: u32,
    /// VMs that would get a newer model on restart.
    pub stale: u32,
    /// VMs whose model has too few supporting nodes.
    pub stranded: u32,
    /// VMs without a migration target; they are among the stranded ones.
    pub without_target: u32,
    /// VMs whose node is not in the index.
    pub without_node: u32,
}

/// A VM that would be affected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Change {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The node that it runs on.
    pub node: String,
    /// Its state now.
    pub before: Review,
    /// Its state afterwards.
    pub after: Review,
    /// What changes for it.
    pub effects: Vec<Effect>,
}

/// A change for a VM.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(
    rename_all = "camelCase",
    tag = "effect",
    rename_all_fields = "camelCase"
)]
pub enum Effect {
    /// Its node is removed.
    #[error("must move (targets: {targets})")]
    MustMove {
        /// How many nodes it could migrate to.
        targets: u32,
    },
    /// Its last migration target is lost.
    #[error("loses its last migration target")]
    LosesLastTarget,
    /// It gains a migration target.
    #[error("gains a migration target")]
    GainsTarget,
    /// Its model falls below the threshold.
    #[error("becomes stranded")]
    BecomesStranded,
    /// Its model reaches the threshold again.
    #[error("is no longer stranded")]
    NoLongerStranded,
    /// A restart would give it a newer model.
    #[error("a restart would give it {model}")]
    BecomesStale {
        /// The newer model.
        model: String,
    },
    /// A restart would no longer give it a newer model.
    #[error("a restart would no longer give it a newer model")]
    NoLongerStale,
}

/// Compares two views of the cluster over all VMs. A changed number of targets alone is no
/// difference, as long as it stays above the threshold.
pub fn what_if<'r>(
    before: Scenario<'_>,
    after: Scenario<'_>,
    machines: impl IntoIterator<Item = &'r RunningVm>,
) -> Outcome {
    let mut now = Survey::new(before.index, before.policy);
    let mut then = Survey::new(after.index, after.policy);
    let mut outcome = Outcome::default();
    for running in machines {
        let before = now.review_ref(running);
        let after = then.review_ref(running);
        outcome.before.add(&before);
        outcome.after.add(&after);
        let effects = effects(&before, &after);
        // Only changes are kept: a cluster has tens of thousands of VMs, and most are not affected.
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
    fn add(&mut self, review: &ReviewRef<'_>) {
        self.machines += 1;
        self.stale += u32::from(review.stale.is_some());
        self.stranded += u32::from(review.stranded.is_some());
        self.without_target += u32::from(review.has_no_target());
        self.without_node += u32::from(!review.node_known);
    }
}

fn effects(before: &ReviewRef<'_>, after: &ReviewRef<'_>) -> Vec<Effect> {
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
