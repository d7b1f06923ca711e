//! Completed, CompletedWithUpgrade, CompletedWithErrors, Drifted, Failed: targets are watched, and nothing is applied
//! without a request.
//!
//! Three differences between live and desired state are distinguished: an input of the plan changed, another manager
//! edited a target, or this version plans differently.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use api::advisor::{
    Action, Drift, DriftClass, FIELD_MANAGER, Item, ItemState, Operation, Phase,
    VirtPlatformConfigStatus,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube_core::DynamicObject;

use super::{Decider, Decision, DecisionInputs, diffs, draft, execute, retrying, review};
use crate::conditions::{UPGRADE_AVAILABLE, message_of};
use crate::enforcement::{self, CorrectionVerdict};
use crate::health::{self, Health};
use crate::plan::{self, Draft};
use crate::profile::Profile;
use crate::retry;
use crate::served::ServedSchema;
use crate::snapshot::part_with;
use crate::{deviation, ownership, values};

/// Checks whether the targets are still as applied.
pub(super) fn watch(mut decider: Decider<'_>) -> Decision {
    // First, so that the outcome of the plan is not derived from a newer request.
    if let Some(decision) = decider.close_if_open() {
        return decision;
    }
    if decider.facts.spec_changed() {
        decider.acknowledge();
        return decider.start_over(None);
    }
    if decider.status.phase == Some(Phase::Failed) {
        return retrying::failed(decider);
    }
    // The attempt has ended, and its outcome is in the history.
    let retry = decider.status.retry.take();
    decider.status.retry = retry.filter(|retry| retry.at.is_some());
    if decider.status.rolled_back_to.is_some()
        && decider.status.rolled_back_to == decider.facts.config.spec.rollback_to
    {
        // State applied by earlier plans is still in force.
        note_drift(&mut decider);
        diffs::refresh(&mut decider, None);
        report_drift(&mut decider);
        return decider.rest(None);
    }
    let draft = match plan::draft(&decider.facts) {
        Ok(draft) => draft,
        Err(problem) => return draft::refuse(decider, &problem),
    };
    // First: a changed input changes the draft as well, and would be reported as an upgrade. Inputs are compared with
    // those of the plan. The prototype compares them with the live target, and reports a manual edit of it as a changed
    // input.
    if review::inputs_changed(&mut decider, &draft.inputs) {
        return decider.move_to(Phase::Drafting);
    }
    // Before upgrades: the content of a PlatformProfile is not that of a version of the operator.
    if !draft.same_as(&decider.status.items) && review::profile_changed(&mut decider, &draft) {
        return decider.move_to(Phase::Drafting);
    }
    let revision = decider.facts.profile.and_then(Profile::revision);
    decider.status.profile_hash = revision.map(str::to_owned);
    // The raw values may differ although the derived ones are equal: 10 and 11 migrations both allow 10 evictions.
    decider.status.inputs.clone_from(&draft.inputs);
    // Before drift: a target that matches this version's plan is in sync, whatever an earlier version applied.
    if aligned(&draft, &decider) {
        return in_sync(decider, draft);
    }
    note_drift(&mut decider);
    mark_items(&mut decider);
    diffs::refresh(&mut decider, Some(&draft));
    // Before upgrades, whose message compares with the applied state: while a target is edited, that state is not in
    // force.
    if diffs::is_edited(&decider) {
        return drifted(decider, &draft);
    }
    if !draft.same_as(&decider.status.items) || !decider.status.drift.is_empty() {
        return upgradable(decider, &draft);
    }
    same_logic(&mut decider);
    unchanged(decider)
}

/// Whether the live objects match the draft: nothing to apply, nothing to remove.
fn aligned(draft: &Draft, decider: &Decider<'_>) -> bool {
    let applied: BTreeMap<_, _> = decider
        .status
        .applied
        .iter()
        .map(|applied| (&applied.target_ref, applied))
        .collect();
    draft.items.iter().all(|item| {
        let wanted = plan::wanted_values(item);
        // Applying would release fields that are no longer desired.
        let applied = applied.get(&item.target_ref);
        let gives_up = applied.is_some_and(|applied| {
            let changes = values::changes(&applied.values, &wanted);
            changes.iter().any(|change| change.to.is_none())
        });
        let deviations = applied.map_or(&[][..], |applied| &applied.deviations);
        let live = decider.facts.snapshot.target(&item.target_ref);
        item.operation == Operation::Apply
            && !gives_up
            && live.is_some_and(|live| {
                let part = part_with(live, wanted.keys());
                deviation::unexplained(&wanted, &part, deviations).is_empty()
            })
    })
}

