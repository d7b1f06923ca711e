//! Estimates the remaining time of a migration.
//!
//! A migration to multi-arch changes no version, so durations of updates do not apply: only operators that report
//! images take time. The best estimate is the recorded duration of each operator; for machine-config, which restarts
//! nodes one at a time, it is the pace of the nodes.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use api::release::{OperatorHistory, ReleasePolicy};
use jiff::SignedDuration;
use serde::Serialize;

use crate::conditions::MACHINE_CONFIG;

/// Assumed time per node until the first one is back: drain, update, reboot.
///
/// `oc adm upgrade status` shows +10m for draining and +5m for each of updating and rebooting a node; control plane
/// nodes have few pods to drain.
const ASSUMED_NODE_TIME: SignedDuration = SignedDuration::from_mins(10);

/// Recorded durations of operators, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UpdateDurations(BTreeMap<String, Vec<SignedDuration>>);

impl UpdateDurations {
    /// From the status of the ReleasePolicy.
    pub fn of(history: &[OperatorHistory]) -> Self {
        let mut past = Self::default();
        for it in history {
            for took in &it.took_seconds {
                past.add(&it.operator, SignedDuration::from_secs(*took));
            }
        }
        past
    }

    /// From the ReleasePolicy; empty without one.
    pub fn of_policy(policy: Option<&ReleasePolicy>) -> Self {
        let status = policy.and_then(|policy| policy.status.as_ref());
        status.map(|it| Self::of(&it.history)).unwrap_or_default()
    }

    /// Adds a duration of an operator.
    pub fn add(&mut self, name: &str, took: SignedDuration) {
        self.0.entry(name.to_owned()).or_default().push(took);
    }

    /// The median duration of an operator; `None` if there is none.
    fn usual(&self, name: &str) -> Option<SignedDuration> {
        median(self.0.get(name)?.clone())
    }

    /// The estimate for an operator without durations: that of the others.
    fn of_others(&self) -> Option<SignedDuration> {
        let others = self.0.iter().filter(|(name, _)| *name != MACHINE_CONFIG);
        median(
            others
                .filter_map(|(_, took)| median(took.clone()))
                .collect(),
        )
    }
}

fn median(mut all: Vec<SignedDuration>) -> Option<SignedDuration> {
    all.sort_unstable();
    // The upper one of two: an estimate that is too long is the smaller error.
    all.get(all.len() / 2).copied()
}

/// Nodes that have to be updated before machine-config is done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NodeProgress {
    /// All nodes.
    pub total: u32,
    /// Updated nodes.
    pub updated: u32,
}

/// An operator that is not done yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingOperator {
    /// Its name.
    pub name: String,
    /// How long it has been waited for, if it has been reached.
    pub waited: Option<SignedDuration>,
}

/// The basis of an estimate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub enum Basis {
    /// Recorded durations.
    History,
    /// The pace of node updates.
    Machines,
    /// The share of updated operators.
    Operators,
}

/// An estimate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Estimate {
    /// The remaining time.
    pub remaining: SignedDuration,
    /// Its basis.
    pub basis: Basis,
}

/// Estimates the time until all operators are done. Operators of one wave are waited for in parallel, and waves one
/// after the other. `None` if an operator has no estimate.
pub fn estimate(
    waves: &[Vec<PendingOperator>],
    past: &UpdateDurations,
    machines: Option<NodeProgress>,
) -> Option<Estimate> {
    let mut remaining = SignedDuration::ZERO;
    let mut basis = Basis::History;
    for wave in waves {
        let mut longest = SignedDuration::ZERO;
        for awaited in wave {
            let waited = awaited.waited.unwrap_or_default();
            let of_machines = machines
                .filter(|_| awaited.name == MACHINE_CONFIG)
                .map(|it| of_machines(it, waited));
            let left = if let Some(left) = of_machines {
                basis = Basis::Machines;
                left
            } else {
                let usual = past.usual(&awaited.name).or_else(|| {
                    let is_usual = awaited.name != MACHINE_CONFIG;
                    // Other operators roll out a Deployment; machine-config restarts nodes, so their durations do not
                    // apply to it.
                    is_usual.then(|| past.of_others()).flatten()
                })?;
                // An operator that is late already is assumed to need some more time.
                usual.saturating_sub(waited).max(usual / 5)
            };
            longest = longest.max(left);
        }
        remaining = remaining.saturating_add(longest);
    }
    Some(Estimate { remaining, basis })
}

/// The time for the remaining nodes, at the pace of the updated ones.
fn of_machines(machines: NodeProgress, waited: SignedDuration) -> SignedDuration {
    let left = machines.total.saturating_sub(machines.updated);
    let each = match i32::try_from(machines.updated) {
        Ok(updated) if updated > 0 && waited.is_positive() => waited / updated,
        _ => ASSUMED_NODE_TIME,
    };
    each.saturating_mul(i32::try_from(left).unwrap_or(i32::MAX))
}
