//! What becomes of a configuration: the state machine.
//!
//! ```text
//! Pending --> Drafting --> ReviewRequired --> InProgress --> Completed <--> Drifted
//!    ^           |  \_____________________________^  |            \__ CompletedWithUpgrade
//!    |           v                                   v
//!    `-- PrerequisiteFailed                    Failed, CompletedWithErrors
//! ```
//!
//! The state is the status of the object, and nothing else: killed anywhere, the operator goes on from
//! what was written. [`decide`] looks at everything and says what the status is to be, what is to be
//! done, and when to look again. What is done is reported back ([`drafted`], [`recorded`],
//! [`executed`]), and that yields the next status.

mod draft;
mod execute;
mod review;
mod settled;
#[cfg(test)]
pub(crate) mod tests;

use api::advisor::{Action, Impact, Item, Phase, VirtPlatformConfig, VirtPlatformConfigStatus};
use jiff::{SignedDuration, Timestamp};

pub use draft::drafted;
pub use execute::{Execution, Lock, Result as Executed, executed, lock, recorded, unagreed};

use crate::approval::{Floor, Policy};
use crate::conditions::{self, Moment};
use crate::plan::{self, Draft};
use crate::profile::Profile;
use crate::record::{Outcome, Record};
use crate::recorder::Recorder;
use crate::snapshot::Snapshot;

/// How long to wait before looking for missing kinds again, should no watch tell (the seed's 5 min).
const LOOK_AGAIN: SignedDuration = SignedDuration::from_mins(5);

/// Everything that a decision looks at.
#[derive(Clone, Copy)]
pub struct Facts<'a> {
    /// The configuration, as it was read.
    pub config: &'a VirtPlatformConfig,
    /// Its profile, if there is such a profile.
    pub profile: Option<&'a dyn Profile>,
    /// What there is in the cluster.
    pub snapshot: &'a Snapshot,
    /// The history of the configuration.
    pub records: &'a [Record],
    /// All ApprovalPolicies of the cluster.
    pub policies: &'a [Policy],
    /// Whether admission records who approves.
    pub recorder: &'a Recorder,
    /// The version of this operator.
    pub version: &'a str,
    /// The time.
    pub now: Timestamp,
}

impl Facts<'_> {
    /// The status, empty if there is none yet.
    pub fn status(&self) -> VirtPlatformConfigStatus {
        self.config.status.clone().unwrap_or_default()
    }

    /// The revision to go back to before, if that is asked for and not done.
    pub fn rollback(&self) -> Option<i64> {
        let done = self
            .config
            .status
            .as_ref()
            .and_then(|status| status.rolled_back_to);
        self.config
            .spec
            .rollback_to
            .filter(|asked| Some(*asked) != done)
    }

    /// What policies demand of the plans of this configuration.
    pub fn floor(&self) -> Floor {
        Floor::of(self.policies, &self.config.spec)
    }

    fn moment(&self) -> Moment {
        Moment {
            now: self.now,
            generation: self.config.metadata.generation,
        }
    }

    /// Whether the specification changed since the status was written.
    fn spec_changed(&self) -> bool {
        let observed = self
            .config
            .status
            .as_ref()
            .and_then(|status| status.observed_generation);
        observed != self.config.metadata.generation
    }
}

/// What is to be, and what is to be done.
#[derive(Debug, Clone)]
pub struct Decision {
    /// What the status is to be. It is written before anything is done.
    pub status: VirtPlatformConfigStatus,
    /// What is to be done.
    pub todo: Todo,
    /// What is worth telling.
    pub notices: Vec<Notice>,
}

/// What is to be done.
#[derive(Debug, Clone)]
pub enum Todo {
    /// Nothing, until something changes or the time comes.
    Rest(Option<Timestamp>),
    /// Look again with the new status.
    Again,
    /// Ask the server what it would make of each item, then see [`drafted`].
    Preview(Draft),
    /// Write this into the history, then see [`recorded`].
    Record(Box<Record>),
    /// Add to the history how a revision ended, then look again.
    Close(i64, Outcome),
    /// Carry out an item, then see [`executed`].
    Execute(Box<Execution>),
}

