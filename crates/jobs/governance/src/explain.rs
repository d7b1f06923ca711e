//! Explains the state of a configuration and the next steps.

use std::fmt::Write as _;

use api::advisor::{
    Action, DeviationClass, DriftClass, Item, ItemState, Operation, Phase, Takeover,
    VirtPlatformConfig,
    VirtPlatformConfigStatus,
};
use kube_core::ResourceExt as _;

use crate::conditions::{self, APPROVED, INPUT_DEPENDENCY_DRIFT, PLAN_STALE, UPGRADE_AVAILABLE};
use crate::deviation;
use crate::diff::is_no_change;
use crate::in_flight;
use crate::values::short;

/// The state of a configuration, its reasons and next steps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// The phase, as a sentence.
    pub state: String,
    /// The reasons, one per line.
    pub because: Vec<String>,
    /// The possible next steps, one per line.
    pub next: Vec<String>,
}

/// Explains the status of a configuration.
pub fn explain(config: &VirtPlatformConfig) -> Explanation {
    let name = config.name_any();
    let status = config.status.clone().unwrap_or_default();
    let Some(phase) = status.phase else {
        return Explanation {
            state: format!("{name} has not been reconciled yet."),
            because: vec!["The operator has not written a status.".to_owned()],
            next: vec!["Check that the operator runs (`medley run`, or `medley up`).".to_owned()],
        };
    };
    let mut because = Vec::new();
    let mut next = Vec::new();
    if config.metadata.generation != status.observed_generation {
        because.push("The specification was changed and is not reconciled yet.".to_owned());
    }
    if let Some(condition) = conditions::get(&status.conditions, phase.as_str()) {
        because.push(condition.message.clone());
    }
    for kind in [PLAN_STALE, INPUT_DEPENDENCY_DRIFT, UPGRADE_AVAILABLE] {
        if let Some(condition) = conditions::get(&status.conditions, kind)
            && condition.status == "True"
            && !because
                .iter()
                .any(|known| known.contains(&condition.message))
        {
            because.push(format!("{kind}: {}", condition.message));
        }
    }
    if phase != Phase::Drifted {
        because.extend(edits(&status));
    }
    because.extend(deviations(&status));
    because.extend(
        status
            .warnings
            .iter()
            .map(|warning| format!("Warning: {warning}")),
    );
    match phase {
        Phase::Pending | Phase::Drafting => next.push("Nothing: the plan is being generated.".to_owned()),
        Phase::PrerequisiteFailed => next.push(
            "Install the missing prerequisites, or change the options so that they are not needed. No restart is needed.".to_owned(),
        ),
        Phase::ReviewRequired => review(config, &status, &mut because, &mut next),
        Phase::InProgress => progress(&status, &mut because, &mut next),
        Phase::Completed if config.spec.rollback_to.is_some() => next.push(
            "Nothing is done while spec.rollbackTo is set. Remove it to plan again.".to_owned(),
        ),
        Phase::Completed => next.push("Nothing: everything is in force and watched.".to_owned()),
        Phase::CompletedWithErrors | Phase::Failed => {
            failed(&status, &mut because);
            next.push(if conditions::is_true(&status.conditions, PLAN_STALE) {
                again(&name)
            } else {
                format!(
                    "Fix the failure, then plan again: `medley plan {name}` shows the changes; set action to 'DryRun', review, and `medley approve {name}`."
                )
            });
            if status.revision.is_some() && !status.applied.is_empty() {
                next.push(format!("Or undo the applied changes: `medley rollback {name}`."));
            }
        }
        Phase::CompletedWithUpgrade => {
            next.push(format!(
                "Review the plan made now: set action to 'DryRun', check `medley diff {name}`, then run `medley approve {name}`."
            ));
            next.push("Or leave it: nothing changes by itself.".to_owned());
        }
        Phase::Drifted => drifted(&name, &status, &mut next),
        Phase::Ignored => next.push(format!(
            "Set action to 'DryRun' for a plan: `kubectl patch virtplatformconfig {name} --type merge -p '{{\"spec\":{{\"action\":\"DryRun\"}}}}'`."
        )),
    }
    Explanation {
        state: format!("{name} is {phase} (action {:?}).", config.spec.action),
        because,
        next,
    }
}

