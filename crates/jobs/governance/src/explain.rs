//! Explains the state of a configuration and the next steps.

use std::fmt::Write as _;

use api::advisor::{
    Action, DeviationClass, DriftClass, Item, ItemState, Operation, Phase, Takeover,
    VirtPlatformConfig, VirtPlatformConfigStatus,
};
use jiff::Timestamp;
use kube_core::ResourceExt as _;

use crate::conditions::{
    self, APPROVED, HEALTHY, INPUT_DEPENDENCY_DRIFT, PLAN_STALE, PREREQUISITES_MET,
    UPGRADE_AVAILABLE,
};
use crate::deviation;
use crate::diff::is_no_change;
use crate::in_flight;
use crate::retry;
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
            because: vec!["Not yet observed: the operator has not written a status.".to_owned()],
            next: vec!["Check that the operator runs (`medley run`, or `medley up`).".to_owned()],
        };
    };
    let mut because = Vec::new();
    let mut next = Vec::new();
    let observed = config.metadata.generation == status.observed_generation;
    if !observed {
        because.push(unobserved(config, &status));
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
    if phase != Phase::PrerequisiteFailed
        && let Some(unreadable) = conditions::get(&status.conditions, PREREQUISITES_MET)
            .filter(|condition| condition.reason == "KindUnreadable")
    {
        because.push(unreadable.message.clone());
        next.push(remedy_of_prerequisites(&status).to_owned());
    }
    because.extend(health(&status));
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
        Phase::Pending | Phase::Drafting => {
            next.push("Nothing: the plan is being generated.".to_owned());
        }
        // What would be advised is for a specification that has been replaced.
        _ if !observed => next.push(
            "Nothing: the operator takes up the new specification by itself. If it does not, `medley status` shows whether it runs.".to_owned(),
        ),
        Phase::PrerequisiteFailed => {
            next.push(remedy_of_prerequisites(&status).to_owned());
            next.extend(status.retry.as_ref().and_then(retry::describe));
        }
        Phase::ReviewRequired => review(config, &status, &mut because, &mut next),
        Phase::InProgress => progress(&status, &mut because, &mut next),
        Phase::Completed if config.spec.rollback_to.is_some() => next.push(
            "Nothing is done while spec.rollbackTo is set. Remove it to plan again.".to_owned(),
        ),
        Phase::Completed => next.push(completed(&status).to_owned()),
        Phase::CompletedWithErrors | Phase::Failed => {
            failed(&status, &mut because);
            next.push(if conditions::is_true(&status.conditions, PLAN_STALE) {
                again(&name)
            } else {
                format!(
                    "Fix the failure. {}",
                    match status.retry.as_ref().and_then(retry::describe) {
                        Some(when) => format!("{when} For another plan: {}.", replan(config)),
                        None => format!("Then plan again: {}.", replan(config)),
                    }
                )
            });
            if status.revision.is_some() && !status.applied.is_empty() {
                next.push(format!("Or undo the applied changes: `medley rollback {name}`."));
            }
        }
        Phase::CompletedWithUpgrade => {
            next.push(format!(
                "Review the plan made now: {}.", replan(config)
            ));
            next.push("Or leave it: nothing changes by itself.".to_owned());
        }
        Phase::Drifted => drifted(config, &status, &mut next),
        Phase::Ignored => next.push(format!(
            "Set action to 'DryRun' for a plan: `kubectl patch virtplatformconfig {name} --type merge -p '{{\"spec\":{{\"action\":\"DryRun\"}}}}'`."
        )),
    }
    Explanation {
        state: format!(
            "{name} is {phase} (action {:?}){}.",
            config.spec.action,
            detail(&status, observed)
        ),
        because,
        next,
    }
}

/// What the phase alone does not say.
fn detail(status: &VirtPlatformConfigStatus, observed: bool) -> &'static str {
    let approved = conditions::get(&status.conditions, APPROVED);
    match status.phase {
        _ if !observed => ", not yet observed",
        Some(Phase::ReviewRequired)
            if approved.is_some_and(|condition| condition.reason == "Rejected") =>
        {
            ", and the plan is rejected"
        }
        Some(Phase::InProgress) if status.next_window.is_some() => {
            ", and waits for a maintenance window"
        }
        _ => "",
    }
}

/// The specification is newer than the status.
fn unobserved(config: &VirtPlatformConfig, status: &VirtPlatformConfigStatus) -> String {
    let number = |generation: Option<i64>| {
        generation.map_or_else(|| "unknown".to_owned(), |generation| generation.to_string())
    };
    format!(
        "Not yet observed: the specification was changed and is not reconciled yet (generation {}, observed {}).",
        number(config.metadata.generation),
        number(status.observed_generation)
    )
}

/// What operators report about what is in force, unless all is well.
fn health(status: &VirtPlatformConfigStatus) -> Option<String> {
    let healthy = conditions::get(&status.conditions, HEALTHY)?;
    match (healthy.status.as_str(), healthy.reason.as_str()) {
        ("False", _) => Some(format!("Not healthy: {}", healthy.message)),
        // The progress of a plan is explained with its items.
        ("Unknown", "Progressing") if status.phase != Some(Phase::InProgress) => {
            Some(format!("Health not known: {}", healthy.message))
        }
        ("Unknown", "NotReported") => Some(format!("Health not known: {}", healthy.message)),
        _ => None,
    }
}

