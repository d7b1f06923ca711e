//! ReviewRequired: the plan waits for somebody.

use api::advisor::{
    Action, DriftClass, FIELD_MANAGER, Impact, Input, Item, ItemState, Phase, names,
};

use super::{Decision, Facts, Lock, Todo, Turn, settled};
use crate::approval::{self, Approvals, Gate, Progress, Withheld};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::conditions::{
    APPROVED, INPUT_DEPENDENCY_DRIFT, PLAN_STALE, fitting, is_true, message_of,
};
use crate::snapshot::whole;
use crate::{ownership, plan, values};

/// What the prototype says about a stale plan; what changed is added.
const STALE: &str = "Plan is stale: target resources have been modified since plan generation. Please regenerate the plan by changing action to DryRun, then review and re-approve.";

/// Looks at a plan that waits: does it still hold, and has somebody approved it?
pub(super) fn look(mut turn: Turn<'_>) -> Decision {
    if let Some(decision) = turn.close_if_open() {
        return decision;
    }
    let asked_to_apply = turn.facts.config.spec.action == Action::Apply;
    if turn.facts.spec_changed() {
        turn.acknowledge();
        if turn.wants_another_plan() || !asked_to_apply {
            return turn.start_over(None);
        }
    }
    let stale = staleness(&turn.facts, &turn.status.items);
    match plan::draft(&turn.facts) {
        // Impact and terms are part of what is approved: if they change, it is another plan. What a changed target does to
        // the impact is for the user to see: the plan is stale.
        Ok(draft)
            if draft.same_as(&turn.status.items)
                && turn.terms_hold()
                && (stale.is_some()
                    || plan::impact_changes(&turn.status.items, &draft)
                        .next()
                        .is_none()) => {}
        Ok(draft) => {
            inputs_changed(&mut turn, &draft.inputs);
            return turn.move_to(Phase::Drafting);
        }
        // Drafting says what is wrong.
        Err(_) => return turn.move_to(Phase::Drafting),
    }
    if stale.is_some() && aligned(&turn) {
        // Somebody did by hand what the plan asks for. Planned again, nothing is left to approve; if
        // the server sees it otherwise, the new plan is not stale, and this is not asked again.
        turn.notice(
            false,
            "ManuallyAligned",
            "The targets were made what the plan wants",
        );
        return turn.move_to(Phase::Drafting);
    }
    match &stale {
        Some(why) => turn.condition(PLAN_STALE, true, "TargetChanged", why),
        None => turn.clear(
            PLAN_STALE,
            "TargetUnchanged",
            "The targets are what the plan was made from",
        ),
    }
    turn.note_requirements();
    let forced = is_true(&turn.status.conditions, INPUT_DEPENDENCY_DRIFT);
    if asked_to_apply && !forced {
        return ask(turn);
    }
    wait(turn)
}

/// Whether everything is as the plan wants it.
fn aligned(turn: &Turn<'_>) -> bool {
    let mut items = turn.status.items.iter();
    items.all(|item| plan::in_force(item, turn.facts.snapshot))
}

/// Carries the plan out if it is approved.
pub(super) fn ask(mut turn: Turn<'_>) -> Decision {
    match granted(&turn) {
        Ok(granted) if !leads_anywhere(&turn, &granted) => {
            let waiting = turn.status.items.iter().map(|item| &item.name);
            let waiting: Vec<_> = waiting
                .filter(|name| !granted.items.contains(*name))
                .cloned()
                .collect();
            let why = format!(
                "The approved items are in force; {} waits. Add it to spec.approval.items, or remove them all.",
                waiting.join(", ")
            );
            hold(turn, "PartlyApproved", &why)
        }
        Ok(granted) => {
            turn.observe();
            let by = granted.users();
            let by = if by.is_empty() {
                "The plan is approved by action 'Apply'".to_owned()
            } else {
                format!("The plan is approved by {}", by.join(", "))
            };
            turn.condition(APPROVED, true, "Approved", &by);
            if !turn.facts.config.spec.bypass_optimistic_lock
                && let Some(why) = staleness(&turn.facts, &turn.status.items)
            {
                return stale(turn, &why);
            }
            turn.enter(Phase::InProgress, None, message_of(Phase::InProgress));
            turn.end(Todo::Again)
        }
        Err(withheld) => hold(turn, withheld.reason(), &withheld.to_string()),
    }
}