fn review(
    config: &VirtPlatformConfig,
    status: &VirtPlatformConfigStatus,
    because: &mut Vec<String>,
    next: &mut Vec<String>,
) {
    let name = config.name_any();
    for item in &status.items {
        let unchanged = item.diff.as_deref().is_some_and(is_no_change);
        let does = match item.operation {
            Operation::Apply if unchanged => "leaves unchanged",
            Operation::Apply => "changes",
            Operation::Restore => "gives back fields of",
            Operation::Delete => "deletes",
        };
        let mut line = format!("Item '{}' {does} {}", item.name, item.target_ref);
        if let Some(impact) = item.impact_severity {
            let _ = write!(line, " (impact {impact})");
        }
        because.push(line + ".");
        for takeover in &item.takeovers {
            because.push(format!(
                "  It takes {} from {}{}: {} becomes {}{}.",
                takeover.path,
                takeover.manager,
                since(takeover),
                short(takeover.live.as_ref()),
                short(takeover.wanted.as_ref()),
                if takeover.reclaimed {
                    " (it was ours)"
                } else {
                    ""
                },
            ));
        }
    }
    if conditions::is_true(&status.conditions, PLAN_STALE) {
        next.push(again(&name));
        return;
    }
    if config.spec.action == Action::Apply
        && let Some(condition) = conditions::get(&status.conditions, APPROVED)
    {
        next.push(condition.message.clone());
    }
    let takes = status
        .items
        .iter()
        .flat_map(|item| &item.takeovers)
        .any(|takeover| !takeover.reclaimed);
    let flag = if takes { " --take-over" } else { "" };
    // Where action is 'Apply' already, setting it is no edit.
    let or = match config.spec.action {
        Action::Apply => "edit the specification",
        Action::DryRun | Action::Ignore => "set action to 'Apply'",
    };
    next.push(format!(
        "Approve it: `medley approve {name}{flag}`, or {or}. Refuse it: `medley reject {name}`."
    ));
}

/// Since when its manager owns a field, if that is known: `, its owner since 2026-01-01T00:00:00Z`.
pub fn since(takeover: &Takeover) -> String {
    let since = takeover.since.as_ref();
    since.map_or_else(String::new, |since| {
        format!(
            ", its owner since {}",
            machinery::time::format_time(since.0)
        )
    })
}

/// What the API server keeps instead of what the items request, one line each. Defaults are no cause for concern.
fn deviations(status: &VirtPlatformConfigStatus) -> Vec<String> {
    let mut lines = Vec::new();
    for item in &status.items {
        let kept = item.deviations.iter();
        for one in kept.filter(|one| one.class != DeviationClass::Defaulted) {
            lines.push(format!(
                "The API server keeps another value: {}: {}.",
                item.name,
                deviation::describe(one)
            ));
        }
    }
    lines
}

/// The next step for a stale plan.
fn again(name: &str) -> String {
    format!(
        "Plan again: `medley plan {name} --renew`, or set action to 'Ignore' and then to 'DryRun'. The changes are listed above."
    )
}

/// The drift of applied state, one line each.
fn edits(status: &VirtPlatformConfigStatus) -> impl Iterator<Item = String> {
    let edits = status
        .drift
        .iter()
        .filter(|drift| drift.class == DriftClass::ExternalEdit);
    edits.map(|drift| {
        format!(
            "Drift: {} of item '{}' is {}, applied was {}.",
            drift.path,
            drift.item,
            short(drift.live.as_ref()),
            short(drift.applied.as_ref())
        )
    })
}

fn progress(status: &VirtPlatformConfigStatus, because: &mut Vec<String>, next: &mut Vec<String>) {
    let done = status
        .items
        .iter()
        .filter(|item| item.state == ItemState::Completed)
        .count();
    because.push(format!(
        "{done} of {} items are completed.",
        status.items.len()
    ));
    let current = status.items.iter().find(|item| {
        matches!(item.state, ItemState::InProgress)
            || (item.state == ItemState::Pending
                && (status.next_window.is_some() || waits_for_work(item)))
    });
    if let Some(item) = current {
        let message = item.message.as_deref().unwrap_or("it is being applied");
        because.push(format!("Item '{}': {message}", item.name));
    }
    match &status.next_window {
        Some(opens) => next.push(format!(
            "It continues when the maintenance window opens, at {}.",
            machinery::time::format_time(opens.0)
        )),
        None if current.is_some_and(waits_for_work) => next.push(
            "It continues when that has finished, or the gate is removed from the ApprovalPolicy. Setting action to 'DryRun' withdraws the plan."
                .to_owned(),
        ),
        None => next.push(
            "It continues by itself. Setting action to 'DryRun' stops it before the next item."
                .to_owned(),
        ),
    }
}

/// Whether an in-flight gate holds an item.
fn waits_for_work(item: &Item) -> bool {
    let message = item.message.as_deref().unwrap_or_default();
    item.state == ItemState::Pending && message.starts_with(in_flight::WAITS)
}

fn failed(status: &VirtPlatformConfigStatus, because: &mut Vec<String>) {
    for item in status
        .items
        .iter()
        .filter(|item| item.state == ItemState::Failed)
    {
        let message = item.message.as_deref().unwrap_or("no reason is known");
        because.push(format!("Item '{}': {message}", item.name));
    }
}

fn drifted(name: &str, status: &VirtPlatformConfigStatus, next: &mut Vec<String>) {
    if status
        .enforcement
        .as_ref()
        .is_some_and(|known| known.paused)
    {
        next.push("Correction is paused, because another manager keeps reverting it. Stop that manager, then edit the specification to resume.".to_owned());
    }
    next.push(format!(
        "Put it back: set action to 'DryRun', review, and `medley approve {name}`; or put it back by hand, which is recognised."
    ));
    next.push(format!(
        "Keep it: `medley adopt {name}` turns the live value into an option, where there is one."
    ));
    next.push("Or hand it over: set action to 'Ignore'.".to_owned());
}

#[cfg(test)]
mod tests;
