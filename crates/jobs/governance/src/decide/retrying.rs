//! Failed, and CompletedWithErrors with items that were not applied: the plan is tried again, with backoff.
//!
//! The same plan, under the same approval and the same entry of the history: an item that was applied is only checked
//! again, and one that was not is written again, under its lock and in its maintenance window.

use api::advisor::{ItemState, Phase};
use jiff::Timestamp;

use super::{Decider, Decision, Lock, NextStep, diffs, draft, drift, lock};
use crate::conditions::{self, message_of};
use crate::snapshot::whole;
use crate::{plan, retry};

/// Waits until the plan is due, or tries it again.
pub(super) fn failed(mut decider: Decider<'_>) -> Decision {
    drift::note_drift(&mut decider);
    diffs::refresh(&mut decider, None);
    drift::report_drift(&mut decider);
    // What changed has to be reviewed. A retry would overwrite the edit that made the plan stale.
    let condition = conditions::get(&decider.status.conditions, Phase::Failed.as_str());
    if condition.is_some_and(|condition| condition.reason == "PlanStale") {
        return decider.rest(None);
    }
    if decider.status.retry.is_none() {
        // It failed under an earlier version, which did not try again.
        decider.schedule_retry(retry::LONGEST);
    }
    if let Some(at) = decider.next_attempt() {
        return decider.rest(Some(at));
    }
    let draft = match plan::draft(&decider.facts) {
        Ok(draft) => draft,
        Err(problem) => return draft::refuse(decider, &problem),
    };
    let mut items = decider.status.items.iter();
    // The items of an earlier plan stay in the status until there is another one, which may be what failed.
    if items.any(|item| item.state == ItemState::Failed)
        && draft.same_as(&decider.status.items)
        && !decider.wants_another_plan()
        && decider.terms_hold()
    {
        return again(decider);
    }
    // The phase stays until there is a plan: each attempt would be three events otherwise.
    decider.end(NextStep::Preview(draft))
}

/// Begins another attempt at the items that failed.
pub(super) fn again(mut decider: Decider<'_>) -> Decision {
    let config = decider.facts.config.metadata.name.clone();
    let config = config.unwrap_or_default();
    for index in 0..decider.status.items.len() {
        let item = &decider.status.items[index];
        if item.state != ItemState::Failed {
            continue;
        }
        let state = if is_applied(&decider, index, &config) {
            ItemState::InProgress
        } else {
            ItemState::Pending
        };
        decider.touch(index, |item| item.state = state);
    }
    decider.status.retry = decider.status.retry.as_ref().map(retry::begun);
    decider.enter(Phase::InProgress, None, message_of(Phase::InProgress));
    decider.end(NextStep::Again)
}

/// Whether any failed item is not applied: the others are healed by their operators, which a watch event announces.
pub(super) fn has_unapplied_failure(decider: &Decider<'_>) -> bool {
    let config = decider.facts.config.metadata.name.as_deref();
    let config = config.unwrap_or_default();
    (0..decider.status.items.len()).any(|index| {
        decider.status.items[index].state == ItemState::Failed
            && !is_applied(decider, index, config)
    })
}

fn is_applied(decider: &Decider<'_>, index: usize, config: &str) -> bool {
    let Some(item) = decider.status.items.get(index) else {
        return false;
    };
    let live = decider.facts.snapshot.target(&item.target_ref);
    lock(item, live.map(|live| whole(live)).as_ref(), config, true) == Lock::Done
}

impl Decider<'_> {
    /// Schedules the next attempt after a failure.
    pub(super) fn schedule_retry(&mut self, longest: jiff::SignedDuration) {
        let before = self.status.retry.as_ref();
        self.status.retry = Some(retry::after_failure(before, self.facts.now, longest));
    }

    /// When the plan is tried again, if it is not due.
    pub(super) fn next_attempt(&self) -> Option<Timestamp> {
        retry::pending(self.status.retry.as_ref(), self.facts.now)
    }
}
