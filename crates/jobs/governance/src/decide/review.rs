//! ReviewRequired: the plan waits for approval.

use api::advisor::{
    Action, DriftClass, FIELD_MANAGER, Impact, Input, Item, ItemState, Phase, names,
};

use super::{Decider, Decision, DecisionInputs, Lock, NextStep, drift};
use crate::approval::{self, ApprovalBlocker, ApprovalInputs, Approvals, Progress};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::conditions::{
    APPROVED, INPUT_DEPENDENCY_DRIFT, PLAN_STALE, is_true, message_of, truncate_message,
};
use crate::plan::Draft;
use crate::profile::Profile;
use crate::snapshot::whole;
use crate::{ownership, plan, values};

/// The prototype's message for a stale plan; the changes are appended.
const STALE: &str = "Plan is stale: target resources have been modified since plan generation. Please regenerate the plan by changing action to DryRun, then review and re-approve.";

/// The reason of the condition Approved while a plan is under review.
const NOT_REQUESTED: &str = "NotRequested";

/// Checks whether a waiting plan is still valid, and whether it is approved.
pub(super) fn review_plan(mut decider: Decider<'_>) -> Decision {
    if let Some(decision) = decider.close_if_open() {
        return decision;
    }
    let apply_requested = decider.facts.config.spec.action == Action::Apply;
    if decider.facts.spec_changed() {
        decider.acknowledge();
        // An edit under DryRun requests a new plan even if no option changed: this is how a stale plan is renewed.
        // Other edits keep it: approvals and consents are for the plan as it is, and changed terms are found by the
        // digest below.
        if decider.wants_another_plan() || !apply_requested {
            return decider.start_over(None);
        }
        note_review(&mut decider);
    }
    let stale = staleness(&decider.facts, &decider.status.items);
    match plan::draft(&decider.facts) {
        // Impact and terms are part of the digest: if they change, it is another plan. An impact that changes because
        // of a target is left to the user: the plan is stale.
        Ok(draft)
            if draft.same_as(&decider.status.items)
                && decider.terms_hold()
                && (stale.is_some()
                    || plan::impact_changes(&decider.status.items, &draft)
                        .next()
                        .is_none()) => {}
        Ok(draft) => {
            inputs_changed(&mut decider, &draft.inputs);
            profile_changed(&mut decider, &draft);
            return decider.move_to(Phase::Drafting);
        }
        // Drafting reports the error.
        Err(_) => return decider.move_to(Phase::Drafting),
    }
    if stale.is_some() && aligned(&decider) {
        // A user applied the plan by hand. A new plan is empty then; if the API server disagrees, the new plan is not
        // stale, so this does not loop.
        decider.notice(
            false,
            "ManuallyAligned",
            "The targets were set to the desired state by hand",
        );
        return decider.move_to(Phase::Drafting);
    }
    match &stale {
        Some(why) => decider.condition(PLAN_STALE, true, "TargetChanged", why),
        None => decider.clear(
            PLAN_STALE,
            "TargetUnchanged",
            "The targets are unchanged since the plan was generated",
        ),
    }
    decider.note_requirements();
    let forced = is_true(&decider.status.conditions, INPUT_DEPENDENCY_DRIFT);
    // The action was set for the plan before the input changed; it does not approve this one.
    if apply_requested && !forced {
        return ask(decider);
    }
    wait(decider)
}

/// Records that the plan in status was under review when the action was set to Apply, where admission does not.
///
/// The status was written under DryRun: a later one would have failed, since it is written with the resourceVersion
/// that it was decided on. If the plan changes with the same edit, the next one replaces the record.
fn note_review(decider: &mut Decider<'_>) {
    let approved = crate::conditions::get(&decider.status.conditions, APPROVED);
    let was_under_review = approved.is_some_and(|condition| condition.reason == NOT_REQUESTED);
    if was_under_review && !decider.facts.recorder.is_trusted() {
        decider
            .status
            .reviewed_digest
            .clone_from(&decider.status.plan_digest);
    }
}

