//! InProgress: items are executed one at a time.
//!
//! An item is started only when the previous one is completed. The target must still be as the plan recorded it just
//! before the write, and the write itself fails if the object changes in between. A target with our ownership mark was
//! written before the operator was killed: it is not applied twice.

use std::collections::{BTreeMap, BTreeSet};

use api::advisor::{
    Action, ConsentedTakeover, Deviation, FailurePolicy, Impact, Item, ItemState, Operation, Phase,
    Takeover, TargetRef,
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::Value;

use super::{Decider, Decision, DecisionInputs, NextStep, diffs, draft, review};
use crate::approval::{ApprovalBlocker, ApprovedPlan};
use crate::conditions::{INPUT_DEPENDENCY_DRIFT, PLAN_STALE, UPGRADE_AVAILABLE, message_of};
use crate::health::{self, Health};
use crate::plan::Draft;
use crate::record::{Outcome, PlanResult, Record, RecordedItem};
use crate::timeout::{self, TimeoutVerdict};
use crate::window::{State as Window, Windows};
use crate::{approval, deviation, ownership, plan, values};

/// How long the first report of an operator is awaited. Operators write the status of a new object within seconds; one that
/// is not running never does, and its object is completed without.
const REPORT_GRACE: SignedDuration = SignedDuration::from_mins(1);

/// An item to execute.
#[derive(Debug, Clone)]
pub struct Execution {
    /// Its index in the plan.
    pub index: usize,
    /// The item.
    pub item: Item,
    /// Whether to skip the lock and take over every field.
    pub bypass: bool,
    /// Takeovers with consent.
    pub consent: Vec<ConsentedTakeover>,
    /// The former owners of fields that are restored.
    pub owners: BTreeMap<String, String>,
}

impl Execution {
    /// Whether the item disrupts workloads, which justifies an uncached read of everything it depends on.
    pub fn is_disruptive(&self) -> bool {
        self.impact() == Impact::High
    }

    /// The impact of the item; an unknown one counts as disruptive.
    pub fn impact(&self) -> Impact {
        self.item.impact_severity.unwrap_or(Impact::High)
    }
}

/// The result of executing an item.
#[derive(Debug, Clone, PartialEq)]
pub enum Result {
    /// The item is applied, now or before.
    Done,
    /// The item is applied, and the API server keeps these fields otherwise than requested.
    Kept(Vec<Deviation>),
    /// The target has changed since the plan was generated.
    Stale(String),
    /// It would take over fields without consent.
    WithoutConsent(Vec<Takeover>),
    /// The API server rejects it.
    Refused(String),
}

/// The result of the lock check of a target.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Lock {
    /// The target is as the plan recorded it.
    Free,
    /// The item has already been applied.
    Done,
    /// The target differs, in this way.
    Stale(String),
}

/// Compares a freshly read target with the state recorded in the plan.
pub(super) fn lock(item: &Item, live: Option<&Value>, config: &str, bypass: bool) -> Lock {
    match (item.operation, live) {
        (Operation::Delete, None) => return Lock::Done,
        (Operation::Apply, Some(live)) => {
            let wanted = plan::wanted_values(item);
            // Both are needed. The mark stays when another manager edits the fields; equal values alone may have been
            // there before the plan, and then the fields are not ours yet.
            if plan::bears_our_mark(item, live, config)
                && deviation::unexplained(&wanted, live, &item.deviations).is_empty()
            {
                return Lock::Done;
            }
        }
        // The values are restored before our fields are released: while we own any, half of the work is left.
        (Operation::Restore, Some(state)) if is_restored(item, live) && !plan::owned(state) => {
            return Lock::Done;
        }
        _ => {}
    }
    // After the checks above: without them, a bypassed lock would apply an item again after each restart.
    if bypass {
        return Lock::Free;
    }
    match review::moved(item, live) {
        None => Lock::Free,
        // Values are restored owner by owner, and before their ownership: some may already be restored because another
        // manager did it, or because the operator was killed.
        Some(_) if item.operation == Operation::Restore && is_partly_restored(item, live) => {
            Lock::Free
        }
        Some(why) => Lock::Stale(why),
    }
}

