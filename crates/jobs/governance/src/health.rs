//! Whether what was applied has taken effect.
//!
//! Applying is not enough: operators take up what they are told when they can, and nodes reboot one
//! after the other. The next item waits for it, so that nothing is built on what is not there yet.

mod machine_config;
mod read;
mod rendering;
#[cfg(test)]
mod tests;

use api::advisor::TargetRef;
use kube_core::DynamicObject;
use serde_json::Value;

use crate::snapshot::Snapshot;
use read::{condition, is_true, told, unobserved};

/// Whether something has taken effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    /// It has.
    Healthy(String),
    /// Not yet.
    Waiting {
        /// What is going on.
        message: String,
        /// How many nodes have it, of how many.
        progress: Option<(i64, i64)>,
    },
    /// It will not.
    Failed(String),
}

impl Health {
    fn waiting(message: String) -> Self {
        Self::Waiting {
            message,
            progress: None,
        }
    }

    /// What is going on, in words.
    pub fn message(&self) -> &str {
        match self {
            Self::Healthy(message) | Self::Failed(message) | Self::Waiting { message, .. } => {
                message
            }
        }
    }
}

/// Whether what was applied to a target has taken effect. `live` is the target as it is.
pub fn health(target: &TargetRef, live: Option<&DynamicObject>, snapshot: &Snapshot) -> Health {
    let Some(live) = live else {
        return Health::waiting(format!("{target} not found"));
    };
    match (group(target), target.kind.as_str()) {
        ("machineconfiguration.openshift.io", "MachineConfig") => {
            machine_config::rolled_out(&target.name, live, snapshot)
        }
        ("operator.openshift.io", "KubeDescheduler") => descheduler(live),
        ("hco.kubevirt.io", "HyperConverged") => hyper_converged(live),
        ("remediation.medik8s.io", "NodeHealthCheck") => node_health_check(live),
        _ => applied(),
    }
}

/// Whether the deletion of a target has taken effect. `was` is the object before, or what was once
/// applied: its labels say which pools of machines had it.
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

/// The operator refuses a profile while it lacks something, such as pressure metrics on the nodes, and
/// takes it up by itself when that is there. It puts the text into the reason.
fn descheduler(live: &DynamicObject) -> Health {
    if let Some(degraded) =
        condition(live, "TargetConfigControllerDegraded").filter(|found| is_true(found))
    {
        // Before the generation: what is refused is never observed.
        return Health::waiting(format!("KubeDescheduler is degraded{}", told(degraded)));
    }
    match unobserved(live) {
        Some(generation) => Health::waiting(format!(
            "Waiting for the descheduler operator to take up generation {generation}"
        )),
        None => applied(),
    }
}

fn hyper_converged(live: &DynamicObject) -> Health {
    for (kind, verb) in [
        ("Degraded", "is degraded"),
        ("Progressing", "is progressing"),
    ] {
        if let Some(found) = condition(live, kind).filter(|found| is_true(found)) {
            return Health::waiting(format!("HyperConverged {verb}{}", told(found)));
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
    let why = condition(live, "Disabled").map(told).unwrap_or_default();
    Health::waiting(format!("NodeHealthCheck is disabled{why}"))
}
