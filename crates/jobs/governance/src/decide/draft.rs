//! Pending, Drafting, PrerequisiteFailed: making a plan.

use api::advisor::{Action, Applied, ItemState, Operation, Phase};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{Decision, Facts, LOOK_AGAIN, Todo, Turn, review, settled};
use crate::conditions::{
    APPROVED, INPUT_DEPENDENCY_DRIFT, PLAN_STALE, PREREQUISITES_MET, UPGRADE_AVAILABLE, is_true,
    message_of,
};
use crate::health::Health;
use crate::plan::{self, Draft, Plan, Preview, Problem};
use crate::snapshot::whole;

/// Makes ready for a new plan: how the one before ended goes into the history first.
pub(super) fn prepare(mut turn: Turn<'_>) -> Decision {
    match turn.close_if_open() {
        Some(decision) => decision,
        None => turn.move_to(Phase::Drafting),
    }
}

/// Asks for what the server would make of the items, or says why there are none.
pub(super) fn begin(turn: Turn<'_>) -> Decision {
    match plan::draft(&turn.facts) {
        Ok(draft) => turn.end(Todo::Preview(draft)),
        Err(problem) => refuse(turn, &problem),
    }
}

/// Something was missing: is it still?
pub(super) fn try_again(mut turn: Turn<'_>) -> Decision {
    if turn.facts.spec_changed() {
        turn.acknowledge();
        return turn.start_over(None);
    }
    match plan::draft(&turn.facts) {
        Ok(_) => turn.start_over(Some("What was missing is there")),
        Err(problem) => refuse(turn, &problem),
    }
}

/// There can be no plan.
pub(super) fn refuse(mut turn: Turn<'_>, problem: &Problem) -> Decision {
    turn.observe();
    let message = problem.message();
    if let Problem::Unplannable(_) = problem {
        turn.enter(Phase::Failed, None, &message);
        return turn.rest(None);
    }
    let reason = match problem {
        Problem::NoProfile(_) => "ProfileNotFound",
        Problem::Missing(_) => "MissingDependency",
        Problem::Invalid(_) | Problem::Unplannable(_) => "InvalidConfiguration",
    };
    turn.condition(PREREQUISITES_MET, false, reason, &problem.advice());
    turn.status.impact_severity = turn
        .status
        .impact_severity
        .or_else(|| turn.facts.profile.map(|profile| profile.about().impact));
    turn.enter(Phase::PrerequisiteFailed, None, &message);
    // What was applied is in force all the same.
    settled::note_drift(&mut turn);
    settled::tell_drift(&mut turn);
    let wake = turn.facts.now.checked_add(LOOK_AGAIN).ok();
    turn.rest(wake)
}

/// Goes on with what the server said about the items of a draft.
pub fn drafted(facts: &Facts<'_>, draft: Draft, previews: &[Preview]) -> Decision {
    let mut turn = Turn::new(*facts);
    let terms = plan::terms(facts, plan::next_revision(facts));
    let plan = match plan::assemble(draft, previews, &turn.status.applied, &terms) {
        Ok(plan) => plan,
        Err(why) => return refuse(turn, &Problem::Unplannable(why)),
    };
    turn.observe();
    turn.condition(
        PREREQUISITES_MET,
        true,
        "AllDependenciesFound",
        "Everything that the profile needs is installed",
    );
    if crate::conditions::get(&turn.status.conditions, PLAN_STALE).is_some() {
        turn.condition(
            PLAN_STALE,
            false,
            "Replanned",
            "The plan was made from what there is now",
        );
    }
    // Absence says nothing; that nothing happened does.
    for (kind, reason, message) in [
        (
            UPGRADE_AVAILABLE,
            "NoLogicChange",
            "The plan is that of this version of the operator",
        ),
        (
            INPUT_DEPENDENCY_DRIFT,
            "NoChange",
            "What the plan is derived from is unchanged",
        ),
    ] {
        if crate::conditions::get(&turn.status.conditions, kind).is_none() {
            turn.condition(kind, false, reason, message);
        }
    }
    let changes_nothing = plan.changes_nothing;
    take(&mut turn, plan);
    turn.note_requirements();
    if changes_nothing {
        return in_force(turn);
    }
    turn.status.next_window = None;
    let forced = is_true(&turn.status.conditions, INPUT_DEPENDENCY_DRIFT);
    if facts.config.spec.action == Action::Apply && !forced {
        return review::ask(turn);
    }
    review::wait(turn)
}

