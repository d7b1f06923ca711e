//! Whether applied changes have taken effect.
//!
//! A successful write is not enough: operators process their objects asynchronously, and nodes reboot one at a time.
//! The next item waits, so that it never depends on a change that has not taken effect.

mod descheduler;
mod machine_config;
mod read;
mod rendering;
#[cfg(test)]
mod tests;

use api::advisor::TargetRef;
use kube_core::DynamicObject;
use serde_json::Value;

use crate::snapshot::Snapshot;
use read::{condition, describe_condition, is_true, unobserved};

/// Whether a change has taken effect, as far as its operator reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    /// It has taken effect.
    Healthy(String),
    /// It is applied, and no operator reports whether it has taken effect.
    Unseen {
        /// What cannot be seen, and why.
        why: String,
        /// Whether an operator is expected to report soon, if it runs.
        may_come: bool,
    },
    /// It has not taken effect yet.
    Waiting {
        /// The current progress.
        message: String,
        /// Number of updated nodes, and of all nodes.
        progress: Option<(i64, i64)>,
        /// Whether the operator reports a fault, rather than progress. It may overcome it by itself.
        fault: bool,
    },
    /// It cannot take effect.
    Failed(String),
}

impl Health {
    pub(crate) fn waiting(message: String) -> Self {
        Self::Waiting {
            message,
            progress: None,
            fault: false,
        }
    }

    fn faulty(message: String) -> Self {
        Self::Waiting {
            message,
            progress: None,
            fault: true,
        }
    }

    /// No operator reports on it, and none will.
    fn unseen(why: String) -> Self {
        Self::Unseen {
            why,
            may_come: false,
        }
    }

    /// The current state as a message.
    pub fn message(&self) -> &str {
        match self {
            Self::Healthy(message)
            | Self::Failed(message)
            | Self::Unseen { why: message, .. }
            | Self::Waiting { message, .. } => message,
        }
    }
}

/// Whether the change of a target has taken effect. `live` is the current target.
pub fn health(target: &TargetRef, live: Option<&DynamicObject>, snapshot: &Snapshot) -> Health {
    let Some(live) = live else {
        return Health::faulty(format!("{target} not found"));
    };
    match (group(target), target.kind.as_str()) {
        ("machineconfiguration.openshift.io", "MachineConfig") => {
            machine_config::rolled_out(&target.name, live, snapshot)
        }
        ("operator.openshift.io", "KubeDescheduler") => descheduler::runs(live, snapshot),
        ("hco.kubevirt.io", "HyperConverged") => hyper_converged(live),
        ("remediation.medik8s.io", "NodeHealthCheck") => node_health_check(live),
        (_, kind) => Health::unseen(format!("no operator reports on a {kind}")),
    }
}

/// Why a change that had taken effect no longer has, although nothing edited the target: its operator rejects it now,
/// because a precondition is gone. It takes it up again by itself.
///
/// Only a rejection of the target itself. A HyperConverged or a pool of nodes may be degraded for many reasons that have
/// nothing to do with what was applied: that is reported by [`health`] and does not fail the item.
pub fn regression(target: &TargetRef, live: &DynamicObject) -> Option<String> {
    match (group(target), target.kind.as_str()) {
        ("operator.openshift.io", "KubeDescheduler") => descheduler::degraded(live),
        ("remediation.medik8s.io", "NodeHealthCheck") => disabled(live),
        _ => None,
    }
}

/// Whether the deletion of a target has taken effect. `was` is the object before, or the applied one: its labels
/// determine which MachineConfigPools selected it.
pub fn gone(target: &TargetRef, was: Option<&Value>, snapshot: &Snapshot) -> Health {
    if snapshot.target(target).is_some() {
        return Health::waiting(format!("Waiting for {target} to be deleted"));
    }
    match (group(target), target.kind.as_str()) {
        ("machineconfiguration.openshift.io", "MachineConfig") => {
            machine_config::rolled_back(&target.name, was, snapshot)
        }
        _ => deleted(),
    }
}

/// Whether a pool restarts nodes now; see [`crate::remediation`].
pub(crate) fn pool_restarts_nodes(pool: &DynamicObject) -> bool {
    machine_config::restarts_nodes(pool)
}

/// Whether nodes will restart for an applied MachineConfig as soon as its pools have rendered it.
pub(crate) fn waits_for_rendering(target: &TargetRef, snapshot: &Snapshot) -> bool {
    let of_nodes = (group(target), target.kind.as_str())
        == ("machineconfiguration.openshift.io", "MachineConfig");
    let live = snapshot.target(target).filter(|_| of_nodes);
    live.is_some_and(|live| machine_config::waits_for_rendering(&target.name, live, snapshot))
}

fn group(target: &TargetRef) -> &str {
    target
        .api_version
        .split_once('/')
        .map_or("", |(group, _)| group)
}

fn applied() -> Health {
    Health::Healthy("Applied successfully".to_owned())
}

fn deleted() -> Health {
    Health::Healthy("Deleted successfully".to_owned())
}

/// The HyperConverged operator aggregates the conditions of all operators that it deploys, and sets
/// `observedGeneration` since 1.10.
fn hyper_converged(live: &DynamicObject) -> Health {
    if let Some(found) = condition(live, "Degraded").filter(|found| is_true(found)) {
        let why = describe_condition(found);
        return Health::faulty(format!("HyperConverged is degraded{why}"));
    }
    if let Some(found) = condition(live, "Progressing").filter(|found| is_true(found)) {
        let why = describe_condition(found);
        return Health::waiting(format!("HyperConverged is progressing{why}"));
    }
    if let Some(generation) = unobserved(live) {
        return Health::waiting(format!(
            "Waiting for the HyperConverged operator to take up generation {generation}"
        ));
    }
    // The operator writes its status when the object is created, long before a plan changes it: none means that it does
    // not run, and waiting would not end.
    let Some(available) = condition(live, "Available") else {
        return Health::unseen("the HyperConverged operator reports no status".to_owned());
    };
    if !is_true(available) {
        let why = describe_condition(available);
        return Health::faulty(format!("HyperConverged is not available{why}"));
    }
    if live.data.pointer("/status/observedGeneration").is_none() {
        // Its conditions may still be those of before the change.
        return Health::unseen(
            "the HyperConverged operator does not report which generation it has processed"
                .to_owned(),
        );
    }
    applied()
}

/// The operator sets no `observedGeneration`, but a phase once it has processed the object.
fn node_health_check(live: &DynamicObject) -> Health {
    if let Some(why) = disabled(live) {
        return Health::faulty(why);
    }
    match live.data.pointer("/status/phase").and_then(Value::as_str) {
        Some(phase) if !phase.is_empty() => applied(),
        _ => Health::Unseen {
            why: "the NodeHealthCheck operator reports no status".to_owned(),
            may_come: true,
        },
    }
}

/// Why the operator does not act on a NodeHealthCheck, if it does not.
fn disabled(live: &DynamicObject) -> Option<String> {
    let phase = live.data.pointer("/status/phase").and_then(Value::as_str);
    if phase != Some("Disabled") {
        return None;
    }
    let why = condition(live, "Disabled")
        .map(describe_condition)
        .unwrap_or_default();
    Some(format!("NodeHealthCheck is disabled{why}"))
}
