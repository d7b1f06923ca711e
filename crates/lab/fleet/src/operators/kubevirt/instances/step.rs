//! What virt-controller does next about an instance.

use kube::api::DynamicObject;

use crate::operators::kubevirt::launcher::Launcher;
use crate::operators::kubevirt::object::{is_leaving, phase};

/// What is to be done.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step<'a> {
    /// Nothing until something changes.
    Nothing,
    /// Take note of an instance.
    Accept,
    /// Make a pod for it.
    Launch,
    /// It has a pod.
    Begin,
    /// No node takes the pod, for this reason.
    Wait(&'a str),
    /// The pod is ready: its node goes on.
    HandOver(&'a Launcher),
    /// It will never run.
    Fail(&'static str),
    /// Have its pods go.
    Clean(Vec<&'a Launcher>),
    /// Nothing is left of it.
    Release,
}

/// What is to be done about an instance that has these pods.
pub(super) fn step<'a>(instance: &DynamicObject, launchers: &'a [Launcher]) -> Step<'a> {
    let launcher = launchers.iter().find(|one| one.migration.is_none());
    match (phase(instance), is_leaving(instance)) {
        // What runs is stopped by its node first.
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

/// A pod that ends before its instance runs takes the instance with it.
fn fail<'a>() -> Step<'a> {
    Step::Fail("virt-launcher pod terminated before the virtual machine ran")
}

fn clean(launchers: &[Launcher]) -> Option<Step<'_>> {
    let staying: Vec<_> = launchers.iter().filter(|one| !one.leaving).collect();
    (!staying.is_empty()).then_some(Step::Clean(staying))
}

#[cfg(test)]
mod tests;