/// All targets are in the desired state of this version.
fn in_sync(mut decider: Decider<'_>, draft: Draft) -> Decision {
    decider.status.drift.clear();
    let now = decider.facts.now;
    let remembered = decider.status.enforcement.take();
    decider.status.enforcement = remembered.and_then(|known| enforcement::settled(&known, now));
    let drifted = decider.status.phase == Some(Phase::Drifted);
    if !draft.same_as(&decider.status.items) {
        // A user applied by hand what this version plans.
        decider.clear(
            UPGRADE_AVAILABLE,
            "ManuallyAligned",
            "The targets match the plan of this version of the operator",
        );
        take_over(&mut decider, draft);
    } else if decider.status.phase == Some(Phase::CompletedWithUpgrade) {
        decider.clear(
            UPGRADE_AVAILABLE,
            "ManuallyAligned",
            "The targets match the plan of this version of the operator",
        );
    }
    for index in 0..decider.status.items.len() {
        // A failed item whose target was fixed is no longer failed. One that timed out is, until it is healthy.
        let healthy = matches!(
            execute::health_of(&decider, index),
            Health::Healthy(_) | Health::Unseen { .. }
        );
        decider.touch(index, |item| {
            if item.state == ItemState::Failed && healthy || item.state == ItemState::Pending {
                item.state = ItemState::Completed;
                item.message = Some(IN_SYNC.to_owned());
            }
        });
        draft::adopt(&mut decider, index);
    }
    mark_items(&mut decider);
    diffs::refresh(&mut decider, None);
    if drifted {
        decider.notice(
            false,
            "DriftResolved",
            "The targets match the applied state again",
        );
    }
    same_logic(&mut decider);
    unchanged(decider)
}

/// The items of a draft that is in force already become the plan.
fn take_over(decider: &mut Decider<'_>, draft: Draft) {
    let former = std::mem::take(&mut decider.status.items);
    decider.status.items = draft
        .items
        .into_iter()
        .map(|item| {
            let known = former.iter().find(|old| old.name == item.name);
            Item {
                state: ItemState::Completed,
                message: Some(IN_SYNC.to_owned()),
                last_transition_time: Some(Time(decider.facts.now)),
                base: known.and_then(|old| old.base.clone()),
                diff: known.and_then(|old| old.diff.clone()),
                deviations: known.map_or_else(Vec::new, |old| old.deviations.clone()),
                ..item
            }
        })
        .collect();
    let terms = plan::terms(&decider.facts, plan::next_revision(&decider.facts));
    decider.status.plan_digest = Some(crate::hash::plan_digest(&terms, &decider.status.items));
}

/// This version plans the same as the one that generated the plan.
fn same_logic(decider: &mut Decider<'_>) {
    decider.status.capabilities = plan::capabilities(&decider.facts);
    if decider.status.operator_version.as_deref() != Some(decider.facts.version) {
        decider.status.operator_version = Some(decider.facts.version.to_owned());
        if crate::conditions::get(&decider.status.conditions, UPGRADE_AVAILABLE)
            .is_none_or(|condition| condition.status == "True")
        {
            decider.condition(
                UPGRADE_AVAILABLE,
                false,
                "NoLogicChange",
                "This version of the operator plans the same",
            );
        }
    }
}

/// The prototype's message for a drifted item.
const DRIFTED: &str = "Configuration has drifted from desired state";

/// Message of an item in its desired state.
const IN_SYNC: &str = "In desired state";

/// Writes the drift of targets to the status.
pub(super) fn note_drift(decider: &mut Decider<'_>) {
    decider.status.drift = drift(&decider.facts, &decider.status);
}

/// Reports drift in a phase other than Drifted. The Drifted condition stays false: exactly one phase condition is true.
pub(super) fn report_drift(decider: &mut Decider<'_>) {
    let edited = |drift: &Drift| drift.class == DriftClass::ExternalEdit;
    let edited = decider.status.drift.iter().any(edited);
    let Some(phase) = decider.status.phase.filter(|_| edited) else {
        return;
    };
    let message = describe_drift(&decider.status);
    decider.condition("Drifted", false, phase.as_str(), &message);
}

/// Sets the message of drifted items, and resets that of others.
fn mark_items(decider: &mut Decider<'_>) {
    let drifted = decider.status.drift.iter();
    let drifted = drifted.filter(|drift| drift.class == DriftClass::ExternalEdit);
    let drifted: BTreeSet<_> = drifted.map(|drift| drift.item.clone()).collect();
    for index in 0..decider.status.items.len() {
        let changed = drifted.contains(&decider.status.items[index].name);
        decider.touch(index, |item| {
            if changed {
                item.message = Some(DRIFTED.to_owned());
            } else if item.message.as_deref() == Some(DRIFTED) {
                item.message = Some(IN_SYNC.to_owned());
            }
        });
    }
}