/// Whether the managed fields have the values to restore.
fn is_restored(item: &Item, live: Option<&Value>) -> bool {
    live.and_then(|live| values::managed(live, &item.managed_fields).ok())
        .is_some_and(|now| now == plan::wanted_values(item))
}

/// Whether every managed field has the value recorded in the plan, or the one to restore.
fn is_partly_restored(item: &Item, live: Option<&Value>) -> bool {
    let now = live.and_then(|live| values::managed(live, &item.managed_fields).ok());
    let (Some(base), Some(now)) = (&item.base, now) else {
        return false;
    };
    let wanted = plan::wanted_values(item);
    let mut paths = base.keys().chain(wanted.keys()).chain(now.keys());
    paths.all(|path| {
        let value = now.get(path);
        value == base.get(path) || value == wanted.get(path)
    })
}

/// Resumes the plan.
pub(super) fn resume(mut decider: Decider<'_>) -> Decision {
    let facts = decider.facts;
    let unfinished = decider
        .status
        .items
        .iter()
        .any(|item| item.state == ItemState::Pending);
    let entry = decider.open_entry();
    if decider.facts.spec_changed() {
        let undoes_else = entry.is_some_and(|entry| entry.rollback_to != facts.rollback());
        if decider.wants_another_plan()
            || undoes_else
            || (unfinished && !decider.terms_hold())
            || (unfinished && facts.config.spec.action != Action::Apply)
        {
            return supersede(
                decider,
                "The specification was changed while the plan was being applied",
            );
        }
        decider.observe();
        decider.enter(Phase::InProgress, None, message_of(Phase::InProgress));
    }
    // Only health is awaited. There is nothing left to stop, so neither approvals nor inputs are checked any more.
    if !unfinished {
        return next_step(decider, None);
    }
    if facts.config.spec.action != Action::Apply {
        return supersede(decider, "action is not 'Apply' any more");
    }
    let draft = match plan::draft(&facts) {
        // Before `same_as`, which would find the same change: `inputs_changed` also sets the condition that holds the
        // next plan for a review.
        Ok(draft) if review::inputs_changed(&mut decider, &draft.inputs) => {
            return supersede(
                decider,
                "Inputs of the plan changed while it was being applied",
            );
        }
        Ok(draft)
            if !draft.same_as(&decider.status.items)
                && review::profile_changed(&mut decider, &draft) =>
        {
            return supersede(decider, "The profile changed while it was being applied");
        }
        // Before the first write, a plan that would not be generated any more is dropped.
        Ok(draft) if entry.is_none() && !draft.same_as(&decider.status.items) => {
            return supersede(decider, "The plan changed before it was applied");
        }
        Ok(draft) => draft,
        Err(problem) => return supersede(decider, &problem.message()),
    };
    decider.note_requirements();
    let granted = match review::granted(&decider) {
        Ok(granted) => granted,
        Err(ApprovalBlocker::Rejected { .. }) => {
            // A new plan would have another digest, which is not rejected.
            decider.status.next_window = None;
            let mut held = review::ask(decider);
            // ReviewRequired writes the outcome into the history.
            held.todo = NextStep::Again;
            return held;
        }
        Err(blocked) => return supersede(decider, &blocked.to_string()),
    };
    let Some(entry) = entry else {
        // Before the first item is applied: the entry has the values that the plan replaces, and a kill after the write
        // would lose them. An entry without a begun item is found again by its digest.
        let record = record(&decider, granted);
        return decider.end(NextStep::Record(Box::new(record)));
    };
    // [`recorded`] has set it, unless the operator was killed between the entry and the status.
    decider.status.revision = Some(entry.revision);
    next_step(decider, Some((&granted, &draft)))
}

/// Stops before the next item, and plans again.
fn supersede(decider: Decider<'_>, why: &str) -> Decision {
    decider.start_over(Some(why))
}

