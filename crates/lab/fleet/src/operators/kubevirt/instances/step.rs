//! The next action of virt-controller for an instance.

use kube::api::DynamicObject;

use crate::operators::kubevirt::launcher::Launcher;
use crate::operators::kubevirt::object::{is_leaving, phase};

/// The next action.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step<'a> {
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
pub(super) fn step<'a>(instance: &DynamicObject, launchers: &'a [Launcher]) -> Step<'a> {
    let launcher = launchers.iter().find(|one| one.migration.is_none());
    match (phase(instance), is_leaving(instance)) {
        // A running guest is stopped by its node first.
        ("Scheduled" | "Running", _) => Step::Nothing,
        ("Succeeded" | "Failed", false) => clean(launchers).unwrap_or(Step::Nothing),
        (_, true) => match clean(launchers) {
            Some(clean) => clean,
            None if launchers.is_empty() => Step::Release,
            None => Step::Nothing,
        },
        ("", false) => Step::Accept,
        ("Pending", false) => match launcher {
            None => Step::Launch,
            Some(launcher) if launcher.is_down() || launcher.leaving => fail(),
            Some(_) => Step::Begin,
        },
        ("Scheduling", false) => match launcher {
            None => fail(),
            Some(launcher) if launcher.is_down() || launcher.leaving => fail(),
            Some(launcher) if launcher.ready && !launcher.node.is_empty() => {
                Step::HandOver(launcher)
            }
            Some(launcher) => match &launcher.unschedulable {
                Some(why) => Step::Wait(why),
                None => Step::Nothing,
            },
        },
        _ => Step::Nothing,
    }
}

/// A launcher pod that ends before its instance runs fails the instance.
fn fail<'a>() -> Step<'a> {
    Step::Fail("virt-launcher pod terminated before the virtual machine ran")
}

fn clean(launchers: &[Launcher]) -> Option<Step<'_>> {
    let staying: Vec<_> = launchers.iter().filter(|one| !one.leaving).collect();
    (!staying.is_empty()).then_some(Step::Clean(staying))
}

#[cfg(test)]
mod tests;