/// Something worth telling: an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// Whether somebody should look.
    pub warning: bool,
    /// In a word.
    pub reason: String,
    /// In words.
    pub message: String,
}

/// Decides.
pub fn decide(facts: &Facts<'_>) -> Decision {
    let turn = Turn::new(*facts);
    if facts.config.spec.action == Action::Ignore {
        return turn.ignore();
    }
    match turn.status.phase {
        None | Some(Phase::Ignored) => turn.start_over(None),
        Some(Phase::Pending) => draft::prepare(turn),
        Some(Phase::Drafting) => draft::begin(turn),
        Some(Phase::PrerequisiteFailed) => draft::try_again(turn),
        Some(Phase::ReviewRequired) => review::look(turn),
        Some(Phase::InProgress) => execute::go_on(turn),
        Some(
            Phase::Completed
            | Phase::CompletedWithErrors
            | Phase::CompletedWithUpgrade
            | Phase::Drifted
            | Phase::Failed,
        ) => settled::watch(turn),
    }
}

/// One decision in the making.
struct Turn<'a> {
    facts: Facts<'a>,
    status: VirtPlatformConfigStatus,
    notices: Vec<Notice>,
}

impl<'a> Turn<'a> {
    fn new(facts: Facts<'a>) -> Self {
        Self {
            facts,
            status: facts.status(),
            notices: Vec::new(),
        }
    }

    /// Enters a phase, or says something new about it.
    fn enter(&mut self, phase: Phase, reason: Option<&str>, message: &str) {
        if self.status.phase != Some(phase) {
            let warning = matches!(
                phase,
                Phase::Failed
                    | Phase::PrerequisiteFailed
                    | Phase::Drifted
                    | Phase::CompletedWithErrors
            );
            self.notice(warning, reason.unwrap_or(phase.as_str()), message);
        }
        self.status.phase = Some(phase);
        let moment = self.facts.moment();
        conditions::enter(&mut self.status.conditions, phase, reason, message, &moment);
    }

    fn notice(&mut self, warning: bool, reason: &str, message: &str) {
        debug_assert!(
            api::words::tells(crate::words::EVENTS, reason, warning),
            "the event {reason} is not explained in words.rs"
        );
        self.notices.push(Notice {
            warning,
            reason: reason.to_owned(),
            message: message.to_owned(),
        });
    }

    /// Sets a condition that cuts across phases.
    fn condition(&mut self, kind: &str, status: bool, reason: &str, message: &str) {
        let moment = self.facts.moment();
        conditions::set(
            &mut self.status.conditions,
            kind,
            status,
            reason,
            message,
            &moment,
        );
    }

    /// Turns a condition off, if it is on.
    fn clear(&mut self, kind: &str, reason: &str, message: &str) {
        if conditions::is_true(&self.status.conditions, kind) {
            self.condition(kind, false, reason, message);
        }
    }

    /// What the specification now says has been taken notice of.
    fn observe(&mut self) {
        self.status.observed_generation = self.facts.config.metadata.generation;
    }

    /// An edit of the specification is an answer to what was asked.
    fn acknowledge(&mut self) {
        self.clear(
            conditions::INPUT_DEPENDENCY_DRIFT,
            "Acknowledged",
            "The change of an input was acknowledged by an edit of the specification",
        );
        self.status.enforcement = crate::enforcement::resumed();
    }

    fn rest(self, wake: Option<Timestamp>) -> Decision {
        self.end(Todo::Rest(wake))
    }

    fn end(self, todo: Todo) -> Decision {
        Decision {
            status: self.status,
            todo,
            notices: self.notices,
        }
    }

    /// Goes on in another phase.
    fn move_to(mut self, phase: Phase) -> Decision {
        self.enter(phase, None, conditions::message_of(phase));
        self.end(Todo::Again)
    }

