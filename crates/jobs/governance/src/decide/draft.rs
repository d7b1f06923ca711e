//! Pending, Drafting, PrerequisiteFailed: generating a plan.

use std::collections::BTreeSet;

use api::advisor::{Action, Applied, ItemState, Operation, Phase};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{
    Decider, Decision, DecisionInputs, MISSING_KIND_REQUEUE, NextStep, UNREADABLE_KIND_REQUEUE,
    drift, review,
};
use crate::conditions::{
    APPROVED, CONTESTED, INPUT_DEPENDENCY_DRIFT, PLAN_STALE, PREREQUISITES_MET, UPGRADE_AVAILABLE,
    is_true, message_of,
};
use crate::deviation;
use crate::health::Health;
use crate::plan::{self, Draft, Plan, Preview, Problem};
use crate::profile::Profile;
use crate::retry;
use crate::snapshot::whole;

/// Prepares for a new plan: the outcome of the previous one is written into the history first.
pub(super) fn prepare(mut decider: Decider<'_>) -> Decision {
    match decider.close_if_open() {
        Some(decision) => decision,
        None => decider.move_to(Phase::Drafting),
    }
}

/// Requests the dry run of the items, or states why there are none.
pub(super) fn begin(decider: Decider<'_>) -> Decision {
    match plan::draft(&decider.facts) {
        Ok(draft) => decider.end(NextStep::Preview(draft)),
        Err(problem) => refuse(decider, &problem),
    }
}

/// Checks whether the missing prerequisites are installed now.
pub(super) fn recheck_prerequisites(mut decider: Decider<'_>) -> Decision {
    if decider.facts.spec_changed() {
        decider.acknowledge();
        return decider.start_over(None);
    }
    match plan::draft(&decider.facts) {
        // A namespace: only another dry run shows whether it exists now. The phase stays meanwhile.
        Ok(draft) if decider.status.retry.is_some() => match decider.next_attempt() {
            Some(at) => decider.rest(Some(at)),
            None => decider.end(NextStep::Preview(draft)),
        },
        Ok(_) => decider.start_over(Some("The missing prerequisites are installed")),
        Err(problem) => refuse(decider, &problem),
    }
}

/// A kind cannot be read: nothing can be decided from what is known. A plan in progress waits; what is in force stays.
pub(super) fn blind(mut decider: Decider<'_>, problem: &Problem) -> Decision {
    match decider.status.phase {
        None
        | Some(Phase::Ignored | Phase::Pending | Phase::Drafting | Phase::PrerequisiteFailed) => {
            refuse(decider, problem)
        }
        Some(_) => {
            let message = problem.message();
            let known = crate::conditions::get(&decider.status.conditions, PREREQUISITES_MET);
            if known.is_none_or(|known| known.reason != UNREADABLE) {
                decider.notice(true, UNREADABLE, &message);
            }
            decider.condition(PREREQUISITES_MET, false, UNREADABLE, &message);
            let wake = decider.facts.now.checked_add(UNREADABLE_KIND_REQUEUE);
            decider.rest(wake.ok())
        }
    }
}

/// Reason of the condition and of the event for a kind that cannot be read.
const UNREADABLE: &str = "KindUnreadable";

/// No plan can be generated.
pub(super) fn refuse(mut decider: Decider<'_>, problem: &Problem) -> Decision {
    decider.observe();
    let message = problem.message();
    // The live object or the API server has to change, and no watch event announces that.
    if let Problem::Unplannable(_) = problem {
        decider.enter(Phase::Failed, None, &message);
        decider.schedule_retry(retry::LONGEST);
        let at = decider.next_attempt();
        return decider.rest(at);
    }
    let reason = match problem {
        Problem::NoProfile(_) => "ProfileNotFound",
        Problem::Missing(_) | Problem::NotInstalled(_) => "MissingDependency",
        Problem::NoNamespace(_) => "MissingNamespace",
        Problem::Unreadable(_) => UNREADABLE,
        Problem::Invalid(_) | Problem::Unplannable(_) => "InvalidConfiguration",
    };
    decider.condition(PREREQUISITES_MET, false, reason, &problem.advice());
    decider.status.impact_severity = decider
        .status
        .impact_severity
        .or_else(|| decider.facts.profile.map(|profile| profile.about().impact));
    decider.enter(Phase::PrerequisiteFailed, None, &message);
    // Earlier applied state is still in force.
    drift::note_drift(&mut decider);
    drift::report_drift(&mut decider);
    if let Problem::NoNamespace(_) = problem {
        decider.schedule_retry(retry::LONGEST_FOR_PREREQUISITE);
        let at = decider.next_attempt();
        return decider.rest(at);
    }
    decider.status.retry = None;
    let interval = match problem {
        Problem::Unreadable(_) => UNREADABLE_KIND_REQUEUE,
        _ => MISSING_KIND_REQUEUE,
    };
    let wake = decider.facts.now.checked_add(interval).ok();
    decider.rest(wake)
}

