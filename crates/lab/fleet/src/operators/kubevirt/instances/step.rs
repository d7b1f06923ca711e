//! The next action of virt-controller for an instance.

use kube::api::DynamicObject;

use crate::operators::kubevirt::launcher::{Launcher, current};
use crate::operators::kubevirt::object::{is_leaving, phase};

/// The next action.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum InstanceStep<'a> {
    /// Report what there is.
    Observe,
    /// Accept an instance that virt-controller has not created.
    Accept,
    /// Create its launcher pod.
    Launch,
    /// Delete its launcher pods.
    Clean(Vec<&'a Launcher>),
}

/// The next action for an instance with these launcher pods. One that ended keeps them until it is deleted.
pub(super) fn step<'a>(instance: &DynamicObject, launchers: &'a [Launcher]) -> InstanceStep<'a> {
    match (phase(instance), is_leaving(instance)) {
        // A running guest is stopped by its node first.
        ("Scheduled" | "Running", _) => InstanceStep::Observe,
        (_, true) => {
            let staying: Vec<_> = launchers.iter().filter(|one| !one.leaving).collect();
            if staying.is_empty() {
                InstanceStep::Observe
            } else {
                InstanceStep::Clean(staying)
            }
        }
        ("", false) => InstanceStep::Accept,
        ("Pending", false) if current(instance, launchers).is_none() => InstanceStep::Launch,
        _ => InstanceStep::Observe,
    }
}

#[cfg(test)]
mod tests;
