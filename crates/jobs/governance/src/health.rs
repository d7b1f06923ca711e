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

/// Whether a change has taken effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    /// It has taken effect.
    Healthy(String),
    /// It has not taken effect yet.
    Waiting {
        /// The current progress.
        message: String,
        /// Number of updated nodes, and of all nodes.
        progress: Option<(i64, i64)>,
    },
    /// It cannot take effect.
    Failed(String),
}

impl Health {
    fn waiting(message: String) -> Self {
        Self::Waiting {
            message,
            progress: None,
        }
    }

    /// The current state as a message.
    pub fn message(&self) -> &str {
        match self {
            Self::Healthy(message) | Self::Failed(message) | Self::Waiting { message, .. } => {
                message
            }
        }
    }
}

/// Whether the change of a target has taken effect. `live` is the current target.
pub fn health(target: &TargetRef, live: Option<&DynamicObject>, snapshot: &Snapshot) -> Health {
    let Some(live) = live else {
        return Health::waiting(format!("{target} not found"));
    };
    match (group(target), target.kind.as_str()) {
        ("machineconfiguration.openshift.io", "MachineConfig") => {
            machine_config::rolled_out(&target.name, live, snapshot)
        }
        ("operator.openshift.io", "KubeDescheduler") => descheduler::runs(live, snapshot),
        ("hco.kubevirt.io", "HyperConverged") => hyper_converged(live),
        ("remediation.medik8s.io", "NodeHealthCheck") => node_health_check(live),
        _ => applied(),
    }
}

/// Why a change that had taken effect no longer has, although nothing edited the target: its operator rejects it now,
/// because a precondition is gone. It takes it up again by itself.
pub fn regression(target: &TargetRef, live: &DynamicObject) -> Option<String> {
    match (group(target), target.kind.as_str()) {
        ("operator.openshift.io", "KubeDescheduler") => descheduler::degraded(live),
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

fn hyper_converged(live: &DynamicObject) -> Health {
    for (kind, verb) in [
        ("Degraded", "is degraded"),
        ("Progressing", "is progressing"),
    ] {
        if let Some(found) = condition(live, kind).filter(|found| is_true(found)) {
            return Health::waiting(format!(
                "HyperConverged {verb}{}",
                describe_condition(found)
            ));
        }
    }
    match unobserved(live) {
        Some(generation) => Health::waiting(format!(
            "Waiting for the HyperConverged operator to take up generation {generation}"
        )),
        None => applied(),
    }
}

fn node_health_check(live: &DynamicObject) -> Health {
    let phase = live.data.pointer("/status/phase").and_then(Value::as_str);
    if phase != Some("Disabled") {
        return applied();
    }
    let why = condition(live, "Disabled")
        .map(describe_condition)
        .unwrap_or_default();
    Health::waiting(format!("NodeHealthCheck is disabled{why}"))
}
