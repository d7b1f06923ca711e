//! Other operators: who writes what jobs of Medley write, and what would have to change.

#[cfg(test)]
pub(super) mod tests;

use api::mode::{Mode, Ownership, reasons};
use governance::collisions::{Collision, Rival};
use placement::ownership::UPSTREAM_STOPPED;

use super::{Check, CheckInputs, Finding};
use crate::check::inputs::Rivals;

const RIVALS: &str = "Other operators";

/// One check for each operator.
pub(super) fn rivals(inputs: &CheckInputs) -> Vec<Finding> {
    let rivals = &inputs.rivals;
    vec![
        virt_advisor(rivals),
        autopilot(rivals),
        sources(
            rivals,
            Check::new("argo-cd", RIVALS, "Argo CD manages no target of governance"),
            |it| matches!(it, Rival::ArgoCd { .. }),
        ),
        sources(
            rivals,
            Check::new("flux", RIVALS, "Flux manages no target of governance"),
            |it| matches!(it, Rival::Flux { .. }),
        ),
        multiarch_tuning(rivals),
        cluster_version(rivals),
    ]
}

fn virt_advisor(rivals: &Rivals) -> Finding {
    let title = "no virt-advisor-operator reconciles VirtPlatformConfigs";
    let check = Check::new("virt-advisor", RIVALS, title);
    match &rivals.governance {
        Err(why) => check.unreadable(why),
        Ok(ownership) if ownership.mode == Mode::Assist => {
            let (what, next) = split(ownership);
            check.warning(what).hint(next)
        }
        Ok(_) => check.ok(),
    }
}

fn autopilot(rivals: &Rivals) -> Finding {
    let title = "the virt-platform-autopilot manages no target of governance";
    let check = Check::new("virt-platform-autopilot", RIVALS, title);
    let running = match &rivals.autopilot {
        Err(why) => return check.unreadable(why),
        Ok(running) => running,
    };
    let finding = sources(rivals, check.clone(), |it| matches!(it, Rival::Autopilot));
    match running {
        Some(running) if finding.is_ok() => check
            .off(format!("{running}, and none of the targets is its own"))
            .hint(
                "nothing to do; a plan that it would revert has a warning and the condition Contested",
            ),
        _ => finding,
    }
}

/// The targets that a controller reverts.
fn sources(rivals: &Rivals, check: Check, is_it: fn(&Rival) -> bool) -> Finding {
    let all = match &rivals.collisions {
        Err(why) => return check.unreadable(why),
        Ok(all) => all,
    };
    let of: Vec<&Collision> = all.iter().filter(|it| is_it(&it.rival)).collect();
    let Some(first) = of.first() else {
        return check.ok();
    };
    let targets: Vec<String> = of
        .iter()
        .map(|it| format!("{} is managed by {}", it.target, it.rival))
        .collect();
    let more = match of.len() {
        1 => "",
        _ => "; likewise for the others",
    };
    check
        .warning(format!(
            "{}, which reverts plans that set the same fields",
            super::listed(&targets)
        ))
        .hint(format!("{}{more}", first.remedy()))
}

fn multiarch_tuning(rivals: &Rivals) -> Finding {
    let title = "no multiarch-tuning-operator places pods";
    let check = Check::new("multiarch-tuning", RIVALS, title);
    let ownership = match &rivals.placement {
        Err(why) => return check.unreadable(why),
        Ok(ownership) => ownership,
    };
    let (what, next) = split(ownership);
    match (ownership.reason, &ownership.owner) {
        (UPSTREAM_STOPPED, _) => check.warning(what).hint(next),
        (reasons::MANAGING, _) | (_, None) => check.ok(),
        (_, Some(_)) => check.off(what).hint(next),
    }
}

fn cluster_version(rivals: &Rivals) -> Finding {
    let title = "no cluster version operator maintains the ClusterVersion";
    let check = Check::new("cluster-version", RIVALS, title);
    let ownership = match &rivals.release {
        Err(why) => return check.unreadable(why),
        Ok(ownership) => ownership,
    };
    match &ownership.owner {
        Some(_) if ownership.manages() => check.ok(),
        None => check.ok(),
        Some(_) if rivals.owns_release => {
            let hint = "set spec.mode of ReleasePolicy default to Observe";
            check.warning(&ownership.message).hint(hint)
        }
        Some(_) => check
            .off(&ownership.message)
            .hint("nothing to do; leave spec.mode of ReleasePolicy default at Observe"),
    }
}

/// What is the case, and the next step: a message of an ownership ends with it.
fn split(ownership: &Ownership) -> (&str, &str) {
    ownership
        .message
        .split_once("; ")
        .unwrap_or((&ownership.message, "see `medley status`"))
}
