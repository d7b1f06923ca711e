//! The impact of a change, derived from its effect: nodes reboot for some MachineConfig changes and not for others.

use std::collections::BTreeSet;

use api::advisor::{Impact, TargetRef};
use serde_json::Value;

use super::kinds::{
    CONFIG_MAP, HYPER_CONVERGED, MACHINE_CONFIG, MACHINE_CONFIGURATION, NODE_HEALTH_CHECK,
};
use super::pools::{self, Pool};
use crate::snapshot::{Snapshot, whole};

/// Whether an object already has all desired fields, apart from its identity.
pub fn in_force(live: &Value, desired: &Value) -> bool {
    let labels = desired.pointer("/metadata/labels");
    let labelled = labels.is_none_or(|wanted| {
        live.pointer("/metadata/labels")
            .is_some_and(|live| covers(live, wanted))
    });
    // Most kinds have `spec` or `data`, and some have neither.
    let mut parts = desired.as_object().into_iter().flatten();
    let identity = ["apiVersion", "kind", "metadata"];
    labelled
        && parts.all(|(name, wanted)| {
            identity.contains(&name.as_str())
                || live.get(name).is_some_and(|live| covers(live, wanted))
        })
}

/// Whether a value has all desired fields. An empty object is desired as such: where objects are replaced as a whole
/// (selectors), empty has a meaning.
fn covers(live: &Value, wanted: &Value) -> bool {
    match (live, wanted) {
        (Value::Object(live), Value::Object(wanted)) if !wanted.is_empty() => {
            let mut fields = wanted.iter();
            fields.all(|(name, wanted)| live.get(name).is_some_and(|live| covers(live, wanted)))
        }
        (live, wanted) => live == wanted,
    }
}

/// The impact of applying an object: Low if it is in force, else `otherwise`.
pub fn of_change(
    target: &TargetRef,
    desired: &Value,
    snapshot: &Snapshot,
    otherwise: Impact,
) -> Impact {
    match snapshot.target(target) {
        Some(live) if in_force(&whole(live), desired) => Impact::Low,
        _ => otherwise,
    }
}

/// The impact of applying a MachineConfig. Kernel arguments always reboot; for files and units the node disruption
/// policies of the cluster decide, and without a policy nodes reboot.
pub fn of_machine_config(target: &TargetRef, desired: &Value, snapshot: &Snapshot) -> Impact {
    let live = snapshot.target(target).map(|live| whole(live));
    if live.as_ref().is_some_and(|live| in_force(live, desired)) {
        return Impact::Low;
    }
    let labels = desired.pointer("/metadata/labels").unwrap_or(&Value::Null);
    let pools = pools::taking(snapshot, labels);
    if !pools.is_empty() && pools.iter().all(Pool::is_empty) {
        return Impact::Low;
    }
    let spec = desired.get("spec").and_then(Value::as_object);
    let only_config = spec.is_some_and(|spec| spec.keys().all(|field| field == "config"));
    // No pool at all means that nothing is known about the nodes: the worst is assumed.
    if pools.is_empty() || !only_config {
        return Impact::High;
    }
    let live = live.as_ref().and_then(|live| live.pointer("/spec/config"));
    let wanted = desired.pointer("/spec/config").unwrap_or(&Value::Null);
    of_ignition(live.unwrap_or(&Value::Null), wanted, snapshot)
}

/// The impact of deleting an object.
pub fn of_deletion(target: &TargetRef, snapshot: &Snapshot) -> Impact {
    let Some(live) = snapshot.target(target) else {
        return Impact::Low;
    };
    let kind = target.kind.as_str();
    if kind == MACHINE_CONFIG.kind {
        let live = whole(live);
        let labels = live.pointer("/metadata/labels").unwrap_or(&Value::Null);
        // Its changes are reverted, usually by a reboot, if the pools have nodes.
        let taken = pools::taking(snapshot, labels);
        if taken.iter().all(Pool::is_empty) {
            return Impact::Low;
        }
        return Impact::High;
    }
    if kind == HYPER_CONVERGED.kind {
        // It removes the virtualization stack.
        return Impact::High;
    }
    if kind == CONFIG_MAP.kind || kind == NODE_HEALTH_CHECK.kind {
        return Impact::Low;
    }
    Impact::Medium
}

