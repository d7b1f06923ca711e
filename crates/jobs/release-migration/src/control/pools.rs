//! MachineConfigPools, and whether they block completion.

use api::openshift::{Condition, MachineConfigPool};
use api::release::PoolState;
use jiff::Timestamp;
use kube_core::ResourceExt as _;

use crate::rollout::is_later;

/// The state of every pool, by name.
///
/// That its nodes run its target configuration does not prove that the target is the new one. machine-config sets the
/// target of every pool before it reports its new version: so pools count only after all operators are done.
pub(super) fn states(pools: &[MachineConfigPool]) -> Vec<PoolState> {
    let mut states: Vec<PoolState> = pools.iter().map(state).collect();
    states.sort_by(|one, other| one.name.cmp(&other.name));
    states
}

/// Pools that have not completed a release, by name. What they roll out after its completion is another MachineConfig.
pub(super) fn late(pools: &[MachineConfigPool], completed: Option<Timestamp>) -> Vec<String> {
    let in_update = |pool: &&MachineConfigPool| !completed.is_some_and(|at| is_later(pool, at));
    let states = pools.iter().filter(in_update).map(state);
    let late = states.filter(|it| !it.done);
    let mut names: Vec<String> = late.map(|it| it.name).collect();
    names.sort();
    names
}

fn state(pool: &MachineConfigPool) -> PoolState {
    let status = pool.status.clone().unwrap_or_default();
    let has_condition = |kind: &str| {
        let found = Condition::find(&status.conditions, kind);
        found.is_some_and(Condition::is_true)
    };
    let has = status.configuration.as_ref().map(|it| it.name.as_str());
    let machines = status.machine_count;
    // A compact cluster has an empty pool `worker`, which never blocks.
    let message = if machines == 0 {
        None
    // Right after a new configuration is rendered, the counts are still those of the old one.
    } else if status.updated_machine_count < machines || has != pool.wanted() {
        let what = format!(
            "{} of {machines} nodes are updated",
            status.updated_machine_count
        );
        Some(if pool.spec.paused {
            format!("{what}, and the pool is paused")
        } else if has_condition("Degraded") || status.degraded_machine_count > 0 {
            format!("{what}, and {} are degraded", status.degraded_machine_count)
        } else {
            what
        })
    } else if status.ready_machine_count < machines {
        Some(format!(
            "{} of {machines} nodes are ready",
            status.ready_machine_count
        ))
    } else {
        None
    };
    PoolState {
        name: pool.name_any(),
        machines,
        updated: status.updated_machine_count,
        done: message.is_none(),
        message: message.unwrap_or_default(),
    }
}