/// Whether all targets are in the desired state of the plan.
fn aligned(decider: &Decider<'_>) -> bool {
    let mut items = decider.status.items.iter();
    items.all(|item| plan::in_force(item, decider.facts.snapshot))
}

/// Starts the plan if it is approved.
pub(super) fn ask(mut decider: Decider<'_>) -> Decision {
    match granted(&decider) {
        Ok(granted) if !has_work_left(&decider, &granted) => {
            let waiting = decider.status.items.iter().map(|item| &item.name);
            let waiting: Vec<_> = waiting
                .filter(|name| !granted.items.contains(*name))
                .cloned()
                .collect();
            let why = format!(
                "The approved items are in force; {} waits. Add it to spec.approval.items, or remove them all.",
                waiting.join(", ")
            );
            hold(decider, "PartlyApproved", &why)
        }
        Ok(granted) => {
            decider.observe();
            let by = granted.users();
            let by = if by.is_empty() {
                "The plan is approved by action 'Apply'".to_owned()
            } else {
                format!("The plan is approved by {}", by.join(", "))
            };
            decider.condition(APPROVED, true, "Approved", &by);
            // Only an approved plan fails because of it. One that still waits has the condition PlanStale, and recovers
            // when the target gets its former values back.
            if !decider.facts.config.spec.bypass_optimistic_lock
                && let Some(why) = staleness(&decider.facts, &decider.status.items)
            {
                return stale(decider, &why);
            }
            decider.enter(Phase::InProgress, None, message_of(Phase::InProgress));
            decider.end(NextStep::Again)
        }
        Err(blocked) => hold(decider, blocked.reason(), &blocked.to_string()),
    }
}

/// Whether any approved item is left to apply: a part that is in force must not be applied repeatedly while the rest of
/// the plan waits.
fn has_work_left(decider: &Decider<'_>, granted: &approval::ApprovedPlan) -> bool {
    let items = &decider.status.items;
    granted.items.len() == items.len()
        || items
            .iter()
            .filter(|item| granted.items.contains(&item.name))
            .any(|item| !plan::in_force(item, decider.facts.snapshot))
}

/// The plan waits, with the reason in its conditions.
fn hold(mut decider: Decider<'_>, reason: &str, why: &str) -> Decision {
    decider.observe();
    if crate::conditions::get(&decider.status.conditions, APPROVED)
        .is_none_or(|condition| condition.message != truncate_message(why))
    {
        decider.notice(false, reason, why);
    }
    decider.condition(APPROVED, false, reason, why);
    let message = format!("Plan ready for review, but it is not applied yet: {why}");
    decider.enter(Phase::ReviewRequired, None, &message);
    drift::note_drift(&mut decider);
    drift::report_drift(&mut decider);
    decider.rest(None)
}

/// The plan waits for a request to apply it.
pub(super) fn wait(mut decider: Decider<'_>) -> Decision {
    decider.observe();
    let forced = crate::conditions::get(&decider.status.conditions, INPUT_DEPENDENCY_DRIFT)
        .filter(|condition| condition.status == "True")
        .map(|condition| condition.message.clone());
    let message = match forced {
        Some(change) => format!(
            "{change}. Review the new plan and edit the specification to acknowledge: set action to 'Apply', or approve the digest."
        ),
        None => message_of(Phase::ReviewRequired).to_owned(),
    };
    let changed_by_itself = is_true(&decider.status.conditions, INPUT_DEPENDENCY_DRIFT);
    let (reason, why) = match rejection(&decider) {
        Some(rejected) => (rejected.reason(), rejected.to_string()),
        None if decider.facts.config.spec.action == Action::Apply => (
            "InputChanged",
            "The plan changed by itself and has to be reviewed".to_owned(),
        ),
        None => (NOT_REQUESTED, "action is 'DryRun'".to_owned()),
    };
    decider.condition(APPROVED, false, reason, &why);
    decider.enter(Phase::ReviewRequired, None, &message);
    drift::note_drift(&mut decider);
    if changed_by_itself {
        let changes = drift::wanted_changes(
            &decider.status,
            &decider.status.items,
            DriftClass::InputChange,
        );
        decider.status.drift.extend(changes);
    }
    drift::report_drift(&mut decider);
    decider.rest(None)
}

