//! What a pool reports.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::machine::Machine;
use crate::operators::conditions::{Said, settle};
use crate::operators::{MachineConfigPool, MachineConfigPoolStatus};

/// The status of a pool, given its machines and whether its configurations could be put together.
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
    // A pool of no machines is updated as soon as there is something to be updated to.
    let done = !target.is_empty() && updated_count == all && ready == all && unavailable == 0;

    let mut said = progress(pool, target, done);
    let troubles: Vec<String> = degraded
        .iter()
        .filter(|machine| !machine.reason.is_empty())
        .map(|machine| format!("Node {} is reporting: {:?}", machine.name, machine.reason))
        .collect();
    let troubles = troubles.join(", ");
    said.push(if degraded.is_empty() {
        Said::plainly("NodeDegraded", false)
    } else {
        let reason = format!(
            "{} nodes are reporting degraded status on sync",
            degraded.len()
        );
        Said::because("NodeDegraded", true, reason, troubles.clone())
    });
    said.push(match rendered {
        Ok(()) => Said::plainly("RenderDegraded", false),
        Err(why) => {
            let name = pool.metadata.name.as_deref().unwrap_or_default();
            let message = format!("Failed to render configuration for pool {name}: {why}");
            Said::because("RenderDegraded", true, "", message)
        }
    });
    let any = !degraded.is_empty() || rendered.is_err();
    said.push(Said::because("Degraded", any, "", troubles));

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
        conditions: settle(&old.conditions, said, now),
    }
}

fn progress(pool: &MachineConfigPool, target: &str, done: bool) -> Vec<Said> {
    let (updated, updating) = if done {
        (
            Said::because(
                "Updated",
                true,
                "",
                format!("All nodes are updated with MachineConfig {target}"),
            ),
            Said::plainly("Updating", false),
        )
    } else {
        let updating = if target.is_empty() {
            Said::plainly("Updating", false)
        } else if pool.spec.paused {
            let message = format!("Pool is paused; will not update to MachineConfig {target}");
            Said::because("Updating", false, "", message)
        } else {
            let message = format!("All nodes are updating to MachineConfig {target}");
            Said::because("Updating", true, "", message)
        };
        (Said::plainly("Updated", false), updating)
    };
    vec![updated, updating]
}

fn count(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests;