/// Takes the next step. `granted` has the approved plan, and the draft of a new one.
fn next_step(mut decider: Decider<'_>, granted: Option<(&ApprovedPlan, &Draft)>) -> Decision {
    let facts = decider.facts;
    let spec = &facts.config.spec;
    let mut left_out = false;
    for index in 0..decider.status.items.len() {
        match decider.status.items[index].state {
            ItemState::Completed => {}
            ItemState::Failed if spec.failure_policy == FailurePolicy::Continue => {}
            ItemState::Failed => return fail(decider, index),
            ItemState::InProgress => {
                let wait = check_applied(&mut decider, index);
                match decider.status.items[index].state {
                    ItemState::Completed => {}
                    ItemState::Failed if spec.failure_policy == FailurePolicy::Continue => {}
                    ItemState::Failed => return fail(decider, index),
                    // No later item starts. The prototype's loop goes on while a pool still updates, and then
                    // configures the descheduler before PSI is enabled: its operator rejects that.
                    _ => return decider.rest(wait),
                }
            }
            ItemState::Pending => {
                let item = decider.status.items[index].clone();
                let Some((granted, draft)) =
                    granted.filter(|(granted, _)| granted.items.contains(&item.name))
                else {
                    // The items behind it may still run: `approval::closure` has added what they depend on.
                    left_out = true;
                    continue;
                };
                if let Window::Closed { next } = window_of(&facts, &item) {
                    return wait_for_window(decider, index, next);
                }
                // After the window check: a change while the plan waited has to stop it before its first item.
                if let Some(why) = changed_since_review(&decider, &granted.items, draft) {
                    return review::stale(decider, &why);
                }
                decider.status.next_window = None;
                let execution = execution(&decider, index, item, granted.consent.clone());
                return decider.end(NextStep::Execute(Box::new(execution)));
            }
        }
    }
    let failed = decider
        .status
        .items
        .iter()
        .any(|item| item.state == ItemState::Failed);
    // With a failed item the plan ends as CompletedWithErrors: planning again would replace the items, and with them
    // the reason of the failure.
    if left_out && !failed {
        return wait_for_approval_of_rest(decider);
    }
    complete(decider)
}

/// Why the remaining plan differs from the approved one: a target changed, or an item has a higher impact. All
/// remaining items count, so that no part of a plan is applied that cannot be finished. A lower impact is covered by
/// the approval.
fn changed_since_review(
    decider: &Decider<'_>,
    granted: &BTreeSet<String>,
    draft: &Draft,
) -> Option<String> {
    let mut pending = decider.status.items.clone();
    pending.retain(|item| granted.contains(&item.name));
    let worse: Vec<_> = plan::impact_changes(&pending, draft)
        .filter(|change| change.now > change.planned)
        .map(|change| change.to_string())
        .collect();
    if !worse.is_empty() {
        return Some(worse.join("; "));
    }
    if decider.facts.config.spec.bypass_optimistic_lock {
        return None;
    }
    review::staleness(&decider.facts, &pending)
}

pub(super) fn execution(
    decider: &Decider<'_>,
    index: usize,
    item: Item,
    consent: Vec<ConsentedTakeover>,
) -> Execution {
    let spec = &decider.facts.config.spec;
    // The owners before the revisions that are undone, not before those that stay.
    let mut applied = decider.status.applied.iter();
    let applied = applied.find(|applied| applied.target_ref == item.target_ref);
    let first = decider.facts.rollback();
    let first = first.or_else(|| applied.map(|applied| applied.revision));
    let owners = decider
        .facts
        .records
        .iter()
        .filter(|record| first.is_none_or(|first| record.revision >= first))
        .flat_map(|record| &record.items)
        .find(|recorded| {
            recorded.target_ref == item.target_ref && recorded.operation == Operation::Apply
        })
        .map(|recorded| recorded.owners.clone())
        .unwrap_or_default();
    Execution {
        index,
        item,
        bypass: spec.bypass_optimistic_lock,
        consent,
        owners,
    }
}

/// The items without approval wait for one.
fn wait_for_approval_of_rest(decider: Decider<'_>) -> Decision {
    supersede(
        decider,
        "The approved items are applied; the others are not approved",
    )
}

/// Whether an item may start now: by the windows of the configuration, which are for disruptive items, and by those of
/// all policies.
pub(super) fn window_of(facts: &DecisionInputs<'_>, item: &Item) -> Window {
    // An unknown impact waits like a disruptive one.
    let impact = item.impact_severity.unwrap_or(Impact::High);
    let required = facts.floor().window(impact, facts.now);
    if impact != Impact::High {
        return required;
    }
    let own = match Windows::parse(&facts.config.spec.maintenance_windows) {
        Ok(windows) => windows.state(facts.now),
        // Unparsable windows never open.
        Err(_) => Window::Closed { next: None },
    };
    own.and(required)
}

