//! Whether machines run what a MachineConfig says.
//!
//! A pool of machines renders all MachineConfigs that it selects into one, and brings its nodes there
//! one after the other. Right after a MachineConfig was applied the pool still says that it is up to
//! date, with the configuration of before. So the proof is: the pool has rendered ours, what it is to
//! run is what it runs, and it says so about the present generation.

use std::collections::BTreeMap;

use kube_core::{DynamicObject, ResourceExt};
use machinery::selector::LabelSelector;
use serde_json::{Map, Value};

use super::read::{condition, holds, is_true, told};
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
/// The label that says for which machines a MachineConfig is.
const ROLE: &str = "machineconfiguration.openshift.io/role";

/// Whether all machines run a MachineConfig.
pub(super) fn rolled_out(name: &str, live: &DynamicObject, snapshot: &Snapshot) -> Health {
    let none = BTreeMap::new();
    let labels = live.metadata.labels.as_ref().unwrap_or(&none);
    let map: Map<String, Value> = labels
        .iter()
        .map(|(key, value)| (key.clone(), Value::from(value.as_str())))
        .collect();
    let verdicts: Vec<_> = snapshot
        .list(POOL)
        .filter(|pool| selects(pool, &map))
        .map(|pool| {
            let lacks = if sources(pool).any(|source| source == name) {
                outdated(pool, live, snapshot).map(|what| format!("render '{name}' anew ({what})"))
            } else {
                Some(format!("render '{name}'"))
            };
            verdict(pool, lacks)
        })
        .collect();
    if verdicts.is_empty() {
        let role = labels.get(ROLE).map_or("worker", String::as_str);
        return Health::waiting(format!("MachineConfigPool '{role}' not found"));
    }
    worst(verdicts)
}

/// Whether no machine runs a MachineConfig any more that was deleted.
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

/// Whether a pool takes MachineConfigs with these labels. A selector that makes no sense takes none:
/// the pool then renders nothing, and says so itself.
fn selects(pool: &DynamicObject, labels: &Map<String, Value>) -> bool {
    pool.data
        .pointer("/spec/machineConfigSelector")
        .and_then(|selector| LabelSelector::from_label_selector_object(selector).ok())
        .is_some_and(|selector| selector.matches_labels(labels))
}

/// The MachineConfigs that a pool is to run.
fn sources(pool: &DynamicObject) -> impl Iterator<Item = &str> {
    pool.data
        .pointer("/spec/configuration/source")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|source| source["name"].as_str())
}

/// What a pool is to run, rendered, if we can see it.
fn rendering<'a>(pool: &DynamicObject, snapshot: &'a Snapshot) -> Option<&'a DynamicObject> {
    let name = pool.data.pointer("/spec/configuration/name")?.as_str()?;
    snapshot.get(CONFIG, "", name).map(AsRef::as_ref)
}

/// What tells that a pool was rendered before a MachineConfig became what it is, if anything. If the
/// rendering cannot be seen, the names and generations of the pool have to do.
fn outdated(pool: &DynamicObject, config: &DynamicObject, snapshot: &Snapshot) -> Option<String> {
    let rendered = rendering(pool, snapshot)?;
    if let Some(what) = rendering::lacks(rendered, config) {
        return Some(format!("{what} is missing"));
    }
    let sources: Option<Vec<&DynamicObject>> = sources(pool)
        .map(|name| snapshot.get(CONFIG, "", name).map(AsRef::as_ref))
        .collect();
    // A source that is gone may have said anything.
    let what = rendering::is_left_over(rendered, &sources?)?;
    Some(format!("{what} is left over"))
}

/// What is said about one pool. `lacks` is what it has to render first.
fn verdict(pool: &DynamicObject, lacks: Option<String>) -> Health {
    let called = format!("MachineConfigPool '{}'", pool.name_any());
    let Some(status) = pool.data.get("status").filter(|status| status.is_object()) else {
        return Health::waiting(format!("{called} has no status yet"));
    };
    let count = |field: &str| status[field].as_i64().unwrap_or(0);
    let machines = count("machineCount");
    let updated = count("updatedMachineCount");
    let ready = count("readyMachineCount");
    let waiting = |message: String| Health::Waiting {
        message,
        progress: Some((updated, machines)),
    };
    if let Some(failed) = condition(pool, "RenderDegraded").filter(|found| is_true(found)) {
        return Health::Failed(format!(
            "{called} cannot render its configuration{}",
            told(failed)
        ));
    }
    let degraded = count("degradedMachineCount");
    let told_degraded = ["NodeDegraded", "Degraded"]
        .into_iter()
        .find_map(|kind| condition(pool, kind).filter(|found| is_true(found)));
    if degraded > 0 || told_degraded.is_some() {
        // It may recover: a node comes back, somebody repairs it. The timeout ends the wait.
        return waiting(format!(
            "{called} is degraded ({degraded} degraded machines){}",
            told_degraded.map(told).unwrap_or_default()
        ));
    }
    let wanted = pool.data.pointer("/spec/configuration/name");
    let observed =
        status["observedGeneration"].as_i64().unwrap_or(0) >= pool.metadata.generation.unwrap_or(0);
    let updating = holds(pool, "Updating");
    let up_to_date = holds(pool, "Updated");
    // A pool without machines is up to date with 0 of 0.
    if lacks.is_none()
        && observed
        && up_to_date
        && !updating
        && wanted.is_some()
        && wanted == status.pointer("/configuration/name")
        && updated == machines
        && ready == machines
    {
        return Health::Healthy(format!("{called} is ready (all {machines} nodes updated)"));
    }
    if pool.data.pointer("/spec/paused") == Some(&Value::Bool(true)) {
        return waiting(format!(
            "{called} is paused: it will not update until it is resumed"
        ));
    }
    // What it counts before it has rendered is the configuration of before.
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

/// What is said about several pools: the worst decides, and is said first.
fn worst(mut verdicts: Vec<Health>) -> Health {
    let rank = |health: &Health| match health {
        Health::Failed(_) => 0,
        Health::Waiting { .. } => 1,
        Health::Healthy(_) => 2,
    };
    verdicts.sort_by_key(rank);
    let message = verdicts
        .iter()
        .map(Health::message)
        .collect::<Vec<_>>()
        .join("; ");
    // Only pools that have taken it up count nodes.
    let progress = verdicts
        .iter()
        .filter_map(|health| match health {
            Health::Waiting { progress, .. } => *progress,
            Health::Healthy(_) | Health::Failed(_) => None,
        })
        .reduce(|(updated, total), (more, of)| (updated + more, total + of));
    match verdicts.first() {
        Some(Health::Failed(_)) => Health::Failed(message),
        Some(Health::Waiting { .. }) => Health::Waiting { message, progress },
        Some(Health::Healthy(_)) | None => Health::Healthy(message),
    }
}
