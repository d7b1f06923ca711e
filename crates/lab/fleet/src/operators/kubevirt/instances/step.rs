//! The next action of virt-controller for an instance.

use kube::api::DynamicObject;

use crate::operators::kubevirt::launcher::Launcher;
use crate::operators::kubevirt::object::{is_leaving, phase};

/// The next action.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum InstanceStep<'a> {
    /// Wait for a change.
    Nothing,
    /// Accept a new instance.
    Accept,
    /// Create its launcher pod.
    Launch,
    /// The launcher pod exists.
    Begin,
    /// The launcher pod is unschedulable, for this reason.
    Wait(&'a str),
    /// The launcher pod is ready: hand over to virt-handler on its node.
    HandOver(&'a Launcher),
    /// The instance cannot run any more.
    Fail(&'static str),
    /// Delete its launcher pods.
    Clean(Vec<&'a Launcher>),
    /// Remove the finalizer.
    Release,
}

/// The next action for an instance with these launcher pods.
pub(super) fn step<'a>(instance: &DynamicObject, launchers: &'a [Launcher]) -> InstanceStep<'a> {
    let launcher = launchers.iter().find(|one| one.migration.is_none());
    match (phase(instance), is_leaving(instance)) {
        // A running guest is stopped by its node first.
        ("Scheduled" | "Running", _) => InstanceStep::Nothing,
        ("Succeeded" | "Failed", false) => clean(launchers).unwrap_or(InstanceStep::Nothing),
        (_, true) => match clean(launchers) {
            Some(clean) => clean,
            None if launchers.is_empty() => InstanceStep::Release,
            None => InstanceStep::Nothing,
        },
        ("", false) => InstanceStep::Accept,
        ("Pending", false) => match launcher {
            None => InstanceStep::Launch,
            Some(launcher) if launcher.is_down() || launcher.leaving => fail(),
            Some(_) => InstanceStep::Begin,
        },
        ("Scheduling", false) => match launcher {
            None => fail(),
            Some(launcher) if launcher.is_down() || launcher.leaving => fail(),
            Some(launcher) if launcher.ready && !launcher.node.is_empty() => {
                InstanceStep::HandOver(launcher)
            }
            Some(launcher) => match &launcher.unschedulable {
                Some(why) => InstanceStep::Wait(why),
                None => InstanceStep::Nothing,
            },
        },
        _ => InstanceStep::Nothing,
    }
}

/// A launcher pod that ends before its instance runs fails the instance.
fn fail<'a>() -> InstanceStep<'a> {
    InstanceStep::Fail("virt-launcher pod terminated before the virtual machine ran")
}

fn clean(launchers: &[Launcher]) -> Option<InstanceStep<'_>> {
    let staying: Vec<_> = launchers.iter().filter(|one| !one.leaving).collect();
    (!staying.is_empty()).then_some(InstanceStep::Clean(staying))
}

#[cfg(test)]
mod tests;
