//! Which machines of a pool are to be updated next.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::machine::Machine;
use crate::operators::MachineConfigPool;

/// What is to be said to the machines of a pool.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Rollout<'a> {
    /// Machines that are new, and what they come up with.
    pub(super) new: Vec<&'a str>,
    /// What new machines come up with.
    pub(super) first: &'a str,
    /// Machines that are to take on the target.
    pub(super) next: Vec<&'a str>,
    /// Why no more are.
    pub(super) held: Option<Hold>,
}

/// Why no machine is told to update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hold {
    /// Nothing has been rendered yet.
    NoTarget,
    /// All have been told.
    AllTold,
    /// Somebody paused the pool.
    Paused,
    /// As many are unavailable as may be, or failed with the target.
    NoRoom { unavailable: usize, most: usize },
}

/// Decides who is next.
pub(super) fn rollout<'a>(pool: &'a MachineConfigPool, machines: &[Machine<'a>]) -> Rollout<'a> {
    let target = pool.spec.configuration.name.as_deref().unwrap_or_default();
    if target.is_empty() {
        return Rollout {
            held: Some(Hold::NoTarget),
            ..Rollout::default()
        };
    }
    // A machine that joins is provisioned with what the pool runs with, which is not yet the target
    // while that is being rolled out, or kept back by a pause.
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
        // What is on its way elsewhere gets there first.
        .filter(|machine| !machine.is_moving() || machine.is_degraded())
        .map(|machine| machine.name)
        .collect();
    if waiting.is_empty() {
        return (waiting, Some(Hold::AllTold));
    }
    if pool.spec.paused {
        return (Vec::new(), Some(Hold::Paused));
    }
    let most = most_unavailable(pool, machines.len());
    // Those that failed with the target count, too: their trouble may pass, and then there would be
    // too many at once.
    let unavailable = machines
        .iter()
        .filter(|machine| {
            machine.is_unavailable() || (machine.is_degraded() && machine.desired == target)
        })
        .count();
    let room = most.saturating_sub(unavailable);
    waiting.sort_unstable();
    let held = (room < waiting.len()).then_some(Hold::NoRoom { unavailable, most });
    waiting.truncate(room);
    (waiting, held)
}

/// How many machines of a pool may be unavailable: one unless the pool says otherwise, and never none.
pub(super) fn most_unavailable(pool: &MachineConfigPool, machines: usize) -> usize {
    let most = match &pool.spec.max_unavailable {
        None => None,
        Some(IntOrString::Int(count)) => usize::try_from(*count).ok(),
        Some(IntOrString::String(share)) => share
            .strip_suffix('%')
            .and_then(|percent| percent.parse::<usize>().ok())
            .map(|percent| machines * percent / 100),
    };
    most.unwrap_or(1).max(1)
}

#[cfg(test)]
mod tests;
