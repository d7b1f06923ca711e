//! InProgress: the items are carried out, one after the other.
//!
//! An item is begun when the one before it is completed, and not before. What an item finds just
//! before it is applied must be what its plan was made from; the write itself fails if the object
//! changes in between. A target that bears our mark was reached before the operator was stopped: it
//! is not applied twice.

use std::collections::{BTreeMap, BTreeSet};

use api::advisor::{
    Action, ConsentedTakeover, FailurePolicy, Impact, Item, ItemState, Operation, Phase, Takeover,
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::Value;

use super::{Decision, Facts, Todo, Turn, draft, review};
use crate::approval::Withheld;
use crate::conditions::{INPUT_DEPENDENCY_DRIFT, PLAN_STALE, UPGRADE_AVAILABLE, message_of};
use crate::health::{self, Health};
use crate::plan::Draft;
use crate::record::{Ending, Outcome, Record, RecordedItem};
use crate::timeout::{self, Verdict};
use crate::window::{State as Window, Windows};
use crate::{approval, ownership, plan, values};

/// An item to be carried out.
#[derive(Debug, Clone)]
pub struct Execution {
    /// Its place in the plan.
    pub index: usize,
    /// The item.
    pub item: Item,
    /// Whether the lock is not to be looked at, and every field may be taken.
    pub bypass: bool,
    /// The fields that may be taken from others.
    pub consent: Vec<ConsentedTakeover>,
    /// Who owned the fields of before, for those that are given back.
    pub owners: BTreeMap<String, String>,
}

impl Execution {
    /// Whether the item disturbs workloads, so that it is worth a read of everything that it rests on.
    pub fn is_disruptive(&self) -> bool {
        self.item
            .impact_severity
            .is_none_or(|impact| impact == Impact::High)
    }
}

/// How carrying out an item went.
#[derive(Debug, Clone)]
pub enum Result {
    /// It is done; or it had been done.
    Done,
    /// The target is not what the plan was made from.
    Stale(String),
    /// It would take fields from others that nobody agreed to.
    Unagreed(Vec<Takeover>),
    /// The server refuses.
    Refused(String),
}

/// Whether an item may be carried out on a target.
#[derive(Debug, Clone, PartialEq)]
pub enum Lock {
    /// The target is what the plan was made from.
    Free,
    /// The item had been carried out.
    Done,
    /// The target is something else, and this is how.
    Stale(String),
}

/// Compares a target, read just now, with what the plan was made from.
pub fn lock(item: &Item, live: Option<&Value>, config: &str, bypass: bool) -> Lock {
    match (item.operation, live) {
        (Operation::Delete, None) => return Lock::Done,
        (Operation::Apply, Some(live)) => {
            let wanted = plan::wanted_values(item);
            if plan::bears_our_mark(item, live, config)
                && values::differences(&wanted, live).is_empty()
            {
                return Lock::Done;
            }
        }
        (Operation::Restore, Some(state)) if given_back(item, live) && !plan::owned(state) => {
            return Lock::Done;
        }
        _ => {}
    }
    if bypass {
        return Lock::Free;
    }
    match review::moved(item, live) {
        None => Lock::Free,
        // Values are given back owner by owner, and before their ownership: some may have arrived when
        // somebody else was faster, or when the operator was stopped.
        Some(_) if item.operation == Operation::Restore && on_its_way_back(item, live) => {
            Lock::Free
        }
        Some(why) => Lock::Stale(why),
    }
}

/// Whether the managed fields are what they are to be given back as.
fn given_back(item: &Item, live: Option<&Value>) -> bool {
    live.and_then(|live| values::managed(live, &item.managed_fields).ok())
        .is_some_and(|now| now == plan::wanted_values(item))
}

/// Whether every managed field is what the plan was made from, or what it is to be given back as.
fn on_its_way_back(item: &Item, live: Option<&Value>) -> bool {
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

/// Goes on where the plan is.
pub(super) fn go_on(mut turn: Turn<'_>) -> Decision {
    let facts = turn.facts;
    let unfinished = turn
        .status
        .items
        .iter()
        .any(|item| item.state == ItemState::Pending);
    let entry = turn.open_entry();
    if turn.facts.spec_changed() {
        let undoes_else = entry.is_some_and(|entry| entry.rollback_to != facts.rollback());
        if turn.wants_another_plan()
            || undoes_else
            || (unfinished && !turn.terms_hold())
            || (unfinished && facts.config.spec.action != Action::Apply)
        {
            return supersede(
                turn,
                "The specification was changed while the plan was being applied",
            );
        }
        turn.observe();
        turn.enter(Phase::InProgress, None, message_of(Phase::InProgress));
    }
    if !unfinished {
        return watch_or_finish(turn, None);
    }
    if facts.config.spec.action != Action::Apply {
        return supersede(turn, "action is not 'Apply' any more");
    }
    let draft = match plan::draft(&facts) {
        Ok(draft) if review::inputs_changed(&mut turn, &draft.inputs) => {
            return supersede(
                turn,
                "What the plan was derived from changed while it was being applied",
            );
        }
        // Before anything was done, a plan that nobody would make any more is not carried out.
        Ok(draft) if entry.is_none() && !draft.same_as(&turn.status.items) => {
            return supersede(turn, "The plan changed before it was applied");
        }
        Ok(draft) => draft,
        Err(problem) => return supersede(turn, &problem.message()),
    };
    turn.note_requirements();
    let granted = match review::granted(&turn) {
        Ok(granted) => granted,
        Err(Withheld::Rejected { .. }) => {
            // Planned again it would be another plan, and nobody would have refused that.
            turn.status.next_window = None;
            let mut held = review::ask(turn);
            held.todo = Todo::Again;
            return held;
        }
        Err(withheld) => return supersede(turn, &withheld.to_string()),
    };
    let Some(entry) = entry else {
        let record = record(&turn, granted);
        return turn.end(Todo::Record(Box::new(record)));
    };
    turn.status.revision = Some(entry.revision);
    watch_or_finish(turn, Some((&granted.items, &draft)))
}

/// Stops before the next item, and plans again.
fn supersede(turn: Turn<'_>, why: &str) -> Decision {
    turn.start_over(Some(why))
}

/// Does the next thing that is to be done. `granted` has the items that are approved, and what would be planned now.
fn watch_or_finish(mut turn: Turn<'_>, granted: Option<(&BTreeSet<String>, &Draft)>) -> Decision {
    let facts = turn.facts;
    let spec = &facts.config.spec;
    let mut left_out = false;
    for index in 0..turn.status.items.len() {
        match turn.status.items[index].state {
            ItemState::Completed => {}
            ItemState::Failed if spec.failure_policy == FailurePolicy::Continue => {}
            ItemState::Failed => return fail(turn, index),
            ItemState::InProgress => {
                let wait = look_after(&mut turn, index);
                match turn.status.items[index].state {
                    ItemState::Completed => {}
                    ItemState::Failed if spec.failure_policy == FailurePolicy::Continue => {}
                    ItemState::Failed => return fail(turn, index),
                    _ => return turn.rest(wait),
                }
            }
            ItemState::Pending => {
                let item = turn.status.items[index].clone();
                let Some((granted, draft)) =
                    granted.filter(|(granted, _)| granted.contains(&item.name))
                else {
                    left_out = true;
                    continue;
                };
                if let Window::Closed { next } = window_of(&facts, &item) {
                    return wait_for_window(turn, index, next);
                }
                // After the window: what changed while the plan waited has to stop it before its first item.
                if let Some(why) = changed_since_review(&turn, granted, draft) {
                    return review::stale(turn, &why);
                }
                turn.status.next_window = None;
                let execution = execution(&turn, index, item);
                return turn.end(Todo::Execute(Box::new(execution)));
            }
        }
    }
    let failed = turn
        .status
        .items
        .iter()
        .any(|item| item.state == ItemState::Failed);
    if left_out && !failed {
        return leave_the_rest(turn);
    }
    complete(turn)
}

/// What makes the rest of the plan another one than was approved, if anything does: a target that changed, or an item
/// that costs more than it did. All items that are still to come count, so that nothing is applied of a plan that cannot
/// be finished. One that costs less is what was approved, and more.
fn changed_since_review(
    turn: &Turn<'_>,
    granted: &BTreeSet<String>,
    draft: &Draft,
) -> Option<String> {
    let mut pending = turn.status.items.clone();
    pending.retain(|item| granted.contains(&item.name));
    let worse: Vec<_> = plan::impact_changes(&pending, draft)
        .filter(|change| change.now > change.planned)
        .map(|change| change.to_string())
        .collect();
    if !worse.is_empty() {
        return Some(worse.join("; "));
    }
    if turn.facts.config.spec.bypass_optimistic_lock {
        return None;
    }
    review::staleness(&turn.facts, &pending)
}

fn execution(turn: &Turn<'_>, index: usize, item: Item) -> Execution {
    let spec = &turn.facts.config.spec;
    // Before the plans that are taken back, and not before those that stay.
    let mut applied = turn.status.applied.iter();
    let applied = applied.find(|applied| applied.target_ref == item.target_ref);
    let first = turn.facts.rollback();
    let first = first.or_else(|| applied.map(|applied| applied.revision));
    let owners = turn
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
        consent: spec.approval.clone().unwrap_or_default().takeovers,
        owners,
    }
}

/// The items that nobody approved wait for somebody who does.
fn leave_the_rest(turn: Turn<'_>) -> Decision {
    supersede(
        turn,
        "The approved items are applied; the others are not approved",
    )
}

/// Whether an item may start now: by the configuration, whose windows are for disruptive items, and by all policies.
fn window_of(facts: &Facts<'_>, item: &Item) -> Window {
    let impact = item.impact_severity.unwrap_or(Impact::High);
    let required = facts.floor().window(impact, facts.now);
    if impact != Impact::High {
        return required;
    }
    let own = match Windows::parse(&facts.config.spec.maintenance_windows) {
        Ok(windows) => windows.state(facts.now),
        // Windows that cannot be read never open.
        Err(_) => Window::Closed { next: None },
    };
    own.and(required)
}

fn wait_for_window(mut turn: Turn<'_>, index: usize, opens: Option<Timestamp>) -> Decision {
    let message = match opens {
        Some(opens) => format!(
            "Waiting for a maintenance window (the next one opens at {})",
            machinery::time::format_time(opens)
        ),
        None => "Waiting for a maintenance window, but none ever opens".to_owned(),
    };
    turn.touch(index, |item| item.message = Some(message));
    turn.status.next_window = opens.map(Time);
    turn.rest(opens)
}

/// How an item is doing.
pub(super) fn health_of(turn: &Turn<'_>, index: usize) -> Health {
    let Some(item) = turn.status.items.get(index) else {
        return Health::Healthy(String::new());
    };
    let snapshot = turn.facts.snapshot;
    let live = snapshot.target(&item.target_ref).map(|live| &**live);
    match item.operation {
        Operation::Delete => health::gone(&item.target_ref, item.desired_state.as_ref(), snapshot),
        Operation::Apply | Operation::Restore => health::health(&item.target_ref, live, snapshot),
    }
}

/// Looks after an item that has been applied; when to look again if it is not done.
fn look_after(turn: &mut Turn<'_>, index: usize) -> Option<Timestamp> {
    let facts = turn.facts;
    let health = health_of(turn, index);
    let since = turn.status.items[index].last_transition_time.clone();
    match health {
        Health::Healthy(message) => {
            turn.touch(index, |item| {
                item.state = ItemState::Completed;
                item.message = Some(message);
            });
            None
        }
        Health::Failed(message) => {
            turn.touch(index, |item| {
                item.state = ItemState::Failed;
                item.message = Some(format!("Health check failed: {message}"));
            });
            None
        }
        Health::Waiting { message, .. } => {
            let limit = facts
                .config
                .spec
                .wait_timeout
                .as_deref()
                .and_then(|text| timeout::parse(text).ok());
            let since = since.map_or(facts.now, |since| since.0);
            match timeout::verdict(since, facts.now, limit, &message) {
                Verdict::Expired(message) => {
                    turn.touch(index, |item| {
                        item.state = ItemState::Failed;
                        item.message = Some(message);
                    });
                    None
                }
                Verdict::Wait(remaining) => {
                    turn.touch(index, |item| item.message = Some(message));
                    remaining
                        .and_then(|remaining: SignedDuration| facts.now.checked_add(remaining).ok())
                }
            }
        }
    }
}

/// The plan ends where an item failed; those behind it stay pending.
fn fail(mut turn: Turn<'_>, index: usize) -> Decision {
    let item = &turn.status.items[index];
    let message = format!(
        "Item '{}' failed: {}",
        item.name,
        item.message.as_deref().unwrap_or("no reason is known")
    );
    turn.enter(Phase::Failed, None, &message);
    turn.end(Todo::Again)
}

/// All items have come to their end.
pub(super) fn complete(mut turn: Turn<'_>) -> Decision {
    let failed = turn
        .status
        .items
        .iter()
        .filter(|item| item.state == ItemState::Failed)
        .count();
    turn.status.next_window = None;
    turn.observe();
    if let Some(hash) = plan::live_hash(&turn.status.items, turn.facts.snapshot) {
        turn.status.source_snapshot_hash = Some(hash);
    }
    turn.clear(
        UPGRADE_AVAILABLE,
        "Applied",
        "What this version of the operator plans is applied",
    );
    turn.clear(
        INPUT_DEPENDENCY_DRIFT,
        "Acknowledged",
        "The plan with the new inputs was applied",
    );
    turn.clear(PLAN_STALE, "Applied", "The plan was applied");
    turn.status.rolled_back_to = turn.facts.config.spec.rollback_to;
    if failed > 0 {
        let message = format!(
            "{} ({failed} failed)",
            message_of(Phase::CompletedWithErrors)
        );
        turn.enter(Phase::CompletedWithErrors, None, &message);
    } else if let Some(revision) = turn.facts.config.spec.rollback_to {
        let message = format!(
            "Everything since revision {revision} is undone. Remove spec.rollbackTo to plan again."
        );
        turn.enter(Phase::Completed, Some("RolledBack"), &message);
    } else {
        turn.enter(Phase::Completed, None, message_of(Phase::Completed));
    }
    turn.end(Todo::Again)
}

/// How a plan that is over ended.
pub(super) fn outcome(status: &api::advisor::VirtPlatformConfigStatus, now: Timestamp) -> Outcome {
    let result = match status.phase {
        Some(Phase::Failed) => Ending::Failed,
        Some(Phase::CompletedWithErrors) => Ending::CompletedWithErrors,
        Some(Phase::Completed | Phase::CompletedWithUpgrade | Phase::Drifted) => Ending::Completed,
        _ => Ending::Superseded,
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

/// The entry of the history for the plan that begins.
fn record(turn: &Turn<'_>, granted: approval::Granted) -> Record {
    let facts = turn.facts;
    let items = turn
        .status
        .items
        .iter()
        .filter(|item| item.state == ItemState::Pending);
    Record {
        revision: plan::next_revision(&facts),
        plan_digest: turn.status.plan_digest.clone().unwrap_or_default(),
        rollback_to: facts.rollback(),
        correction: corrects(turn),
        approved_by: granted.users(),
        approvals: granted.approvals,
        config_uid: facts.config.metadata.uid.clone(),
        impact: turn.status.impact_severity.unwrap_or(Impact::Low),
        operator_version: facts.version.to_owned(),
        options: facts.config.spec.options.clone(),
        inputs: turn.status.inputs.clone(),
        items: items.map(|item| recorded_item(item, &facts)).collect(),
        started: Time(facts.now),
        outcome: None,
    }
}

/// Whether the plan puts back what the last one did, without anybody having asked for it.
pub(super) fn corrects(turn: &Turn<'_>) -> bool {
    let corrections = turn.status.enforcement.as_ref();
    turn.facts.config.spec.bypass_optimistic_lock
        && corrections.is_some_and(|known| !known.corrections.is_empty())
}

fn recorded_item(item: &Item, facts: &Facts<'_>) -> RecordedItem {
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

/// Goes on after an entry of the history was written.
pub fn recorded(facts: &Facts<'_>, revision: i64) -> Decision {
    let mut turn = Turn::new(*facts);
    turn.status.revision = Some(revision);
    turn.end(Todo::Again)
}

/// Goes on after an item was carried out, or was not.
pub fn executed(facts: &Facts<'_>, index: usize, result: Result) -> Decision {
    let mut turn = Turn::new(*facts);
    match result {
        Result::Done => {
            turn.touch(index, |item| {
                item.state = ItemState::InProgress;
                item.message = Some("Applying configuration...".to_owned());
            });
            draft::adopt(&mut turn, index);
            // What needs no waiting is completed with the same write.
            let wait = look_after(&mut turn, index);
            if let Some(item) = turn.status.items.get(index) {
                let (name, target) = (item.name.clone(), item.target_ref.to_string());
                turn.notice(
                    false,
                    "ItemApplied",
                    &format!("Item '{name}' is applied to {target}"),
                );
            }
            if wait.is_some() {
                return turn.rest(wait);
            }
            turn.end(Todo::Again)
        }
        Result::Stale(why) => review::stale(turn, &why),
        Result::Unagreed(takeovers) => {
            let paths: Vec<_> = takeovers
                .iter()
                .map(|takeover| format!("{} from {}", takeover.path, takeover.manager))
                .collect();
            let why = format!(
                "Item {index} would take {} without consent (spec.approval.takeovers)",
                paths.join(", ")
            );
            supersede(turn, &why)
        }
        Result::Refused(why) => {
            turn.touch(index, |item| {
                item.state = ItemState::Failed;
                item.message = Some(format!("Failed to apply: {why}"));
            });
            turn.end(Todo::Again)
        }
    }
}

/// The takeovers of an item that lack consent. Consent is for what the plan lists: a field, and the manager who owned it
/// then. What was ours when the plan was made is only taken back, from the manager that the plan lists.
pub fn unagreed(execution: &Execution, takeovers: &[Takeover]) -> Vec<Takeover> {
    if execution.bypass {
        return Vec::new();
    }
    let planned = |takeover: &Takeover| {
        let mut planned = execution.item.takeovers.iter();
        planned.find(|one| one.path == takeover.path && one.manager == takeover.manager)
    };
    let (known, mut unagreed): (Vec<_>, Vec<_>) = takeovers
        .iter()
        .cloned()
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
    unagreed.extend(missing.into_iter().map(|missing| missing.takeover));
    unagreed
}
