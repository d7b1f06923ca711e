//! Completed and its neighbours, Drifted, Failed: everything is watched, nothing is done unasked.
//!
//! Three things may come between what is in force and what is wanted, and they are told apart: what
//! the plan was derived from changed, somebody edited a target, or this version plans differently.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use api::advisor::{
    Action, Drift, DriftClass, Item, ItemState, Operation, Phase, VirtPlatformConfigStatus,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube_core::DynamicObject;

use super::{Decision, Facts, Todo, Turn, draft, execute, review};
use crate::conditions::{UPGRADE_AVAILABLE, message_of};
use crate::enforcement::{self, Verdict};
use crate::health::Health;
use crate::plan::{self, Draft};
use crate::snapshot::part_with;
use crate::{ownership, values};

/// Looks whether everything is as it was left.
pub(super) fn watch(mut turn: Turn<'_>) -> Decision {
    // First: how the plan ended is not to be mistaken for what is asked for now.
    if let Some(decision) = turn.close_if_open() {
        return decision;
    }
    if turn.facts.spec_changed() {
        turn.acknowledge();
        return turn.start_over(None);
    }
    if turn.status.phase == Some(Phase::Failed) {
        note_drift(&mut turn);
        tell_drift(&mut turn);
        return turn.rest(None);
    }
    if turn.status.rolled_back_to.is_some()
        && turn.status.rolled_back_to == turn.facts.config.spec.rollback_to
    {
        // What earlier plans applied is still in force.
        note_drift(&mut turn);
        tell_drift(&mut turn);
        return turn.rest(None);
    }
    let draft = match plan::draft(&turn.facts) {
        Ok(draft) => draft,
        Err(problem) => return draft::refuse(turn, &problem),
    };
    if review::inputs_changed(&mut turn, &draft.inputs) {
        return turn.move_to(Phase::Drafting);
    }
    turn.status.inputs.clone_from(&draft.inputs);
    if aligned(&draft, &turn) {
        return in_sync(turn, draft);
    }
    note_drift(&mut turn);
    mark_items(&mut turn);
    if !turn.status.drift.is_empty() {
        return drifted(turn, &draft);
    }
    if !draft.same_as(&turn.status.items) {
        return upgradable(turn, &draft);
    }
    same_logic(&mut turn);
    rest_as_it_was(turn)
}

/// Whether the cluster is as the draft wants it: nothing to apply, nothing to remove.
fn aligned(draft: &Draft, turn: &Turn<'_>) -> bool {
    let applied: BTreeMap<_, _> = turn
        .status
        .applied
        .iter()
        .map(|applied| (&applied.target_ref, &applied.values))
        .collect();
    draft.items.iter().all(|item| {
        let wanted = plan::wanted_values(item);
        // Applying would take back what was wanted before and is not any more.
        let gives_up = applied.get(&item.target_ref).is_some_and(|applied| {
            let changes = values::changes(applied, &wanted);
            changes.iter().any(|change| change.to.is_none())
        });
        let live = turn.facts.snapshot.target(&item.target_ref);
        item.operation == Operation::Apply
            && !gives_up
            && live.is_some_and(|live| {
                let part = part_with(live, wanted.keys());
                values::differences(&wanted, &part).is_empty()
            })
    })
}

/// Everything is as it is wanted, also by this version.
fn in_sync(mut turn: Turn<'_>, draft: Draft) -> Decision {
    turn.status.drift.clear();
    let now = turn.facts.now;
    let remembered = turn.status.enforcement.take();
    turn.status.enforcement = remembered.and_then(|known| enforcement::settled(&known, now));
    let drifted = turn.status.phase == Some(Phase::Drifted);
    if !draft.same_as(&turn.status.items) {
        // Somebody did by hand what this version would do.
        turn.clear(
            UPGRADE_AVAILABLE,
            "ManuallyAligned",
            "The cluster agrees with what this version of the operator plans",
        );
        take_over(&mut turn, draft);
    } else if turn.status.phase == Some(Phase::CompletedWithUpgrade) {
        turn.clear(
            UPGRADE_AVAILABLE,
            "ManuallyAligned",
            "The cluster agrees with what this version of the operator plans",
        );
    }
    for index in 0..turn.status.items.len() {
        // A failed item that somebody has put right is not failed any more. One that did not become
        // healthy in time is, until it does.
        let healthy = matches!(execute::health_of(&turn, index), Health::Healthy(_));
        turn.touch(index, |item| {
            if item.state == ItemState::Failed && healthy || item.state == ItemState::Pending {
                item.state = ItemState::Completed;
                item.message = Some(IN_SYNC.to_owned());
            }
        });
        draft::adopt(&mut turn, index);
    }
    mark_items(&mut turn);
    if drifted {
        turn.notice(
            false,
            "DriftResolved",
            "The configuration agrees with what was applied again",
        );
    }
    same_logic(&mut turn);
    rest_as_it_was(turn)
}