/// Continues after the dry run of a draft.
pub fn drafted(facts: &DecisionInputs<'_>, draft: Draft, previews: &[Preview]) -> Decision {
    let mut decider = Decider::new(*facts);
    let missing = previews
        .iter()
        .filter_map(|it| it.missing_namespace.clone());
    let missing: BTreeSet<String> = missing.collect();
    if !missing.is_empty() {
        let problem = Problem::NoNamespace(missing.into_iter().collect());
        return refuse(decider, &problem);
    }
    let terms = plan::terms(facts, plan::next_revision(facts));
    let plan = match plan::assemble(draft, previews, &decider.status.applied, &terms) {
        Ok(plan) => plan,
        Err(why) => return refuse(decider, &Problem::Unplannable(why)),
    };
    decider.observe();
    decider.condition(
        PREREQUISITES_MET,
        true,
        "AllDependenciesFound",
        "All prerequisites of the profile are installed",
    );
    if crate::conditions::get(&decider.status.conditions, PLAN_STALE).is_some() {
        decider.condition(
            PLAN_STALE,
            false,
            "Replanned",
            "The plan was generated from the current state",
        );
    }
    // Set explicitly: an absent condition would not show that nothing happened.
    for (kind, reason, message) in [
        (
            UPGRADE_AVAILABLE,
            "NoLogicChange",
            "The plan is that of this version of the operator",
        ),
        (
            INPUT_DEPENDENCY_DRIFT,
            "NoChange",
            "The inputs of the plan are unchanged",
        ),
    ] {
        if crate::conditions::get(&decider.status.conditions, kind).is_none() {
            decider.condition(kind, false, reason, message);
        }
    }
    let changes_nothing = plan.changes_nothing;
    note_collisions(&mut decider, &plan);
    take(&mut decider, plan);
    decider.note_requirements();
    // Before approvals: as in the prototype, a plan without changes completes even under DryRun.
    if changes_nothing {
        return in_force(decider);
    }
    decider.status.next_window = None;
    let forced = is_true(&decider.status.conditions, INPUT_DEPENDENCY_DRIFT);
    if facts.config.spec.action == Action::Apply && !forced {
        return review::ask(decider);
    }
    review::wait(decider)
}

/// Reports other controllers that set the fields of the plan. Without any, the condition appears only to end.
fn note_collisions(decider: &mut Decider<'_>, plan: &Plan) {
    if plan.collisions.is_empty() {
        decider.clear(
            CONTESTED,
            "NoOtherController",
            "No other controller is known to set the fields of the plan",
        );
        return;
    }
    let all: Vec<String> = plan.collisions.iter().map(ToString::to_string).collect();
    decider.condition(CONTESTED, true, "OtherController", &all.join("; "));
}

/// Writes the plan into the status.
fn take(decider: &mut Decider<'_>, plan: Plan) {
    let facts = decider.facts;
    let status = &mut decider.status;
    status.items = plan.items;
    deviation::fit(&mut status.items);
    status.inputs = plan.inputs;
    status.warnings = plan.warnings;
    status.impact_severity = Some(plan.impact);
    status.source_snapshot_hash = Some(plan.hash);
    status.plan_digest = Some(plan.digest);
    status.operator_version = Some(facts.version.to_owned());
    status.capabilities = plan::capabilities(&facts);
    status.reviewed_digest = None;
    status.profile_hash = facts.profile.and_then(Profile::revision).map(str::to_owned);
    status
        .applied_options
        .clone_from(&facts.config.spec.options);
    status.drift.clear();
    status.retry = None;
    if facts.config.spec.rollback_to.is_none() {
        // The undone changes are about to be applied again, so they can be undone again.
        status.rolled_back_to = None;
    }
}