/// The differences between live targets and the applied state, with the managers that caused them.
fn drift(facts: &DecisionInputs<'_>, status: &VirtPlatformConfigStatus) -> Vec<Drift> {
    let mut found = Vec::new();
    for applied in &status.applied {
        // Without its CRD nothing is known about an object, not even that it is gone.
        if facts.snapshot.kind_of(&applied.target_ref).is_none() {
            continue;
        }
        let live = facts.snapshot.target(&applied.target_ref);
        let object = live.map_or_else(Cow::default, |live| part_with(live, applied.values.keys()));
        let differences = deviation::unexplained(&applied.values, &object, &applied.deviations);
        if differences.is_empty() {
            continue;
        }
        let schema = ServedSchema::of(facts.snapshot.kind_of(&applied.target_ref));
        // Of an object that is gone, nothing was pruned.
        let pruned = live.map_or_else(BTreeSet::new, |_| schema.pruned(&applied.values));
        for difference in differences {
            let writer = live.and_then(|live: &std::sync::Arc<DynamicObject>| {
                ownership::last_writer(&live.metadata, &difference.path)
            });
            let class = if pruned.contains(&difference.path) {
                DriftClass::CapabilityChange
            } else {
                DriftClass::ExternalEdit
            };
            // The API server attributes what it changes itself to the manager of the request; we wrote another value.
            let (manager, time) = writer
                .filter(|(manager, _)| {
                    manager != FIELD_MANAGER && class == DriftClass::ExternalEdit
                })
                .map_or((None, None), |(manager, time)| (Some(manager), time));
            found.push(Drift {
                item: applied.name.clone(),
                path: difference.path,
                applied: difference.wanted,
                live: difference.live,
                manager,
                time: time.map(Time),
                class,
            });
        }
    }
    found
}

/// The drift as a message.
fn describe_drift(status: &VirtPlatformConfigStatus) -> String {
    let lines: Vec<_> = status
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
    format!("{DRIFTED}: {}", lines.join("; "))
}

/// Another manager edited a target.
fn drifted(mut decider: Decider<'_>, draft: &Draft) -> Decision {
    let message = describe_drift(&decider.status);
    if draft.same_as(&decider.status.items) {
        same_logic(&mut decider);
    }
    let against = decider
        .status
        .drift
        .iter()
        .find_map(|drift| drift.manager.clone());
    // Once it is as applied again, what failed is tried again.
    decider.status.retry = None;
    decider.enter(Phase::Drifted, None, &message);
    let spec = &decider.facts.config.spec;
    if spec.bypass_optimistic_lock && spec.action == Action::Apply {
        return enforce(decider, against.as_deref());
    }
    decider.rest(None)
}

/// Locks are bypassed: reverts the drift, unless another manager keeps changing it back.
fn enforce(mut decider: Decider<'_>, against: Option<&str>) -> Decision {
    let (state, verdict) = enforcement::correct(
        decider.status.enforcement.as_ref(),
        decider.facts.now,
        against,
    );
    decider.status.enforcement = Some(state);
    match verdict {
        CorrectionVerdict::Correct => {
            decider.notice(
                true,
                "DriftCorrected",
                "Locks are bypassed: the configuration is applied again",
            );
            decider.move_to(Phase::Drafting)
        }
        CorrectionVerdict::Pause => {
            let message = format!(
                "{} keeps reverting the configuration. Correction is paused until the specification changes.",
                against.unwrap_or("Another field manager")
            );
            decider.notice(true, "EnforcementPaused", &message);
            decider.rest(None)
        }
        CorrectionVerdict::Paused => decider.rest(None),
    }
}