/// Whether anything is left to do of what is approved: a part that is in force is not carried out
/// over and over because the rest of the plan waits.
fn leads_anywhere(turn: &Turn<'_>, granted: &approval::Granted) -> bool {
    let items = &turn.status.items;
    granted.items.len() == items.len()
        || items
            .iter()
            .filter(|item| granted.items.contains(&item.name))
            .any(|item| !plan::in_force(item, turn.facts.snapshot))
}

/// The plan waits, and says for what.
fn hold(mut turn: Turn<'_>, reason: &str, why: &str) -> Decision {
    turn.observe();
    if crate::conditions::get(&turn.status.conditions, APPROVED)
        .is_none_or(|condition| condition.message != fitting(why))
    {
        turn.notice(false, reason, why);
    }
    turn.condition(APPROVED, false, reason, why);
    let message = format!("Plan ready for review, but it is not carried out yet: {why}");
    turn.enter(Phase::ReviewRequired, None, &message);
    settled::note_drift(&mut turn);
    settled::tell_drift(&mut turn);
    turn.rest(None)
}

/// The plan waits for somebody to ask for it.
pub(super) fn wait(mut turn: Turn<'_>) -> Decision {
    turn.observe();
    let forced = crate::conditions::get(&turn.status.conditions, INPUT_DEPENDENCY_DRIFT)
        .filter(|condition| condition.status == "True")
        .map(|condition| condition.message.clone());
    let message = match forced {
        Some(change) => format!(
            "{change}. Review the new plan and edit the specification to acknowledge: set action to 'Apply', or approve the digest."
        ),
        None => message_of(Phase::ReviewRequired).to_owned(),
    };
    let changed_by_itself = is_true(&turn.status.conditions, INPUT_DEPENDENCY_DRIFT);
    let (reason, why) = match rejection(&turn) {
        Some(rejected) => (rejected.reason(), rejected.to_string()),
        None if turn.facts.config.spec.action == Action::Apply => (
            "InputChanged",
            "The plan changed by itself and has to be reviewed".to_owned(),
        ),
        None => ("NotRequested", "action is 'DryRun'".to_owned()),
    };
    turn.condition(APPROVED, false, reason, &why);
    turn.enter(Phase::ReviewRequired, None, &message);
    settled::note_drift(&mut turn);
    if changed_by_itself {
        let changes =
            settled::wanted_changes(&turn.status, &turn.status.items, DriftClass::InputChange);
        turn.status.drift.extend(changes);
    }
    settled::tell_drift(&mut turn);
    turn.rest(None)
}

/// That the plan was looked at and refused, if it was.
pub(super) fn rejection(turn: &Turn<'_>) -> Option<Withheld> {
    let approval = turn.facts.config.spec.approval.as_ref()?;
    let rejected = approval.rejected.as_ref()?;
    (Some(&rejected.plan_digest) == turn.status.plan_digest.as_ref()).then(|| Withheld::Rejected {
        reason: rejected.reason.clone(),
    })
}