fn wait_for_window(mut decider: Decider<'_>, index: usize, opens: Option<Timestamp>) -> Decision {
    let message = match opens {
        Some(opens) => format!(
            "Waiting for a maintenance window (the next one opens at {})",
            machinery::time::format_time(opens)
        ),
        None => "Waiting for a maintenance window, but none ever opens".to_owned(),
    };
    decider.touch(index, |item| item.message = Some(message));
    decider.status.next_window = opens.map(Time);
    decider.rest(opens)
}

/// The health of the target of an item.
pub(super) fn health_of(decider: &Decider<'_>, index: usize) -> Health {
    let Some(item) = decider.status.items.get(index) else {
        return Health::Healthy(String::new());
    };
    let (target, snapshot) = (&item.target_ref, decider.facts.snapshot);
    match item.operation {
        Operation::Delete => health::gone(target, item.desired_state.as_ref(), snapshot),
        Operation::Restore => {
            let live = snapshot.target(target).map(|live| &**live);
            health::health(target, live, snapshot)
        }
        Operation::Apply => reported_health(&decider.facts, &item.name, target),
    }
}

/// The health of a target that an item applies: by the rules of the profile, if it has some for the item.
pub(super) fn reported_health(
    facts: &DecisionInputs<'_>,
    item: &str,
    target: &TargetRef,
) -> Health {
    let live = facts.snapshot.target(target).map(|live| &**live);
    let of_profile = live.and_then(|live| facts.profile?.health(item, live));
    of_profile.unwrap_or_else(|| health::health(target, live, facts.snapshot))
}

/// Checks an applied item; returns the time to requeue if it is not done.
fn check_applied(decider: &mut Decider<'_>, index: usize) -> Option<Timestamp> {
    let facts = decider.facts;
    let health = health_of(decider, index);
    let since = decider.status.items[index].last_transition_time.clone();
    match health {
        Health::Healthy(message) => {
            decider.touch(index, |item| {
                item.state = ItemState::Completed;
                item.message = Some(message);
            });
            None
        }
        Health::Unseen { why, may_come } => {
            let until = since.map_or(facts.now, |since| since.0);
            let until = until.checked_add(REPORT_GRACE).ok();
            if may_come && until.is_some_and(|until| until > facts.now) {
                decider.touch(index, |item| item.message = Some(format!("Waiting: {why}")));
                return until;
            }
            decider.touch(index, |item| {
                item.state = ItemState::Completed;
                // What could not be seen, so that Completed is not read as proof.
                item.message = Some(format!("Applied successfully ({why})"));
            });
            None
        }
        Health::Failed(message) => {
            decider.touch(index, |item| {
                item.state = ItemState::Failed;
                item.message = Some(format!("Health check failed: {message}"));
            });
            None
        }
        Health::Waiting { message, .. } => {
            // `plan::draft` validates the field. If an edit made it invalid since, the item waits without a limit: that
            // is less harm than failing a rollout because of a typo.
            let limit = facts
                .config
                .spec
                .wait_timeout
                .as_deref()
                .and_then(|text| timeout::parse(text).ok());
            let since = since.map_or(facts.now, |since| since.0);
            match timeout::verdict(since, facts.now, limit, &message) {
                TimeoutVerdict::Expired(message) => {
                    decider.touch(index, |item| {
                        item.state = ItemState::Failed;
                        item.message = Some(message);
                    });
                    None
                }
                TimeoutVerdict::Wait(remaining) => {
                    decider.touch(index, |item| item.message = Some(message));
                    remaining
                        .and_then(|remaining: SignedDuration| facts.now.checked_add(remaining).ok())
                }
            }
        }
    }
}

/// Ends the plan at a failed item; later items stay pending.
fn fail(mut decider: Decider<'_>, index: usize) -> Decision {
    let item = &decider.status.items[index];
    let message = format!(
        "Item '{}' failed: {}",
        item.name,
        item.message.as_deref().unwrap_or("no reason is known")
    );
    decider.enter(Phase::Failed, None, &message);
    decider.schedule_retry(crate::retry::LONGEST);
    decider.end(NextStep::Again)
}

