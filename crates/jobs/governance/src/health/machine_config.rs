//! Whether nodes run a MachineConfig.
//!
//! A MachineConfigPool renders all MachineConfigs that it selects into one, and updates its nodes one at a time. Right
//! after a MachineConfig was applied the pool still reports that it is up to date, with the previous configuration. So
//! the proof is: the pool has rendered ours, its target configuration is the current one, and it reports so for the
//! current generation.

use kube_core::{DynamicObject, ResourceExt};
use machinery::selector::LabelSelector;
use serde_json::{Map, Value};

use super::read::{condition, describe_condition, holds, is_true};
use super::{Health, deleted, rendering};
use crate::snapshot::{GroupKind, Snapshot};

const POOL: GroupKind = GroupKind {
    group: "machineconfiguration.openshift.io",
    kind: "MachineConfigPool",
};
const CONFIG: GroupKind = GroupKind {
    group: "machineconfiguration.openshift.io",
    kind: "MachineConfig",
};
/// The label with the role of a MachineConfig.
const ROLE: &str = "machineconfiguration.openshift.io/role";

/// Whether all nodes run a MachineConfig.
pub(super) fn rolled_out(name: &str, live: &DynamicObject, snapshot: &Snapshot) -> Health {
    let verdicts: Vec<_> = selecting(live, snapshot)
        .into_iter()
        .map(|pool| verdict(pool, lacks(pool, name, live, snapshot)))
        .collect();
    if verdicts.is_empty() {
        let labels = live.metadata.labels.as_ref();
        let role = labels.and_then(|labels| labels.get(ROLE));
        let role = role.map_or("worker", String::as_str);
        return Health::faulty(format!("MachineConfigPool '{role}' not found"));
    }
    worst(verdicts)
}

/// Whether a pool that can restart nodes has not rendered a MachineConfig yet.
pub(super) fn waits_for_rendering(name: &str, live: &DynamicObject, snapshot: &Snapshot) -> bool {
    let mut pools = selecting(live, snapshot).into_iter();
    pools.any(|pool| may_restart_nodes(pool) && lacks(pool, name, live, snapshot).is_some())
}

/// The pools that select a MachineConfig.
fn selecting<'a>(live: &DynamicObject, snapshot: &'a Snapshot) -> Vec<&'a DynamicObject> {
    let labels = live.metadata.labels.iter().flatten();
    let labels: Map<String, Value> = labels
        .map(|(key, value)| (key.clone(), Value::from(value.as_str())))
        .collect();
    let pools = snapshot.list(POOL).map(AsRef::as_ref);
    pools.filter(|pool| selects(pool, &labels)).collect()
}

/// What a pool has to do before its nodes can get a MachineConfig, if it has not done it.
fn lacks(
    pool: &DynamicObject,
    name: &str,
    live: &DynamicObject,
    snapshot: &Snapshot,
) -> Option<String> {
    if !sources(pool).any(|source| source == name) {
        return Some(format!("render '{name}'"));
    }
    let what = outdated(pool, live, snapshot)?;
    Some(format!("render '{name}' anew ({what})"))
}

/// Whether no node runs a deleted MachineConfig any more.
pub(super) fn rolled_back(name: &str, was: Option<&Value>, snapshot: &Snapshot) -> Health {
    let none = Map::new();
    let labels = was.and_then(machinery::meta::labels).unwrap_or(&none);
    let verdicts: Vec<_> = snapshot
        .list(POOL)
        .filter_map(|pool| {
            let has = sources(pool).any(|source| source == name);
            (has || selects(pool, labels))
                .then(|| verdict(pool, has.then(|| format!("render without '{name}'"))))
        })
        .collect();
    if verdicts.is_empty() {
        return deleted();
    }
    worst(verdicts)
}