/// The impact of an action of a node disruption policy.
fn of_action(action: &Value) -> Impact {
    match action.get("type").and_then(Value::as_str) {
        Some("None") => Impact::Low,
        Some("Reload" | "Restart" | "DaemonReload") => Impact::Medium,
        // Drain, Reboot, Special, and future actions.
        _ => Impact::High,
    }
}

/// The impact of changing an Ignition configuration.
fn of_ignition(live: &Value, wanted: &Value, snapshot: &Snapshot) -> Impact {
    let policies = snapshot
        .get(MACHINE_CONFIGURATION, "", "cluster")
        .and_then(|object| {
            object
                .data
                .pointer("/status/nodeDisruptionPolicyStatus/clusterPolicies")
        });
    // Older clusters have no policies. Their exceptions from rebooting are a few files (`filesPostConfigChangeActionNone`
    // in pkg/daemon/update.go of the Machine Config Operator), which no profile writes.
    let Some(policies) = policies else {
        return Impact::High;
    };
    if without_files_and_units(live) != without_files_and_units(wanted) && !live.is_null() {
        return Impact::High;
    }
    // As `calculatePostConfigChangeNodeDisruptionActionFromMCDiffs` in pkg/daemon/update.go of the Machine Config
    // Operator decides: one file or unit without a policy reboots the node. SSH keys have a policy too; no profile sets
    // them.
    let files = changed(live, wanted, "/storage/files", "path");
    let units = changed(live, wanted, "/systemd/units", "name");
    let actions = files
        .into_iter()
        .map(|path| file_policy(policies, path))
        .chain(units.into_iter().map(|name| unit_policy(policies, name)));
    let impacts = actions.map(|actions| {
        let actions = actions
            .and_then(Value::as_array)
            .filter(|some| !some.is_empty());
        // Without a policy nodes reboot.
        let worst = actions.map(|actions| actions.iter().map(of_action).max());
        worst.flatten().unwrap_or(Impact::High)
    });
    impacts.max().unwrap_or(Impact::Low)
}

/// An Ignition configuration without the parts that policies cover.
fn without_files_and_units(config: &Value) -> Value {
    let mut rest = config.clone();
    for (section, list) in [("storage", "files"), ("systemd", "units")] {
        if let Some(Value::Object(section)) = rest.get_mut(section) {
            section.remove(list);
        }
    }
    rest
}

/// The entries of a list that are new, removed or different, by their key.
fn changed<'a>(live: &'a Value, wanted: &'a Value, list: &str, key: &str) -> BTreeSet<&'a str> {
    let entries = |config: &'a Value| {
        let list = config.pointer(list).and_then(Value::as_array);
        list.map_or(&[][..], Vec::as_slice)
    };
    let (live, wanted) = (entries(live), entries(wanted));
    let differing = live.iter().filter(|entry| !wanted.contains(entry));
    let differing = differing.chain(wanted.iter().filter(|entry| !live.contains(entry)));
    differing
        .filter_map(|entry| entry.get(key)?.as_str())
        .collect()
}

/// The policy of a file, or of its closest parent directory.
fn file_policy<'a>(policies: &'a Value, path: &str) -> Option<&'a Value> {
    let policies = policies.get("files")?.as_array()?.iter();
    let matching = policies.filter_map(|policy| {
        let of = policy.get("path")?.as_str()?;
        let below = path.strip_prefix(of.trim_end_matches('/'));
        let matches = of == path || below.is_some_and(|below| below.starts_with('/'));
        matches.then(|| (of.len(), policy.get("actions")))
    });
    // The longest match, as in `FindClosestFilePolicyPathMatch` (pkg/controller/common/helpers.go).
    matching.max_by_key(|(length, _)| *length)?.1
}

/// The policy of a unit.
fn unit_policy<'a>(policies: &'a Value, name: &str) -> Option<&'a Value> {
    let mut policies = policies.get("units")?.as_array()?.iter();
    let named = |policy: &&Value| policy.get("name").and_then(Value::as_str) == Some(name);
    policies.find(named)?.get("actions")
}