/// All items have finished.
pub(super) fn complete(mut decider: Decider<'_>) -> Decision {
    let failed = decider
        .status
        .items
        .iter()
        .filter(|item| item.state == ItemState::Failed)
        .count();
    decider.status.next_window = None;
    decider.observe();
    // Written for users of the prototype, where this hash is the baseline of drift. Here drift is found by comparing
    // values, so that a manual correction ends it.
    if let Some(hash) = plan::live_hash(&decider.status.items, decider.facts.snapshot) {
        decider.status.source_snapshot_hash = Some(hash);
    }
    decider.clear(
        UPGRADE_AVAILABLE,
        "Applied",
        "The plan of this version of the operator is applied",
    );
    decider.clear(
        INPUT_DEPENDENCY_DRIFT,
        "Acknowledged",
        "The plan with the new inputs was applied",
    );
    decider.clear(PLAN_STALE, "Applied", "The plan was applied");
    // While both are equal, `plan::draft` is empty; otherwise the same rollback would be planned again.
    decider.status.rolled_back_to = decider.facts.config.spec.rollback_to;
    diffs::settle(&mut decider);
    if failed > 0 {
        let message = format!(
            "{} ({failed} failed)",
            message_of(Phase::CompletedWithErrors)
        );
        decider.enter(Phase::CompletedWithErrors, None, &message);
        if super::retrying::has_unapplied_failure(&decider) {
            decider.schedule_retry(crate::retry::LONGEST);
        }
    } else if let Some(revision) = decider.facts.config.spec.rollback_to {
        let message = format!(
            "Everything since revision {revision} is undone. Remove spec.rollbackTo to plan again."
        );
        decider.enter(Phase::Completed, Some("RolledBack"), &message);
    } else {
        decider.enter(Phase::Completed, None, message_of(Phase::Completed));
    }
    // In the same write as the phase: a reader that waits for it finds both.
    decider.note_health();
    decider.end(NextStep::Again)
}

/// The outcome of a finished plan.
pub(super) fn outcome(status: &api::advisor::VirtPlatformConfigStatus, now: Timestamp) -> Outcome {
    let result = match status.phase {
        Some(Phase::Failed) => PlanResult::Failed,
        Some(Phase::CompletedWithErrors) => PlanResult::CompletedWithErrors,
        // What became different after the last item is no outcome of the plan.
        Some(Phase::Completed | Phase::CompletedWithUpgrade | Phase::Drifted) => {
            PlanResult::Completed
        }
        _ => PlanResult::Superseded,
    };
    let message = status
        .phase
        .and_then(|phase| crate::conditions::get(&status.conditions, phase.as_str()))
        .map(|condition| condition.message.clone())
        .unwrap_or_default();
    Outcome {
        result,
        finished: Time(now),
        message,
    }
}

/// The history entry of a plan that starts.
fn record(decider: &Decider<'_>, granted: ApprovedPlan) -> Record {
    let facts = decider.facts;
    let items = decider
        .status
        .items
        .iter()
        .filter(|item| item.state == ItemState::Pending);
    Record {
        revision: plan::next_revision(&facts),
        plan_digest: decider.status.plan_digest.clone().unwrap_or_default(),
        rollback_to: facts.rollback(),
        correction: corrects(decider),
        approved_by: granted.users(),
        approvals: granted.approvals,
        config_uid: facts.config.metadata.uid.clone(),
        impact: decider.status.impact_severity.unwrap_or(Impact::Low),
        operator_version: facts.version.to_owned(),
        options: facts.config.spec.options.clone(),
        inputs: decider.status.inputs.clone(),
        items: items.map(|item| recorded_item(item, &facts)).collect(),
        started: Time(facts.now),
        outcome: None,
    }
}

/// Whether the plan reverts drift without a request by a user.
pub(super) fn corrects(decider: &Decider<'_>) -> bool {
    let corrections = decider.status.enforcement.as_ref();
    decider.facts.config.spec.bypass_optimistic_lock
        && corrections.is_some_and(|known| !known.corrections.is_empty())
}

