//! Items that follow one another without a new decision about the whole plan.
//!
//! A decision reads every item: whether its target is unchanged, what its impact is now. For a plan of a thousand items,
//! one decision per item would be a million checks. They yield the same as long as nothing changes but the target that
//! was just written, and this is what a [`Batch`] relies on: it ends as soon as any other object is different.

use std::collections::BTreeSet;

use api::advisor::{ConsentedTakeover, ItemState, VirtPlatformConfigStatus};

use super::execute::{execution, take_result, window_of};
use super::{Decider, Decision, DecisionInputs, Executed, Execution, NextStep, Notice, review};
use crate::snapshot::Snapshot;
use crate::window::State as Window;

/// The status of a plan while several of its items are applied.
#[derive(Debug)]
pub struct Batch {
    status: VirtPlatformConfigStatus,
    notices: Vec<Notice>,
    /// The approved items.
    granted: BTreeSet<String>,
    /// The takeovers with consent.
    consent: Vec<ConsentedTakeover>,
}

/// How to continue after an item.
#[derive(Debug)]
pub enum Following {
    /// Execute this item.
    Item(Box<Execution>),
    /// Decide again with the status of the batch.
    Decide,
    /// Write this decision.
    End(Box<Decision>),
}

impl Batch {
    /// Begins with the status of the configuration, whose decision was to execute an item.
    pub fn begin(facts: &DecisionInputs<'_>) -> Self {
        let decider = Decider::new(*facts);
        let granted = review::granted(&decider);
        let (granted, consent) = granted
            .map(|granted| (granted.items, granted.consent))
            .unwrap_or_default();
        Self {
            status: decider.status,
            notices: decider.notices,
            granted,
            consent,
        }
    }

    /// Takes the result of an item. `before` is the snapshot that it was decided on, and `facts` has the current one.
    pub fn executed(
        &mut self,
        facts: &DecisionInputs<'_>,
        before: &Snapshot,
        execution: &Execution,
        result: Executed,
    ) -> Following {
        let decider = Decider {
            facts: *facts,
            status: std::mem::take(&mut self.status),
            notices: std::mem::take(&mut self.notices),
        };
        let decision = take_result(decider, execution.index, result);
        if !matches!(decision.todo, NextStep::Again) {
            return Following::End(Box::new(decision));
        }
        self.status = decision.status;
        self.notices = decision.notices;
        let target = &execution.item.target_ref;
        if facts.snapshot.differs_only_at(before, target)
            && let Some(next) = self.following(facts, execution.index)
        {
            return Following::Item(next);
        }
        Following::Decide
    }

    /// The next item, if its decision follows from that of the item before.
    fn following(&mut self, facts: &DecisionInputs<'_>, index: usize) -> Option<Box<Execution>> {
        let done = self.status.items.get(index)?;
        let index = index + 1;
        let item = self.status.items.get(index)?.clone();
        let starts = done.state == ItemState::Completed
            && item.state == ItemState::Pending
            && self.granted.contains(&item.name)
            && !matches!(window_of(facts, &item), Window::Closed { .. });
        if !starts {
            return None;
        }
        let decider = Decider {
            facts: *facts,
            status: std::mem::take(&mut self.status),
            notices: Vec::new(),
        };
        let next = execution(&decider, index, item, self.consent.clone());
        self.status = decider.status;
        // A disruptive item starts with a decision of its own, on live reads.
        (!next.is_disruptive()).then(|| Box::new(next))
    }

    /// The status so far, to decide on.
    pub fn status(&self) -> &VirtPlatformConfigStatus {
        &self.status
    }

    /// Continues with the status of a decision that was made in between.
    pub fn resume(&mut self, decision: Decision) {
        self.status = decision.status;
        self.notices.extend(decision.notices);
    }

    /// The results so far, to be written.
    pub fn end(self) -> Decision {
        Decision {
            status: self.status,
            todo: NextStep::Again,
            notices: self.notices,
        }
    }
}