/// The next step for a configuration that is in force.
fn completed(status: &VirtPlatformConfigStatus) -> &'static str {
    let healthy = conditions::get(&status.conditions, HEALTHY);
    match healthy.map_or("", |healthy| healthy.status.as_str()) {
        "False" => {
            "Everything is in force, and an operator reports a fault: repair what it names. The condition Healthy follows by itself."
        }
        _ => "Nothing: everything is in force and watched.",
    }
}

/// What to do about prerequisites, by the reason of the condition.
fn remedy_of_prerequisites(status: &VirtPlatformConfigStatus) -> &'static str {
    let condition = conditions::get(&status.conditions, PREREQUISITES_MET);
    match condition.map_or("", |condition| condition.reason.as_str()) {
        "ProfileNotFound" => {
            "Start the operator with --enable-profile, or delete the configuration: its profile cannot be changed."
        }
        "MissingNamespace" => {
            "Install the operator that the namespace belongs to, or create it. No restart is needed."
        }
        "KindUnreadable" => {
            "Repair what the message names: a permission of the operator, or the conversion webhook of the kind. It is tried again by itself."
        }
        "InvalidConfiguration" => "Correct the specification as the message describes.",
        _ => {
            "Install the missing prerequisites, or change the options so that they are not needed. No restart is needed."
        }
    }
}

/// How to request another plan for review: setting an action that is set already changes nothing.
fn replan(config: &VirtPlatformConfig) -> String {
    let name = config.name_any();
    match config.spec.action {
        Action::DryRun => {
            format!("`medley plan {name} --renew`, review, and `medley approve {name}`")
        }
        Action::Apply | Action::Ignore => {
            format!("set action to 'DryRun', review, and `medley approve {name}`")
        }
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
    let approved = conditions::get(&status.conditions, APPROVED);
    let reason = approved.map_or("", |condition| condition.reason.as_str());
    if let Some(condition) = approved
        && (config.spec.action == Action::Apply || reason == "Rejected")
    {
        next.push(condition.message.clone());
    }
    match reason {
        // Another approval changes nothing about these; the message above says what does.
        "ApprovalsNotRecorded"
        | "AuthorUnknown"
        | "InvalidPolicy"
        | "UnknownItem"
        | "PartlyApproved"
            if config.spec.action == Action::Apply =>
        {
            return;
        }
        "Rejected" => {
            next.push(format!("To approve it after all: `medley approve {name}`."));
            return;
        }
        _ => {}
    }
    let takes = status
        .items
        .iter()
        .flat_map(|item| &item.takeovers)
        .any(|takeover| !takeover.reclaimed);
    let flag = if takes { " --take-over" } else { "" };
    // Where action is 'Apply' already, setting it is no edit. Any other edit only acknowledges a changed input.
    let or = match config.spec.action {
        Action::Apply if reason == "InputChanged" => ", or edit the specification",
        Action::Apply => "",
        Action::DryRun | Action::Ignore => ", or set action to 'Apply'",
    };
    next.push(format!(
        "Approve it: `medley approve {name}{flag}`{or}. Refuse it: `medley reject {name}`."
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
    let waits = status
        .items
        .iter()
        .any(|item| item.state == ItemState::Pending);
    next.push(match &status.next_window {
        Some(opens) => {
            let opens = machinery::time::format_time(opens.0);
            let since = waiting_since(status).map(machinery::time::format_time);
            let since = since.map(|since| format!("It has been waiting since {since}. "));
            format!(
                "{}It continues when the maintenance window opens, at {opens}. Setting action to 'DryRun' stops it.",
                since.unwrap_or_default()
            )
        }
        None if current.is_some_and(waits_for_work) => {
            "It continues when that has finished, or the gate is removed from the ApprovalPolicy. Setting action to 'DryRun' withdraws the plan."
                .to_owned()
        }
        None if waits => {
            "It continues by itself. Setting action to 'DryRun' stops it before the next item."
                .to_owned()
        }
        // All items are applied, so there is nothing to stop.
        None => "It continues by itself, as soon as the last item is healthy.".to_owned(),
    });
}

/// Since when the next item could have started: the plan began, and the items before it are completed.
fn waiting_since(status: &VirtPlatformConfigStatus) -> Option<Timestamp> {
    let began = conditions::get(&status.conditions, Phase::InProgress.as_str());
    let began = began.map(|condition| condition.last_transition_time.0);
    let before = status.items.iter();
    let before = before.take_while(|item| item.state != ItemState::Pending);
    let ended = before.filter_map(|item| Some(item.last_transition_time.as_ref()?.0));
    ended.chain(began).max()
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

fn drifted(config: &VirtPlatformConfig, status: &VirtPlatformConfigStatus, next: &mut Vec<String>) {
    let name = config.name_any();
    if status
        .enforcement
        .as_ref()
        .is_some_and(|known| known.paused)
    {
        next.push("Correction is paused, because another manager keeps reverting it. Stop that manager, then edit the specification to resume.".to_owned());
    }
    next.push(format!(
        "Put it back: {}; or put it back by hand, which is recognised.",
        replan(config)
    ));
    next.push(format!(
        "Keep it: `medley adopt {name}` turns the live value into an option, where there is one."
    ));
    next.push("Or hand it over: set action to 'Ignore'.".to_owned());
}

#[cfg(test)]
mod tests;