    /// Plans from scratch. A plan that was being carried out is closed on the way.
    fn start_over(mut self, why: Option<&str>) -> Decision {
        self.status.next_window = None;
        for index in 0..self.status.items.len() {
            draft::adopt_reached(&mut self, index);
        }
        if let Some(why) = why {
            self.notice(false, "Replanning", why);
        }
        let message = why.unwrap_or_else(|| conditions::message_of(Phase::Pending));
        self.enter(Phase::Pending, None, message);
        self.end(Todo::Again)
    }

    /// Does nothing at all, and says so.
    fn ignore(mut self) -> Decision {
        let profile = self.facts.profile.map(|profile| profile.about().impact);
        self.status.impact_severity = plan::worst(&self.status.items).or(profile);
        self.status.drift.clear();
        self.status.enforcement = None;
        self.status.next_window = None;
        for kind in [
            conditions::INPUT_DEPENDENCY_DRIFT,
            conditions::UPGRADE_AVAILABLE,
            conditions::PLAN_STALE,
            conditions::APPROVED,
        ] {
            self.clear(kind, "Ignored", "Not applicable - configuration is ignored");
        }
        self.observe();
        self.enter(Phase::Ignored, None, conditions::message_of(Phase::Ignored));
        if let Some(decision) = self.close_if_open() {
            return decision;
        }
        self.rest(None)
    }

    /// The entry of the history for the plan in the status, while it is not closed. It may have been written and its
    /// number not.
    fn open_entry(&self) -> Option<&'a Record> {
        self.facts.records.iter().find(|record| {
            record.outcome.is_none()
                && Some(&record.plan_digest) == self.status.plan_digest.as_ref()
        })
    }

    /// Whether the plan in the status is what would be approved now: what it is carried out under is part of it.
    ///
    /// A plan that was begun and rejected keeps its digest, although its entry of the history is closed: planned again
    /// it would have another one, and that would not be rejected.
    fn terms_hold(&self) -> bool {
        let mut records = self.facts.records.iter();
        let begun = records.find(|record| {
            Some(&record.plan_digest) == self.status.plan_digest.as_ref()
                && (record.outcome.is_none() || review::rejection(self).is_some())
        });
        let revision = begun.map_or_else(|| plan::next_revision(&self.facts), |it| it.revision);
        let terms = plan::terms(&self.facts, revision);
        let digest = crate::hash::plan_digest(&terms, &self.status.items);
        Some(&digest) == self.status.plan_digest.as_ref()
    }

    /// Notes what approvals the plan needs by the policies of now.
    fn note_requirements(&mut self) {
        let impact = plan::worst(&self.status.items).unwrap_or(Impact::Low);
        self.status.required_approvals = self.facts.floor().requirements(impact);
    }

    /// The record of the plan that is being carried out, or was last.
    fn record(&self) -> Option<&'a Record> {
        let last = || {
            let revision = self.status.revision?;
            let mut records = self.facts.records.iter();
            records.find(|record| record.revision == revision)
        };
        self.open_entry().or_else(last)
    }

    /// Adds to the history how the last plan ended, unless it says so already.
    fn close_if_open(&mut self) -> Option<Decision> {
        let record = self.record()?;
        if record.outcome.is_some() {
            return None;
        }
        let (revision, outcome) = (
            record.revision,
            execute::outcome(&self.status, self.facts.now),
        );
        Some(Decision {
            status: self.status.clone(),
            todo: Todo::Close(revision, outcome),
            notices: std::mem::take(&mut self.notices),
        })
    }

    /// Whether what the plan is made from has been edited.
    fn wants_another_plan(&self) -> bool {
        let spec = &self.facts.config.spec;
        spec.options.clone().unwrap_or_default()
            != self.status.applied_options.clone().unwrap_or_default()
    }

    /// An item whose state changes now.
    fn touch(&mut self, index: usize, change: impl FnOnce(&mut Item)) {
        let now = self.facts.now;
        if let Some(item) = self.status.items.get_mut(index) {
            let before = item.state;
            change(item);
            if item.state != before {
                item.last_transition_time =
                    Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now));
            }
        }
    }
}