fn recorded_item(item: &Item, facts: &DecisionInputs<'_>) -> RecordedItem {
    let live = facts.snapshot.target(&item.target_ref);
    let owners = item.managed_fields.iter().filter_map(|path| {
        let owner = ownership::last_writer(&live?.metadata, path)?;
        Some((path.clone(), owner.0))
    });
    RecordedItem {
        name: item.name.clone(),
        target_ref: item.target_ref.clone(),
        operation: item.operation,
        desired_state: item.desired_state.clone(),
        managed_fields: item.managed_fields.clone(),
        before: item.base.clone(),
        owners: owners.collect(),
        diff: item.diff.clone(),
    }
}

/// Continues after a history entry was written.
pub fn recorded(facts: &DecisionInputs<'_>, revision: i64) -> Decision {
    let mut decider = Decider::new(*facts);
    decider.status.revision = Some(revision);
    decider.end(NextStep::Again)
}

/// Continues after the execution of an item.
pub fn executed(facts: &DecisionInputs<'_>, index: usize, result: Result) -> Decision {
    take_result(Decider::new(*facts), index, result)
}

/// Takes the result of an item into the status.
pub(super) fn take_result(mut decider: Decider<'_>, index: usize, result: Result) -> Decision {
    let (result, deviations) = match result {
        Result::Kept(deviations) => (Result::Done, deviations),
        result => (result, Vec::new()),
    };
    match result {
        Result::Done | Result::Kept(_) => {
            decider.touch(index, |item| {
                item.deviations = deviations;
                item.state = ItemState::InProgress;
                item.message = Some("Applying configuration...".to_owned());
            });
            deviation::fit(&mut decider.status.items);
            // The write has happened, so the item is tracked even if it never becomes healthy.
            draft::adopt(&mut decider, index);
            // An item without a wait is completed by the same status write.
            let wait = check_applied(&mut decider, index);
            if let Some(item) = decider.status.items.get(index) {
                let (name, target) = (item.name.clone(), item.target_ref.to_string());
                decider.notice(
                    false,
                    "ItemApplied",
                    &format!("Item '{name}' is applied to {target}"),
                );
            }
            if wait.is_some() {
                return decider.rest(wait);
            }
            decider.end(NextStep::Again)
        }
        Result::Stale(why) => review::stale(decider, &why),
        Result::WithoutConsent(takeovers) => {
            let paths: Vec<_> = takeovers
                .iter()
                .map(|takeover| format!("{} from {}", takeover.path, takeover.manager))
                .collect();
            let why = format!(
                "Item {index} would take {} without consent (spec.approval.takeovers)",
                paths.join(", ")
            );
            supersede(decider, &why)
        }
        Result::Refused(why) => {
            decider.touch(index, |item| {
                item.state = ItemState::Failed;
                item.message = Some(format!("Failed to apply: {why}"));
            });
            decider.end(NextStep::Again)
        }
    }
}

/// The takeovers of an item without consent. Consent is for what the plan lists: a field, and the manager that owned it
/// then. Taking back a field that was ours when the plan was generated needs none, if it is from the manager that the
/// plan lists.
pub(super) fn takeovers_without_consent(
    execution: &Execution,
    takeovers: &[Takeover],
) -> Vec<Takeover> {
    if execution.bypass {
        return Vec::new();
    }
    let planned = |takeover: &Takeover| {
        let mut planned = execution.item.takeovers.iter();
        planned.find(|one| one.path == takeover.path && one.manager == takeover.manager)
    };
    let (known, mut takeovers_without_consent): (Vec<_>, Vec<_>) = takeovers
        .iter()
        .cloned()
        // A takeover that the plan does not list was not on the screen of the approver: no consent covers it, not even
        // one for the whole item.
        .partition(|takeover| planned(takeover).is_some());
    let item = Item {
        takeovers: known
            .into_iter()
            .map(|takeover| Takeover {
                reclaimed: planned(&takeover).is_some_and(|one| one.reclaimed),
                ..takeover
            })
            .collect(),
        ..execution.item.clone()
    };
    let missing = approval::consented(std::slice::from_ref(&item), &execution.consent);
    takeovers_without_consent.extend(missing.into_iter().map(|missing| missing.takeover));
    takeovers_without_consent
}