/// Whether a pool selects MachineConfigs with these labels. An invalid selector selects none: the pool then renders
/// nothing, and reports it.
fn selects(pool: &DynamicObject, labels: &Map<String, Value>) -> bool {
    pool.data
        .pointer("/spec/machineConfigSelector")
        .and_then(|selector| LabelSelector::from_label_selector_object(selector).ok())
        .is_some_and(|selector| selector.matches_labels(labels))
}

/// The source MachineConfigs of the target configuration of a pool.
fn sources(pool: &DynamicObject) -> impl Iterator<Item = &str> {
    pool.data
        .pointer("/spec/configuration/source")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|source| source["name"].as_str())
}

/// The rendered target configuration of a pool, if it is visible.
fn rendering<'a>(pool: &DynamicObject, snapshot: &'a Snapshot) -> Option<&'a DynamicObject> {
    let name = pool.data.pointer("/spec/configuration/name")?.as_str()?;
    snapshot.get(CONFIG, "", name).map(AsRef::as_ref)
}

/// Why a rendered configuration predates the current MachineConfig, if it does. If the rendered one is not visible,
/// names and generations of the pool have to suffice.
fn outdated(pool: &DynamicObject, config: &DynamicObject, snapshot: &Snapshot) -> Option<String> {
    let rendered = rendering(pool, snapshot)?;
    if let Some(what) = rendering::lacks(rendered, config) {
        return Some(format!("{what} is missing"));
    }
    let sources: Option<Vec<&DynamicObject>> = sources(pool)
        .map(|name| snapshot.get(CONFIG, "", name).map(AsRef::as_ref))
        .collect();
    // A deleted source may have contained any of the settings.
    let what = rendering::is_left_over(rendered, &sources?)?;
    Some(format!("{what} is left over"))
}

/// The health of one pool. `lacks` is what it has to render first.
fn verdict(pool: &DynamicObject, lacks: Option<String>) -> Health {
    let called = format!("MachineConfigPool '{}'", pool.name_any());
    let Some(status) = pool.data.get("status").filter(|status| status.is_object()) else {
        return Health::waiting(format!("{called} has no status yet"));
    };
    let count = |field: &str| status[field].as_i64().unwrap_or(0);
    let machines = count("machineCount");
    let updated = count("updatedMachineCount");
    let ready = count("readyMachineCount");
    let stopped = |message: String, fault: bool| Health::Waiting {
        message,
        progress: Some((updated, machines)),
        fault,
    };
    let waiting = |message: String| stopped(message, false);
    // Failed at once: no node can get a configuration that does not render, until a MachineConfig is corrected.
    if let Some(failed) = condition(pool, "RenderDegraded").filter(|found| is_true(found)) {
        return Health::Failed(format!(
            "{called} cannot render its configuration{}",
            describe_condition(failed)
        ));
    }
    let degraded = count("degradedMachineCount");
    let degraded_condition = ["NodeDegraded", "Degraded"]
        .into_iter()
        .find_map(|kind| condition(pool, kind).filter(|found| is_true(found)));
    if degraded > 0 || degraded_condition.is_some() {
        // It may recover: a node comes back, or an administrator repairs it. The timeout ends the wait.
        let why = degraded_condition.map(describe_condition);
        let message = format!(
            "{called} is degraded ({degraded} degraded machines){}",
            why.unwrap_or_default()
        );
        return stopped(message, true);
    }
    let wanted = pool.data.pointer("/spec/configuration/name");
    let observed =
        status["observedGeneration"].as_i64().unwrap_or(0) >= pool.metadata.generation.unwrap_or(0);
    let updating = holds(pool, "Updating");
    let up_to_date = holds(pool, "Updated");
    let switched = wanted.is_some() && wanted == status.pointer("/configuration/name");
    // A pool without nodes is up to date with 0 of 0.
    if lacks.is_none()
        && observed
        && up_to_date
        && !updating
        && switched
        && updated == machines
        && ready == machines
    {
        return Health::Healthy(format!("{called} is ready (all {machines} nodes updated)"));
    }
    // All nodes have the target configuration, so it is no rollout that keeps them away. The pool reports `Updating`
    // all the same (`calculateStatus` in pkg/controller/node/status.go of the machine-config-operator).
    let unavailable = count("unavailableMachineCount");
    if lacks.is_none() && switched && updated == machines && unavailable > 0 {
        return stopped(
            format!("{called} has {unavailable} unavailable of {machines} nodes"),
            true,
        );
    }
    // After the success: a pool that was paused once it was up to date has nothing pending.
    if pool.data.pointer("/spec/paused") == Some(&Value::Bool(true)) {
        return waiting(format!(
            "{called} is paused: it will not update until it is resumed"
        ));
    }
    // Its counts before rendering are those of the previous configuration.
    if let Some(lacks) = lacks {
        return Health::waiting(format!("Waiting for {called} to {lacks}"));
    }
    let counts = format!("(Updated: {updated}/{machines}, Ready: {ready}/{machines})");
    if updating {
        return waiting(format!("{called} is updating {counts}"));
    }
    if !up_to_date {
        return waiting(format!("{called} is processing changes {counts}"));
    }
    if !observed {
        return Health::waiting(format!(
            "Waiting for {called} to take up generation {}",
            pool.metadata.generation.unwrap_or(0)
        ));
    }
    waiting(format!(
        "Waiting for {called} to stabilize ({updated}/{machines} nodes updated)"
    ))
}