/// An item that was applied before the status write is tracked all the same. Its target has our ownership mark, so no
/// other manager applied it.
pub(super) fn adopt_reached(decider: &mut Decider<'_>, index: usize) {
    let facts = decider.facts;
    let Some(item) = decider.status.items.get(index) else {
        return;
    };
    let live = facts.snapshot.target(&item.target_ref);
    let config = facts.config.metadata.name.as_deref().unwrap_or_default();
    let reached = item.state == ItemState::Pending
        && item.operation == Operation::Apply
        && live.is_some_and(|live| {
            super::lock(item, Some(&whole(live)), config, false) == super::Lock::Done
        });
    if reached {
        adopt(decider, index);
    }
}

/// All targets are already in the desired state: there is nothing to approve.
fn in_force(mut decider: Decider<'_>) -> Decision {
    let mut waiting = false;
    for index in 0..decider.status.items.len() {
        let health = super::execute::health_of(&decider, index);
        decider.touch(index, |item| match &health {
            // What cannot be seen is in the condition Healthy.
            Health::Healthy(_)
            | Health::Unseen {
                may_come: false, ..
            } => {
                item.state = ItemState::Completed;
                item.message = Some("Already in desired state".to_owned());
            }
            // This plan has written nothing. `check_applied` decides in the next round, with the timeout.
            Health::Waiting { message, .. }
            | Health::Unseen { why: message, .. }
            | Health::Failed(message) => {
                item.state = ItemState::InProgress;
                item.message = Some(message.clone());
            }
        });
        let item = decider.status.items.get(index);
        waiting |= item.is_none_or(|item| item.state != ItemState::Completed);
        adopt(&mut decider, index);
    }
    forget_removed(&mut decider);
    decider.condition(
        APPROVED,
        false,
        "NothingToApprove",
        "All targets are already in the desired state",
    );
    decider.clear(
        INPUT_DEPENDENCY_DRIFT,
        "DriftResolved",
        "The configuration agrees with its inputs again",
    );
    decider.clear(
        UPGRADE_AVAILABLE,
        "ManuallyAligned",
        "The targets match the plan of this version of the operator",
    );
    if waiting {
        decider.enter(Phase::InProgress, None, message_of(Phase::InProgress));
        return decider.end(NextStep::Again);
    }
    super::execute::complete(decider)
}

/// Tracks an item that is in force for drift.
pub(super) fn adopt(decider: &mut Decider<'_>, index: usize) {
    let Some(item) = decider.status.items.get(index) else {
        return;
    };
    let target = &item.target_ref;
    let applied = &decider.status.applied;
    let is_it = |applied: &Applied| applied.target_ref == *target;
    // Items are applied in order, so it is mostly at the same index.
    let known = if applied.get(index).is_some_and(is_it) {
        Some(index)
    } else {
        applied.iter().position(is_it)
    };
    if item.operation != Operation::Apply {
        if let Some(known) = known {
            decider.status.applied.remove(known);
        }
        return;
    }
    let values = plan::wanted_values(item);
    let former = known
        .and_then(|known| decider.status.applied.get(known))
        .cloned();
    let unchanged = former
        .as_ref()
        .is_some_and(|former| former.values == values);
    let applied = Applied {
        name: item.name.clone(),
        target_ref: target.clone(),
        values,
        // Once created by us, always: on every later plan the target exists, and `base` would deny it.
        created: former
            .as_ref()
            .map_or_else(|| item.base.is_none(), |former| former.created),
        applied_at: match &former {
            Some(former) if unchanged => former.applied_at.clone(),
            _ => Some(Time(decider.facts.now)),
        },
        // The first revision that applied it: the history from there on has the values to restore.
        revision: former
            .as_ref()
            .map(|former| former.revision)
            .or(decider.status.revision)
            .unwrap_or_default(),
        deviations: deviation::losses(&item.deviations),
    };
    match known.and_then(|known| decider.status.applied.get_mut(known)) {
        Some(place) => *place = applied,
        None => decider.status.applied.push(applied),
    }
}

/// Stops tracking targets that are neither desired nor live.
fn forget_removed(decider: &mut Decider<'_>) {
    let wanted: Vec<_> = decider
        .status
        .items
        .iter()
        .map(|item| item.target_ref.clone())
        .collect();
    decider
        .status
        .applied
        .retain(|applied| wanted.contains(&applied.target_ref));
}