/// The items of a draft that is in force already become the plan.
fn take_over(turn: &mut Turn<'_>, draft: Draft) {
    let former = std::mem::take(&mut turn.status.items);
    turn.status.items = draft
        .items
        .into_iter()
        .map(|item| {
            let known = former.iter().find(|old| old.name == item.name);
            Item {
                state: ItemState::Completed,
                message: Some(IN_SYNC.to_owned()),
                last_transition_time: Some(Time(turn.facts.now)),
                base: known.and_then(|old| old.base.clone()),
                diff: known.and_then(|old| old.diff.clone()),
                ..item
            }
        })
        .collect();
    let terms = plan::terms(&turn.facts, plan::next_revision(&turn.facts));
    turn.status.plan_digest = Some(crate::hash::plan_digest(&terms, &turn.status.items));
}

/// This version plans as the one that made the plan.
fn same_logic(turn: &mut Turn<'_>) {
    if turn.status.operator_version.as_deref() != Some(turn.facts.version) {
        turn.status.operator_version = Some(turn.facts.version.to_owned());
        if crate::conditions::get(&turn.status.conditions, UPGRADE_AVAILABLE)
            .is_none_or(|condition| condition.status == "True")
        {
            turn.condition(
                UPGRADE_AVAILABLE,
                false,
                "NoLogicChange",
                "This version of the operator plans the same",
            );
        }
    }
}

/// What the prototype says about an item that was changed.
const DRIFTED: &str = "Configuration has drifted from desired state";

/// What is said about an item that is as it should be.
const IN_SYNC: &str = "In desired state";

/// Notes where targets differ from what was applied.
pub(super) fn note_drift(turn: &mut Turn<'_>) {
    turn.status.drift = drift(&turn.facts, &turn.status);
}

/// Says in a phase that is not about drift that there is some. The condition stays false: that of
/// the phase is the one that holds.
pub(super) fn tell_drift(turn: &mut Turn<'_>) {
    let edited = |drift: &Drift| drift.class == DriftClass::ExternalEdit;
    let edited = turn.status.drift.iter().any(edited);
    let Some(phase) = turn.status.phase.filter(|_| edited) else {
        return;
    };
    let message = tell(&turn.status);
    turn.condition("Drifted", false, phase.as_str(), &message);
}

/// Says at the items which of them have drifted, and at no others.
fn mark_items(turn: &mut Turn<'_>) {
    let drifted = turn.status.drift.iter().map(|drift| drift.item.clone());
    let drifted: BTreeSet<_> = drifted.collect();
    for index in 0..turn.status.items.len() {
        let changed = drifted.contains(&turn.status.items[index].name);
        turn.touch(index, |item| {
            if changed {
                item.message = Some(DRIFTED.to_owned());
            } else if item.message.as_deref() == Some(DRIFTED) {
                item.message = Some(IN_SYNC.to_owned());
            }
        });
    }
}

/// Where targets differ from what was applied, and who did it.
fn drift(facts: &Facts<'_>, status: &VirtPlatformConfigStatus) -> Vec<Drift> {
    let mut found = Vec::new();
    for applied in &status.applied {
        // Without their kind nothing is known of the objects, not even that they are gone.
        if facts.snapshot.kind_of(&applied.target_ref).is_none() {
            continue;
        }
        let live = facts.snapshot.target(&applied.target_ref);
        let object = live.map_or_else(Cow::default, |live| part_with(live, applied.values.keys()));
        for difference in values::differences(&applied.values, &object) {
            let writer = live.and_then(|live: &std::sync::Arc<DynamicObject>| {
                ownership::last_writer(&live.metadata, &difference.path)
            });
            let (manager, time) =
                writer.map_or((None, None), |(manager, time)| (Some(manager), time));
            found.push(Drift {
                item: applied.name.clone(),
                path: difference.path,
                applied: difference.wanted,
                live: difference.live,
                manager,
                time: time.map(Time),
                class: DriftClass::ExternalEdit,
            });
        }
    }
    found
}

/// Drift in words.
fn tell(status: &VirtPlatformConfigStatus) -> String {
    let told: Vec<_> = status
        .drift
        .iter()
        .filter(|drift| drift.class == DriftClass::ExternalEdit)
        .map(|drift| {
            let by = drift
                .manager
                .as_deref()
                .map(|by| format!(", changed by {by}"))
                .unwrap_or_default();
            let at = drift
                .time
                .as_ref()
                .map(|time| format!(" at {}", machinery::time::format_time(time.0)))
                .unwrap_or_default();
            format!(
                "{}: {} is {}, applied was {}{by}{at}",
                drift.item,
                drift.path,
                values::short(drift.live.as_ref()),
                values::short(drift.applied.as_ref()),
            )
        })
        .collect();
    format!("{DRIFTED}: {}", told.join("; "))
}