/// Whether the plan in the status may be applied, which items of it, and by whose approvals.
pub(super) fn granted(turn: &Turn<'_>) -> Result<approval::Granted, Withheld> {
    let facts = &turn.facts;
    let status = &turn.status;
    let annotations = facts.config.metadata.annotations.as_ref();
    let annotation = |name| {
        annotations
            .and_then(|all| all.get(name))
            .map(String::as_str)
    };
    let floor = facts.floor();
    if let Some(why) = floor.problem() {
        return Err(Withheld::InvalidPolicy(why));
    }
    let lifetime = floor.lifetime().map_err(Withheld::InvalidPolicy)?;
    // What cannot be read is no approval.
    let approvals = Approvals::parse(annotation(names::APPROVALS)).unwrap_or_default();
    let impact = plan::worst(&status.items).unwrap_or(Impact::Low);
    let entry = turn.open_entry();
    let begun = |item: &Item| item.state != ItemState::Pending;
    let progress = if entry.is_some() && status.items.iter().any(begun) {
        Progress::Begun
    } else if super::execute::corrects(turn) {
        Progress::Correction
    } else {
        Progress::Waiting
    };
    let gate = Gate {
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
        position: (facts.config.metadata.generation, status.revision),
        progress,
        now: facts.now,
    };
    gate.check()
}

/// The targets are not what the plan was made from.
pub(super) fn stale(mut turn: Turn<'_>, why: &str) -> Decision {
    turn.observe();
    let message = format!("{STALE} {why}");
    turn.condition(PLAN_STALE, true, "TargetChanged", why);
    turn.enter(Phase::Failed, Some("PlanStale"), &message);
    turn.end(Todo::Again)
}

/// What changed at the targets of items that are still to be carried out, if anything did.
pub(super) fn staleness(facts: &Facts<'_>, items: &[Item]) -> Option<String> {
    let config = facts.config.metadata.name.as_deref().unwrap_or_default();
    let mut changes = Vec::new();
    for item in items.iter().filter(|item| item.state == ItemState::Pending) {
        let live = facts.snapshot.target(&item.target_ref);
        // What an operator before this one has reached is not a change.
        match super::lock(item, live.map(|live| whole(live)).as_ref(), config, false) {
            Lock::Done => {}
            Lock::Stale(why) => changes.push(why),
            Lock::Free => changes.extend(live.and_then(|live| other_owner(item, &live.metadata))),
        }
    }
    (!changes.is_empty()).then(|| changes.join("; "))
}

/// A field that the item takes and that a manager owns now whom the plan does not name: consent was given to take it from
/// another one.
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

/// How a target differs from what the plan was made from: which path of which object, from what to
/// what.
pub(super) fn moved(item: &Item, live: Option<&serde_json::Value>) -> Option<String> {
    let target = &item.target_ref;
    match (&item.base, live) {
        (None, None) => None,
        (None, Some(_)) => Some(format!("{target} did not exist and does now")),
        (Some(_), None) => Some(format!("{target} existed and does not any more")),
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

/// Whether the target is another object of the same name.
fn replaced(item: &Item, live: &serde_json::Value) -> bool {
    let uid = live["metadata"]["uid"].as_str();
    item.target_uid.is_some() && uid.is_some() && item.target_uid.as_deref() != uid
}

/// Notes which inputs are not what the plan was derived from; whether there are any.
pub(super) fn inputs_changed(turn: &mut Turn<'_>, now: &[Input]) -> bool {
    let mut told = Vec::new();
    for input in now {
        let former = turn
            .status
            .inputs
            .iter()
            .find(|former| former.name == input.name);
        let Some(former) = former.filter(|former| former.derived != input.derived) else {
            continue;
        };
        let field = input.path.rsplit('.').next().unwrap_or(&input.path);
        let object = if input.object.kind == "HyperConverged" {
            "HCO"
        } else {
            input.object.kind.as_str()
        };
        told.push(format!(
            "{object} {field} changed (scaled {} -> {})",
            values::short(Some(&former.derived)),
            values::short(Some(&input.derived))
        ));
    }
    if told.is_empty() {
        return false;
    }
    let message = format!("Input dependency changed: {}", told.join("; "));
    turn.notice(true, "InputChanged", &message);
    turn.condition(INPUT_DEPENDENCY_DRIFT, true, "InputChanged", &message);
    true
}
