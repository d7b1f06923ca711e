//! Selection of the nodes to update next.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::machine::Machine;
use crate::operators::MachineConfigPool;

/// The next changes of desired configurations in a pool.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Rollout<'a> {
    /// New nodes, which get their first configuration.
    pub(super) new: Vec<&'a str>,
    /// The configuration of new nodes.
    pub(super) first: &'a str,
    /// Nodes that get the target.
    pub(super) next: Vec<&'a str>,
    /// Why no further node is updated.
    pub(super) held: Option<Hold>,
}

/// Why no further node is updated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hold {
    /// No configuration is rendered yet.
    NoTarget,
    /// All nodes have the target as their desired configuration.
    AllUpdating,
    /// The pool is paused.
    Paused,
    /// The maximum of unavailable nodes is reached; nodes degraded with the target count as well.
    MaxUnavailable { unavailable: usize, most: usize },
}

/// Selects the next nodes of a pool.
pub(super) fn rollout<'a>(pool: &'a MachineConfigPool, machines: &[Machine<'a>]) -> Rollout<'a> {
    let target = pool.spec.configuration.name.as_deref().unwrap_or_default();
    if target.is_empty() {
        return Rollout {
            held: Some(Hold::NoTarget),
            ..Rollout::default()
        };
    }
    // A new node starts with the configuration that the pool runs, which differs from the target
    // during a rollout or a pause.
    let settled = pool.status.as_ref();
    let settled = settled.and_then(|status| status.configuration.name.as_deref());
    let first = settled.filter(|name| !name.is_empty()).unwrap_or(target);
    let new = machines.iter().filter(|machine| !machine.is_managed());
    let (next, held) = next(pool, target, machines);
    Rollout {
        new: new.map(|machine| machine.name).collect(),
        first,
        next,
        held,
    }
}

fn next<'a>(
    pool: &MachineConfigPool,
    target: &str,
    machines: &[Machine<'a>],
) -> (Vec<&'a str>, Option<Hold>) {
    let mut waiting: Vec<&str> = machines
        .iter()
        .filter(|machine| machine.is_managed() && machine.desired != target)
        // A node between two configurations finishes its update first.
        .filter(|machine| !machine.is_moving() || machine.is_degraded())
        .map(|machine| machine.name)
        .collect();
    if waiting.is_empty() {
        return (waiting, Some(Hold::AllUpdating));
    }
    if pool.spec.paused {
        return (Vec::new(), Some(Hold::Paused));
    }
    let most = most_unavailable(pool, machines.len());
    // Nodes degraded with the target count, too: if they recovered, too many would be unavailable
    // at once.
    let unavailable = machines
        .iter()
        .filter(|machine| {
            machine.is_unavailable() || (machine.is_degraded() && machine.desired == target)
        })
        .count();
    let room = most.saturating_sub(unavailable);
    // By name, so that a rollout is the same in every run; upstream orders by zone and age.
    waiting.sort_unstable();
    let held = (room < waiting.len()).then_some(Hold::MaxUnavailable { unavailable, most });
    waiting.truncate(room);
    (waiting, held)
}

/// Maximum number of unavailable nodes in a pool: one by default, and never zero.
pub(super) fn most_unavailable(pool: &MachineConfigPool, machines: usize) -> usize {
    let most = match &pool.spec.max_unavailable {
        None => None,
        Some(IntOrString::Int(count)) => usize::try_from(*count).ok(),
        Some(IntOrString::String(share)) => share
            .strip_suffix('%')
            .and_then(|percent| percent.parse::<usize>().ok())
            .map(|percent| machines * percent / 100),
    };
    // Never zero, as upstream: a share of a small pool rounds down, and the pool would never
    // update.
    most.unwrap_or(1).max(1)
}

#[cfg(test)]
mod tests;