/// Somebody edited a target.
fn drifted(mut turn: Turn<'_>, draft: &Draft) -> Decision {
    let message = tell(&turn.status);
    if draft.same_as(&turn.status.items) {
        same_logic(&mut turn);
    }
    let against = turn
        .status
        .drift
        .iter()
        .find_map(|drift| drift.manager.clone());
    turn.enter(Phase::Drifted, None, &message);
    let spec = &turn.facts.config.spec;
    if spec.bypass_optimistic_lock && spec.action == Action::Apply {
        return enforce(turn, against.as_deref());
    }
    turn.rest(None)
}

/// Locks are bypassed: what was changed is changed back, unless that never ends.
fn enforce(mut turn: Turn<'_>, against: Option<&str>) -> Decision {
    let (state, verdict) =
        enforcement::correct(turn.status.enforcement.as_ref(), turn.facts.now, against);
    turn.status.enforcement = Some(state);
    match verdict {
        Verdict::Correct => {
            turn.notice(
                true,
                "DriftCorrected",
                "Locks are bypassed: the configuration is applied again",
            );
            turn.move_to(Phase::Drafting)
        }
        Verdict::Wait(until) => turn.rest(Some(until)),
        Verdict::Pause => {
            let message = format!(
                "{} changes the configuration back again and again. It is left alone until the specification changes.",
                against.unwrap_or("Somebody")
            );
            turn.notice(true, "EnforcementPaused", &message);
            turn.rest(None)
        }
        Verdict::Paused => turn.rest(None),
    }
}

/// This version would plan differently: that waits until somebody asks for it.
fn upgradable(mut turn: Turn<'_>, draft: &Draft) -> Decision {
    let changes = wanted_changes(&turn.status, &draft.items, DriftClass::LogicUpgrade);
    let told: Vec<_> = changes
        .iter()
        .map(|change| {
            format!(
                "{}: {} from {} to {}",
                change.item,
                change.path,
                values::short(change.applied.as_ref()),
                values::short(change.live.as_ref())
            )
        })
        .collect();
    let message = format!(
        "Operator {} plans differently than {}: {}. Change action to 'DryRun' to review.",
        turn.facts.version,
        turn.status
            .operator_version
            .as_deref()
            .unwrap_or("the version before"),
        if told.is_empty() {
            "other items".to_owned()
        } else {
            told.join("; ")
        },
    );
    turn.status.drift = changes;
    turn.condition(UPGRADE_AVAILABLE, true, "LogicChanged", &message);
    turn.enter(Phase::CompletedWithUpgrade, None, &message);
    turn.rest(None::<Timestamp>)
}

/// What would change of what is in force, and why: `applied` is what is in force, `live` what is wanted
/// instead. An item that is new is no change of anything, unless this version came up with it.
pub(super) fn wanted_changes(
    status: &VirtPlatformConfigStatus,
    items: &[Item],
    class: DriftClass,
) -> Vec<Drift> {
    let mut found = Vec::new();
    for item in items {
        let mut applied = status.applied.iter();
        let applied = applied.find(|applied| applied.target_ref == item.target_ref);
        if applied.is_none() && class != DriftClass::LogicUpgrade {
            continue;
        }
        let now = applied
            .map(|applied| applied.values.clone())
            .unwrap_or_default();
        for change in values::changes(&now, &plan::wanted_values(item)) {
            found.push(Drift {
                item: item.name.clone(),
                path: change.path,
                applied: change.from,
                live: change.to,
                manager: None,
                time: None,
                class,
            });
        }
    }
    found
}

/// Nothing happened.
fn rest_as_it_was(mut turn: Turn<'_>) -> Decision {
    let failed = turn
        .status
        .items
        .iter()
        .filter(|item| item.state == ItemState::Failed)
        .count();
    turn.clear(
        UPGRADE_AVAILABLE,
        "NoLogicChange",
        "This version of the operator plans the same",
    );
    if failed > 0 {
        let message = format!(
            "{} ({failed} failed)",
            message_of(Phase::CompletedWithErrors)
        );
        turn.enter(Phase::CompletedWithErrors, None, &message);
    } else {
        turn.enter(Phase::Completed, None, message_of(Phase::Completed));
    }
    let todo = Todo::Rest(None);
    turn.end(todo)
}
