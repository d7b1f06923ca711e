//! Pauses node remediation while our rollouts restart nodes.
//!
//! A node that applies a MachineConfig is unavailable for minutes, which looks like a failure. So every NodeHealthCheck
//! is paused while such an item is in progress, by `spec.pauseRequests`, and resumed afterwards. The requests are
//! derived from the statuses of all configurations and from the pools, so a missed change is corrected by the next
//! reconcile.
//!
//! A plan may end before its nodes have restarted: its item timed out, or its configuration was edited, ignored or
//! deleted. So a request stays until no pool restarts nodes any more.
//!
//! The list is atomic (its items cannot be owned separately), so it is written as a whole, including the requests of
//! others, with a resourceVersion precondition.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use api::advisor::{Action, Impact, ItemState, Phase, VirtPlatformConfig};
use kube_core::{DynamicObject, ResourceExt as _};
use serde_json::{Value, json};

use crate::health;
use crate::profile::kinds::{MACHINE_CONFIG, MACHINE_CONFIG_POOL, NODE_HEALTH_CHECK};
use crate::profile::{Access, KindUse};
use crate::snapshot::Snapshot;

/// The kind that is paused.
pub const CHECKS: KindUse = KindUse {
    of: NODE_HEALTH_CHECK,
    versions: &["v1alpha1"],
    plural: "nodehealthchecks",
    access: Access::Read,
    named: None,
};

/// The kinds that show whether nodes still restart.
pub const POOLS: [KindUse; 2] = [
    KindUse {
        of: MACHINE_CONFIG_POOL,
        versions: &["v1"],
        plural: "machineconfigpools",
        access: Access::Read,
        named: None,
    },
    KindUse {
        of: MACHINE_CONFIG,
        versions: &["v1"],
        plural: "machineconfigs",
        access: Access::Read,
        named: None,
    },
];

const BEFORE: &str = "medley: ";
const AFTER: &str = " is rolling out a MachineConfig";

/// The pause request of a configuration that restarts nodes.
pub fn request(config: &str) -> String {
    format!("{BEFORE}{config}{AFTER}")
}

/// The configuration that made a request, if it is one of ours.
fn requested_by(request: &str) -> Option<&str> {
    request.strip_prefix(BEFORE)?.strip_suffix(AFTER)
}

/// A change of the pause requests of a NodeHealthCheck.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// Its name.
    pub check: String,
    /// The patch: all requests, with uid and resourceVersion as preconditions.
    pub patch: Value,
    /// The configurations that start to pause it.
    pub paused: Vec<String>,
    /// The configurations that stop to pause it.
    pub resumed: Vec<String>,
}

/// Whether a configuration is restarting nodes now.
pub fn restarts_nodes(config: &VirtPlatformConfig) -> bool {
    let Some(status) = &config.status else {
        return false;
    };
    config.metadata.deletion_timestamp.is_none()
        && config.spec.action != Action::Ignore
        && status.phase == Some(Phase::InProgress)
        && status.items.iter().any(|item| {
            let group = item.target_ref.api_version.split('/').next();
            item.state == ItemState::InProgress
                && item.impact_severity == Some(Impact::High)
                && group == Some(MACHINE_CONFIG.group)
                && item.target_ref.kind == MACHINE_CONFIG.kind
        })
}

/// Whether nodes still restart, or will as soon as a MachineConfig of a configuration is rendered.
fn still_restarts(config: Option<&VirtPlatformConfig>, snapshot: &Snapshot) -> bool {
    let applied = config.and_then(|config| config.status.as_ref());
    let mut applied = applied.into_iter().flat_map(|status| &status.applied);
    let mut pools = snapshot.list(MACHINE_CONFIG_POOL);
    pools.any(|pool| health::pool_restarts_nodes(pool))
        || applied.any(|applied| health::waits_for_rendering(&applied.target_ref, snapshot))
}

/// The changes to the NodeHealthChecks.
pub fn changes<'a>(
    configs: impl IntoIterator<Item = &'a VirtPlatformConfig>,
    snapshot: &Snapshot,
) -> Vec<Change> {
    let configs: Vec<_> = configs.into_iter().collect();
    let wanted: BTreeSet<String> = configs
        .iter()
        .filter(|config| restarts_nodes(config))
        .map(|config| config.name_any())
        .collect();
    let still = |name: &str| {
        let config = configs.iter().find(|config| config.name_any() == name);
        still_restarts(config.copied(), snapshot)
    };
    let checks = snapshot.list(CHECKS.of);
    checks
        .filter_map(|check| change(check, &wanted, still))
        .collect()
}

fn change(
    check: &DynamicObject,
    wanted: &BTreeSet<String>,
    still_restarts: impl Fn(&str) -> bool,
) -> Option<Change> {
    let requests = check.data.pointer("/spec/pauseRequests");
    let requests = requests.and_then(Value::as_array);
    let requests = requests.map_or(&[][..], Vec::as_slice);
    let asks = |request: &Value| request.as_str().and_then(requested_by).map(str::to_owned);
    let asking: BTreeSet<String> = requests.iter().filter_map(asks).collect();
    let paused: Vec<_> = wanted.difference(&asking).cloned().collect();
    let over = asking.difference(wanted);
    let resumed: BTreeSet<String> = over.filter(|it| !still_restarts(it)).cloned().collect();
    if paused.is_empty() && resumed.is_empty() {
        return None;
    }
    let stays = |one: &&Value| asks(one).is_none_or(|config| !resumed.contains(&config));
    let mut now: Vec<Value> = requests.iter().filter(stays).cloned().collect();
    now.extend(paused.iter().map(|config| json!(request(config))));
    // An empty list pauses nothing either; null removes the field, so that nothing of ours is left behind.
    let now = if now.is_empty() {
        Value::Null
    } else {
        json!(now)
    };
    Some(Change {
        check: check.name_any(),
        patch: json!({
            "metadata": { "uid": check.metadata.uid, "resourceVersion": check.metadata.resource_version },
            "spec": { "pauseRequests": now },
        }),
        paused,
        resumed: resumed.into_iter().collect(),
    })
}