/// The combined health of several pools: the worst decides, and comes first.
fn worst(mut verdicts: Vec<Health>) -> Health {
    let rank = |health: &Health| match health {
        Health::Failed(_) => 0,
        Health::Waiting { fault: true, .. } => 1,
        Health::Waiting { .. } => 2,
        Health::Unseen { .. } => 3,
        Health::Healthy(_) => 4,
    };
    verdicts.sort_by_key(rank);
    let message = verdicts
        .iter()
        .map(Health::message)
        .collect::<Vec<_>>()
        .join("; ");
    // Only pools that have rendered the change count nodes.
    let progress = verdicts
        .iter()
        .filter_map(|health| match health {
            Health::Waiting { progress, .. } => *progress,
            Health::Healthy(_) | Health::Unseen { .. } | Health::Failed(_) => None,
        })
        .reduce(|(updated, total), (more, of)| (updated + more, total + of));
    match verdicts.first() {
        Some(Health::Failed(_)) => Health::Failed(message),
        Some(Health::Waiting { fault, .. }) => Health::Waiting {
            message,
            progress,
            fault: *fault,
        },
        Some(Health::Unseen { .. }) => Health::unseen(message),
        Some(Health::Healthy(_)) | None => Health::Healthy(message),
    }
}

/// Whether a pool still restarts nodes for its configuration.
pub(super) fn restarts_nodes(pool: &DynamicObject) -> bool {
    let wanted = pool.data.pointer("/spec/configuration/name");
    // Switched once all nodes are done. `Updating` says less: it is also true while a node that has the configuration is
    // not ready, and remediating that node is the purpose of a NodeHealthCheck.
    let current = pool.data.pointer("/status/configuration/name");
    may_restart_nodes(pool) && wanted.is_some() && wanted != current
}

/// A paused pool restarts no nodes, and neither does a degraded one, which stops at the node that failed. A pool without
/// nodes has none to restart, and one without a status no operator that would.
fn may_restart_nodes(pool: &DynamicObject) -> bool {
    let count = |field: &str| {
        let counted = pool.data.pointer(&format!("/status/{field}"));
        counted.and_then(Value::as_i64)
    };
    let stuck = ["NodeDegraded", "RenderDegraded", "Degraded"]
        .into_iter()
        .any(|kind| holds(pool, kind));
    let paused = pool.data.pointer("/spec/paused") == Some(&Value::Bool(true));
    !paused
        && !stuck
        && count("degradedMachineCount").unwrap_or(0) == 0
        && count("machineCount").unwrap_or(0) > 0
}
