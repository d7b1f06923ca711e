//! The status of a pool.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::machine::Machine;
use crate::names::name_of;
use crate::operators::conditions::{NewCondition, merge_conditions};
use crate::operators::{MachineConfigPool, MachineConfigPoolStatus};

/// The status of a pool, from its nodes and the result of rendering.
pub(super) fn status(
    pool: &MachineConfigPool,
    machines: &[Machine<'_>],
    rendered: Result<(), &str>,
    now: &Time,
) -> MachineConfigPoolStatus {
    let old = pool.status.clone().unwrap_or_default();
    let target = pool.spec.configuration.name.as_deref().unwrap_or_default();
    let updated = |machine: &&Machine<'_>| machine.is_updated(target);
    let all = machines.len();
    let updated_count = machines.iter().filter(updated).count();
    let ready = machines
        .iter()
        .filter(updated)
        .filter(|it| it.ready)
        .count();
    let unavailable = machines.iter().filter(|it| it.is_unavailable()).count();
    let degraded: Vec<&Machine<'_>> = machines.iter().filter(|it| it.is_degraded()).collect();
    // An empty pool is updated as soon as it has a target.
    let done = !target.is_empty() && updated_count == all && ready == all && unavailable == 0;

    let mut new_conditions = progress(pool, target, done);
    let troubles: Vec<String> = degraded
        .iter()
        .filter(|machine| !machine.reason.is_empty())
        .map(|machine| format!("Node {} is reporting: {:?}", machine.name, machine.reason))
        .collect();
    let troubles = troubles.join(", ");
    new_conditions.push(if degraded.is_empty() {
        NewCondition::without_reason("NodeDegraded", false)
    } else {
        let reason = format!(
            "{} nodes are reporting degraded status on sync",
            degraded.len()
        );
        NewCondition::with_reason("NodeDegraded", true, reason, troubles.clone())
    });
    new_conditions.push(match rendered {
        Ok(()) => NewCondition::without_reason("RenderDegraded", false),
        Err(why) => {
            let name = name_of(&pool.metadata);
            let message = format!("Failed to render configuration for pool {name}: {why}");
            NewCondition::with_reason("RenderDegraded", true, "", message)
        }
    });
    let any = !degraded.is_empty() || rendered.is_err();
    new_conditions.push(NewCondition::with_reason("Degraded", any, "", troubles));

    MachineConfigPoolStatus {
        observed_generation: pool.metadata.generation.unwrap_or_default(),
        configuration: if done {
            pool.spec.configuration.clone()
        } else {
            old.configuration
        },
        machine_count: count(all),
        updated_machine_count: count(updated_count),
        ready_machine_count: count(ready),
        unavailable_machine_count: count(unavailable),
        degraded_machine_count: count(degraded.len()),
        conditions: merge_conditions(&old.conditions, new_conditions, now),
    }
}

fn progress(pool: &MachineConfigPool, target: &str, done: bool) -> Vec<NewCondition> {
    let updated = if done {
        format!("All nodes are updated with MachineConfig {target}")
    } else {
        String::new()
    };
    let (is_updating, updating) = if done || target.is_empty() {
        (false, String::new())
    } else if pool.spec.paused {
        let message = format!("Pool is paused; will not update to MachineConfig {target}");
        (false, message)
    } else {
        let message = format!("All nodes are updating to MachineConfig {target}");
        (true, message)
    };
    vec![
        NewCondition::with_reason("Updated", done, "", updated),
        NewCondition::with_reason("Updating", is_updating, "", updating),
    ]
}

fn count(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests;