/// The plan becomes the status.
fn take(turn: &mut Turn<'_>, plan: Plan) {
    let facts = turn.facts;
    let status = &mut turn.status;
    status.items = plan.items;
    status.inputs = plan.inputs;
    status.warnings = plan.warnings;
    status.impact_severity = Some(plan.impact);
    status.source_snapshot_hash = Some(plan.hash);
    status.plan_digest = Some(plan.digest);
    status.operator_version = Some(facts.version.to_owned());
    status
        .applied_options
        .clone_from(&facts.config.spec.options);
    status.drift.clear();
    if facts.config.spec.rollback_to.is_none() {
        // What was undone is about to be done again: it can be undone again.
        status.rolled_back_to = None;
    }
}

/// An item that was applied before that could be written down becomes part of what is watched all the
/// same. It bears our mark, so nobody else did it.
pub(super) fn adopt_reached(turn: &mut Turn<'_>, index: usize) {
    let facts = turn.facts;
    let Some(item) = turn.status.items.get(index) else {
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
        adopt(turn, index);
    }
}

/// Everything is as it is wanted already: there is nothing to approve.
fn in_force(mut turn: Turn<'_>) -> Decision {
    let mut waiting = false;
    for index in 0..turn.status.items.len() {
        let health = super::execute::health_of(&turn, index);
        turn.touch(index, |item| match &health {
            Health::Healthy(_) => {
                item.state = ItemState::Completed;
                item.message = Some("Already in desired state".to_owned());
            }
            Health::Waiting { message, .. } | Health::Failed(message) => {
                item.state = ItemState::InProgress;
                item.message = Some(message.clone());
            }
        });
        waiting |= !matches!(health, Health::Healthy(_));
        adopt(&mut turn, index);
    }
    forget_removed(&mut turn);
    turn.condition(
        APPROVED,
        false,
        "NothingToApprove",
        "Everything is as it is wanted already",
    );
    turn.clear(
        INPUT_DEPENDENCY_DRIFT,
        "DriftResolved",
        "The configuration agrees with its inputs again",
    );
    turn.clear(
        UPGRADE_AVAILABLE,
        "ManuallyAligned",
        "The cluster agrees with what this version of the operator plans",
    );
    if waiting {
        turn.enter(Phase::InProgress, None, message_of(Phase::InProgress));
        return turn.end(Todo::Again);
    }
    super::execute::complete(turn)
}

/// An item that is in force becomes part of what is watched.
pub(super) fn adopt(turn: &mut Turn<'_>, index: usize) {
    let Some(item) = turn.status.items.get(index) else {
        return;
    };
    let target = &item.target_ref;
    let applied = &turn.status.applied;
    let is_it = |applied: &Applied| applied.target_ref == *target;
    // Items are applied in their order, so it mostly stands in the same place.
    let known = if applied.get(index).is_some_and(is_it) {
        Some(index)
    } else {
        applied.iter().position(is_it)
    };
    if item.operation != Operation::Apply {
        if let Some(known) = known {
            turn.status.applied.remove(known);
        }
        return;
    }
    let values = plan::wanted_values(item);
    let former = known
        .and_then(|known| turn.status.applied.get(known))
        .cloned();
    let unchanged = former
        .as_ref()
        .is_some_and(|former| former.values == values);
    let applied = Applied {
        name: item.name.clone(),
        target_ref: target.clone(),
        values,
        created: former
            .as_ref()
            .map_or_else(|| item.base.is_none(), |former| former.created),
        applied_at: match &former {
            Some(former) if unchanged => former.applied_at.clone(),
            _ => Some(Time(turn.facts.now)),
        },
        revision: former
            .as_ref()
            .map(|former| former.revision)
            .or(turn.status.revision)
            .unwrap_or_default(),
    };
    match known.and_then(|known| turn.status.applied.get_mut(known)) {
        Some(place) => *place = applied,
        None => turn.status.applied.push(applied),
    }
}

/// What is neither wanted nor there any more is not watched either.
fn forget_removed(turn: &mut Turn<'_>) {
    let wanted: Vec<_> = turn
        .status
        .items
        .iter()
        .map(|item| item.target_ref.clone())
        .collect();
    turn.status
        .applied
        .retain(|applied| wanted.contains(&applied.target_ref));
}
