//! Findings about genuine operators: which controller writes what, and before installation, which ones run.

use api::mode::Mode;

use super::{Check, Finding};
use crate::check::inputs::{CheckInputs, JobOwnership, OwnershipState};

const OWNERSHIP: &str = "Ownership";

/// The mode of each controller that runs, and of each that does not although it has a genuine operator.
pub(super) fn modes(inputs: &CheckInputs) -> Vec<Finding> {
    let entries = inputs.ownership.iter().filter(|it| it.enabled);
    entries.map(mode).collect()
}

fn mode(entry: &JobOwnership) -> Finding {
    let JobOwnership {
        component,
        state,
        take_over,
        ..
    } = entry;
    let check = |mode: &str| {
        let title = format!("{component} is in mode {mode}");
        Check::new("ownership", OWNERSHIP, title)
    };
    let OwnershipState { ownership, running } = match state {
        Ok(state) => state,
        Err(why) => return check("Manage, Assist or Off").unreadable(why),
    };
    let check = check(&ownership.mode.to_string());
    let finding = match ownership.mode {
        Mode::Manage => check.finding(super::State::Ok, &ownership.message),
        // Nothing is wrong: the user has to know that Medley does not write.
        Mode::Assist | Mode::Off => check.off(&ownership.message),
    };
    match take_over {
        Some(command) if running.is_some() && ownership.mode != Mode::Manage => {
            finding.hint(format!("to let Medley manage: {command}"))
        }
        _ => finding,
    }
}

/// Genuine operators that run, before the installation.
pub(super) fn rivals(inputs: &CheckInputs) -> Vec<Finding> {
    inputs.ownership.iter().filter_map(rival).collect()
}

fn rival(entry: &JobOwnership) -> Option<Finding> {
    let JobOwnership {
        component,
        enabled,
        state,
        take_over,
    } = entry;
    let title = format!("no other operator writes the objects of {component}");
    let check = Check::new("install-rivals", super::INSTALLING, title);
    let running = match state {
        // A controller that is not to be installed needs nothing.
        Err(_) if !enabled => return None,
        Err(why) => return Some(check.unreadable(why)),
        Ok(state) => state.running.as_ref(),
    };
    let Some(running) = running else {
        return enabled.then(|| check.ok());
    };
    let finding = check.off(running.to_string());
    let assist = format!("{component} will only report (mode Assist)");
    Some(match (enabled, take_over) {
        (false, _) => finding.hint(format!(
            "nothing, if it should stay so; with {component} in --controllers, Medley reports on it, and writes nothing beside it"
        )),
        (true, Some(command)) => finding.hint(format!(
            "nothing, if it should stay so: {assist}; to let Medley manage after the installation: {command}"
        )),
        (true, None) => finding.hint(format!(
            "nothing, if it should stay so: {assist}; {}",
            running.next_step(component)
        )),
    })
}