/// The rejection of the plan, if there is one.
pub(super) fn rejection(decider: &Decider<'_>) -> Option<ApprovalBlocker> {
    let approval = decider.facts.config.spec.approval.as_ref()?;
    let rejected = approval.rejected.as_ref()?;
    (Some(&rejected.plan_digest) == decider.status.plan_digest.as_ref()).then(|| {
        ApprovalBlocker::Rejected {
            reason: rejected.reason.clone(),
        }
    })
}

/// Whether the plan in status may be applied, which items of it, and based on which approvals.
pub(super) fn granted(decider: &Decider<'_>) -> Result<approval::ApprovedPlan, ApprovalBlocker> {
    let facts = &decider.facts;
    let status = &decider.status;
    let annotations = facts.config.metadata.annotations.as_ref();
    let annotation = |name| {
        annotations
            .and_then(|all| all.get(name))
            .map(String::as_str)
    };
    let floor = facts.floor();
    // A policy that cannot be evaluated blocks. Ignoring it would turn a typo into permission.
    if let Some(why) = floor.problem() {
        return Err(ApprovalBlocker::InvalidPolicy(why));
    }
    let lifetime = floor.lifetime().map_err(ApprovalBlocker::InvalidPolicy)?;
    // An unreadable annotation contains no approvals.
    let approvals = Approvals::parse(annotation(names::APPROVALS)).unwrap_or_default();
    let impact = plan::worst(&status.items).unwrap_or(Impact::Low);
    let entry = decider.open_entry();
    let begun = |item: &Item| item.state != ItemState::Pending;
    // Not by the phase: a plan is InProgress before its first write, and until then an approval may still expire.
    let progress = if entry.is_some() && status.items.iter().any(begun) {
        Progress::Begun
    } else if super::execute::corrects(decider) {
        Progress::Correction
    } else {
        Progress::Waiting
    };
    let gate = ApprovalInputs {
        spec: &facts.config.spec,
        items: &status.items,
        digest: status.plan_digest.as_deref().unwrap_or_default(),
        impact,
        requirements: &floor.requirements(impact),
        lifetime,
        approvals: &approvals,
        used: entry
            .map(|entry| entry.approvals.as_slice())
            .unwrap_or_default(),
        authors: &approval::authors(annotation(names::AUTHORS)),
        recorder: facts.recorder,
        reviewed: status.reviewed_digest.as_deref(),
        lists_takeovers: floor.lists_takeovers(impact),
        position: (facts.config.metadata.generation, status.revision),
        progress,
        now: facts.now,
    };
    gate.check()
}

/// The targets have changed since the plan was generated.
pub(super) fn stale(mut decider: Decider<'_>, why: &str) -> Decision {
    decider.observe();
    decider.status.retry = None;
    let message = format!("{STALE} {why}");
    decider.condition(PLAN_STALE, true, "TargetChanged", why);
    decider.enter(Phase::Failed, Some("PlanStale"), &message);
    decider.end(NextStep::Again)
}

/// The changes of the targets of items that are not executed yet.
pub(super) fn staleness(facts: &DecisionInputs<'_>, items: &[Item]) -> Option<String> {
    let config = facts.config.metadata.name.as_deref().unwrap_or_default();
    let mut changes = Vec::new();
    for item in items.iter().filter(|item| item.state == ItemState::Pending) {
        let live = facts.snapshot.target(&item.target_ref);
        // A target written by a previous operator process is not a change.
        match super::lock(item, live.map(|live| whole(live)).as_ref(), config, false) {
            Lock::Done => {}
            Lock::Stale(why) => changes.push(why),
            Lock::Free => changes.extend(live.and_then(|live| other_owner(item, &live.metadata))),
        }
    }
    (!changes.is_empty()).then(|| changes.join("; "))
}