/// A plan made now differs: waits until a user requests it.
fn upgradable(mut decider: Decider<'_>, draft: &Draft) -> Decision {
    let former = decider.status.operator_version.as_deref();
    // With the same version, only what the profile found in the cluster can have changed.
    let is_upgrade = former != Some(decider.facts.version);
    let class = if is_upgrade {
        DriftClass::LogicUpgrade
    } else {
        DriftClass::CapabilityChange
    };
    let mut changes = wanted_changes(&decider.status, &draft.items, class);
    // What the schema has no more, and the profile still requests.
    let mut lost = std::mem::take(&mut decider.status.drift);
    lost.retain(|lost| !changes.iter().any(|change| change.path == lost.path));
    changes.append(&mut lost);
    let changes_text: Vec<_> = changes
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
    let changes_text = if changes_text.is_empty() {
        "other items".to_owned()
    } else {
        changes_text.join("; ")
    };
    let capabilities = changed_capabilities(&decider);
    let (reason, cause) = if is_upgrade {
        let also = if capabilities.is_empty() {
            String::new()
        } else {
            format!(" ({capabilities})")
        };
        let version = decider.facts.version;
        let former = former.unwrap_or("the version before");
        let cause = format!("Operator {version} plans differently than {former}{also}");
        ("LogicChanged", cause)
    } else if capabilities.is_empty() {
        let cause = "Capabilities changed: the cluster is not as it was planned for";
        ("CapabilitiesChanged", cause.to_owned())
    } else {
        let cause = format!("Capabilities changed: {capabilities}");
        ("CapabilitiesChanged", cause)
    };
    let message = format!("{cause}: {changes_text}. Change action to 'DryRun' to review.");
    decider.status.drift = changes;
    decider.condition(UPGRADE_AVAILABLE, true, reason, &message);
    decider.status.retry = None;
    decider.enter(Phase::CompletedWithUpgrade, None, &message);
    decider.rest(None::<Timestamp>)
}

/// How the CustomResourceDefinitions differ from those that the plan was derived from.
fn changed_capabilities(decider: &Decider<'_>) -> String {
    let now = plan::capabilities(&decider.facts);
    let former = &decider.status.capabilities;
    let changed = now.iter().filter_map(|now| {
        let former = former.iter().find(|former| former.name == now.name)?;
        if former.version != now.version {
            let (name, old, new) = (&now.name, &former.version, &now.version);
            return Some(format!("{name} is served as {new}, and was as {old}"));
        }
        (former.revision != now.revision)
            .then(|| format!("the CustomResourceDefinition {} changed", now.name))
    });
    changed.collect::<Vec<_>>().join(", ")
}

/// The changes of applied state that the draft would cause: `applied` is the state in force, `live` the newly desired
/// one. A new item is no change, unless this version introduced it.
pub(super) fn wanted_changes(
    status: &VirtPlatformConfigStatus,
    items: &[Item],
    class: DriftClass,
) -> Vec<Drift> {
    let mut found = Vec::new();
    for item in items {
        let mut applied = status.applied.iter();
        let applied = applied.find(|applied| applied.target_ref == item.target_ref);
        if applied.is_none() && class == DriftClass::InputChange {
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

/// Fails the items that their operators reject since they were applied. [`in_sync`] completes them again.
fn note_regressions(decider: &mut Decider<'_>) {
    for index in 0..decider.status.items.len() {
        let item = &decider.status.items[index];
        if item.operation == Operation::Delete || item.state != ItemState::Completed {
            continue;
        }
        let live = decider.facts.snapshot.target(&item.target_ref);
        let of_profile = |live: &std::sync::Arc<DynamicObject>| match decider
            .facts
            .profile?
            .health(&item.name, live)?
        {
            Health::Failed(why) => Some(why),
            Health::Healthy(_) | Health::Unseen { .. } | Health::Waiting { .. } => None,
        };
        let regression = live.and_then(|live| {
            of_profile(live).or_else(|| health::regression(&item.target_ref, live))
        });
        if let Some(why) = regression {
            decider.touch(index, |item| {
                item.state = ItemState::Failed;
                item.message = Some(format!("Health check failed: {why}"));
            });
        }
    }
}

/// Nothing has changed.
fn unchanged(mut decider: Decider<'_>) -> Decision {
    note_regressions(&mut decider);
    let failed = decider
        .status
        .items
        .iter()
        .filter(|item| item.state == ItemState::Failed)
        .count();
    decider.clear(
        UPGRADE_AVAILABLE,
        "NoLogicChange",
        "This version of the operator plans the same",
    );
    if failed == 0 {
        decider.status.retry = None;
        decider.enter(Phase::Completed, None, message_of(Phase::Completed));
        return decider.rest(None);
    }
    let message = format!(
        "{} ({failed} failed)",
        message_of(Phase::CompletedWithErrors)
    );
    decider.enter(Phase::CompletedWithErrors, None, &message);
    if !retrying::has_unapplied_failure(&decider) {
        decider.status.retry = None;
        return decider.rest(None);
    }
    if decider.status.retry.is_none() {
        decider.schedule_retry(retry::LONGEST);
    }
    match decider.next_attempt() {
        Some(at) => decider.rest(Some(at)),
        None => retrying::again(decider),
    }
}