/// A field of a takeover that is now owned by a manager other than the one in the plan: consent was given for that one
/// only.
fn other_owner(item: &Item, meta: &ObjectMeta) -> Option<String> {
    item.takeovers.iter().find_map(|takeover| {
        let planned = |manager: &str| {
            let mut takeovers = item.takeovers.iter();
            takeovers.any(|one| one.path == takeover.path && one.manager == manager)
        };
        let owner = ownership::owners(meta, &takeover.path)
            .into_iter()
            .find(|owner| owner.manager != FIELD_MANAGER && !planned(&owner.manager))?;
        Some(format!(
            "{}: {} is owned by {} now, and was by {}",
            item.target_ref, takeover.path, owner.manager, takeover.manager
        ))
    })
}

/// How a target differs from the state recorded in the plan: object, path, old and new value.
pub(super) fn moved(item: &Item, live: Option<&serde_json::Value>) -> Option<String> {
    let target = &item.target_ref;
    match (&item.base, live) {
        (None, None) => None,
        (None, Some(_)) => Some(format!("{target} did not exist and was created")),
        (Some(_), None) => Some(format!("{target} existed and was deleted")),
        (Some(_), Some(live)) if replaced(item, live) => {
            Some(format!("{target} was deleted and created again"))
        }
        (Some(base), Some(live)) => {
            let now = match values::managed(live, &item.managed_fields) {
                Ok(now) => now,
                Err(error) => return Some(format!("{target}: {error}")),
            };
            let changes: Vec<_> = values::changes(base, &now)
                .iter()
                .map(|change| {
                    format!(
                        "{target}: {} changed from {} to {}",
                        change.path,
                        values::short(change.from.as_ref()),
                        values::short(change.to.as_ref())
                    )
                })
                .collect();
            (!changes.is_empty()).then(|| changes.join("; "))
        }
    }
}

/// Whether the target was deleted and created again.
fn replaced(item: &Item, live: &serde_json::Value) -> bool {
    let uid = live["metadata"]["uid"].as_str();
    item.target_uid.is_some() && uid.is_some() && item.target_uid.as_deref() != uid
}

/// Sets the condition for changed inputs and returns whether there are any.
pub(super) fn inputs_changed(decider: &mut Decider<'_>, now: &[Input]) -> bool {
    let mut lines = Vec::new();
    for input in now {
        let former = decider
            .status
            .inputs
            .iter()
            .find(|former| former.name == input.name);
        // A new input belongs to a new item, which is a change of the plan anyway. A raw value that leads to the same
        // derived one changes nothing.
        let Some(former) = former.filter(|former| former.derived != input.derived) else {
            continue;
        };
        let field = input.path.rsplit('.').next().unwrap_or(&input.path);
        // The text of the prototype (virtplatformconfig_hco.go), which alerts may match.
        let object = if input.object.kind == "HyperConverged" {
            "HCO"
        } else {
            input.object.kind.as_str()
        };
        lines.push(format!(
            "{object} {field} changed (scaled {} -> {})",
            values::short(Some(&former.derived)),
            values::short(Some(&input.derived))
        ));
    }
    if lines.is_empty() {
        return false;
    }
    let message = format!("Input dependency changed: {}", lines.join("; "));
    decider.notice(true, "InputChanged", &message);
    decider.condition(INPUT_DEPENDENCY_DRIFT, true, "InputChanged", &message);
    true
}

/// Reports that the plan was generated from another content of the profile. An approval by action Apply was for that
/// content, so the next plan waits for a review.
pub(super) fn profile_changed(decider: &mut Decider<'_>, draft: &Draft) -> bool {
    let facts = decider.facts;
    let revision = facts.profile.and_then(Profile::revision);
    if decider.status.profile_hash.as_deref() == revision {
        return false;
    }
    let changes = drift::wanted_changes(&decider.status, &draft.items, DriftClass::LogicUpgrade);
    let mut lines: Vec<String> = changes
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
    if lines.is_empty() {
        lines.push("other items, or other descriptions of them".to_owned());
    }
    let message = format!(
        "PlatformProfile {} changed: {}",
        facts.config.spec.profile,
        lines.join("; ")
    );
    decider.notice(true, "ProfileChanged", &message);
    decider.condition(INPUT_DEPENDENCY_DRIFT, true, "ProfileChanged", &message);
    true
}
