//! The state machine of a configuration.
//!
//! ```text
//! Pending --> Drafting --> ReviewRequired --> InProgress --> Completed <--> Drifted
//!    ^           |  \_____________________________^  |            \__ CompletedWithUpgrade
//!    |           v                                   v
//!    `-- PrerequisiteFailed                    Failed, CompletedWithErrors
//! ```
//!
//! The state is the status of the object, and nothing else: killed at any point, the operator resumes from the status.
//! [`decide`] computes the next status, the next step and the time to requeue from all inputs. The result of the step
//! is reported back ([`drafted`], [`recorded`], [`executed`]), which yields the next status.

mod apply_item;
mod batch;
mod diffs;
mod draft;
mod drift;
mod execute;
mod in_flight;
mod retrying;
mod review;
#[cfg(test)]
pub(crate) mod tests;
mod wellbeing;

use api::advisor::{Action, Impact, Item, Phase, VirtPlatformConfig, VirtPlatformConfigStatus};
use jiff::{SignedDuration, Timestamp};

pub use apply_item::{ItemExecution, MAX_ATTEMPTS};
pub use batch::{Batch, Following};
pub use draft::drafted;
pub use execute::{Execution, Result as Executed, executed, recorded};
use execute::{Lock, lock};
pub use in_flight::{held, probes};

use crate::approval::{Floor, Policy};
use crate::conditions::{self, Observation};
use crate::plan::{self, Draft};
use crate::profile::Profile;
use crate::record::{self, Outcome, PlanResult, Record};
use crate::recorder::Recorder;
use crate::snapshot::Snapshot;

/// Requeue interval while kinds are missing, in case no watch event arrives (the seed's 5 min).
const MISSING_KIND_REQUEUE: SignedDuration = SignedDuration::from_mins(5);
/// Requeue interval while a kind cannot be read. A reflector retries every ten seconds, and an empty list that succeeds at
/// last notifies no watcher.
const UNREADABLE_KIND_REQUEUE: SignedDuration = SignedDuration::from_secs(30);

/// The inputs of a decision.
#[derive(Clone, Copy)]
pub struct DecisionInputs<'a> {
    /// The configuration, as read.
    pub config: &'a VirtPlatformConfig,
    /// Its profile, if it exists.
    pub profile: Option<&'a dyn Profile>,
    /// The live objects.
    pub snapshot: &'a Snapshot,
    /// The history of the configuration.
    pub records: &'a [Record],
    /// All ApprovalPolicies of the cluster.
    pub policies: &'a [Policy],
    /// Whether admission records approvals.
    pub recorder: &'a Recorder,
    /// The version of this operator.
    pub version: &'a str,
    /// The current time.
    pub now: Timestamp,
}

impl DecisionInputs<'_> {
    /// The status, empty if there is none yet.
    pub fn status(&self) -> VirtPlatformConfigStatus {
        self.config.status.clone().unwrap_or_default()
    }

    /// The revision to roll back to, if requested and not done yet.
    pub fn rollback(&self) -> Option<i64> {
        let done = self
            .config
            .status
            .as_ref()
            .and_then(|status| status.rolled_back_to);
        self.config
            .spec
            .rollback_to
            .filter(|requested| Some(*requested) != done)
    }

    /// The policies that select this configuration.
    pub fn floor(&self) -> Floor {
        Floor::of(self.policies, &self.config.spec)
    }

    fn moment(&self) -> Observation {
        Observation {
            now: self.now,
            generation: self.config.metadata.generation,
        }
    }

    /// Whether the spec changed since the status was written.
    fn spec_changed(&self) -> bool {
        let observed = self
            .config
            .status
            .as_ref()
            .and_then(|status| status.observed_generation);
        observed != self.config.metadata.generation
    }
}

/// The next status and step.
#[derive(Debug, Clone)]
pub struct Decision {
    /// The next status. It is written before the step is taken.
    pub status: VirtPlatformConfigStatus,
    /// The next step.
    pub todo: NextStep,
    /// The events to emit.
    pub notices: Vec<Notice>,
}

/// The next step.
#[derive(Debug, Clone)]
pub enum NextStep {
    /// None, until a watch event or this time.
    Rest(Option<Timestamp>),
    /// Decide again with the new status.
    Again,
    /// Dry-run each item against the API server, then call [`drafted`].
    Preview(Draft),
    /// Write this history entry, then call [`recorded`].
    Record(Box<Record>),
    /// Write the outcome of a revision into the history, then decide again.
    Close(i64, Outcome),
    /// Execute an item, then call [`executed`].
    Execute(Box<Execution>),
}

/// An event to emit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// Whether it is a Warning event.
    pub warning: bool,
    /// CamelCase reason.
    pub reason: String,
    /// Event message.
    pub message: String,
}

/// Computes the next status and step from the phase in the status.
pub fn decide(facts: &DecisionInputs<'_>) -> Decision {
    let mut decider = Decider::new(*facts);
    if let Some(decision) = decider.close_abandoned() {
        return decision;
    }
    // Before the phase: Ignore ends every phase, also a plan in progress. Items that were written stay as they are.
    if facts.config.spec.action == Action::Ignore {
        return decider.ignore();
    }
    if let Err(problem) = plan::readable(facts) {
        return draft::blind(decider, &problem);
    }
    decider.note_readable();
    match decider.status.phase {
        // Nothing was watched while the configuration was ignored: no earlier plan can be trusted to describe the
        // targets.
        None | Some(Phase::Ignored) => decider.start_over(None),
        Some(Phase::Pending) => draft::prepare(decider),
        Some(Phase::Drafting) => draft::begin(decider),
        Some(Phase::PrerequisiteFailed) => draft::recheck_prerequisites(decider),
        Some(Phase::ReviewRequired) => review::review_plan(decider),
        Some(Phase::InProgress) => execute::resume(decider),
        Some(
            Phase::Completed
            | Phase::CompletedWithErrors
            | Phase::CompletedWithUpgrade
            | Phase::Drifted
            | Phase::Failed,
        ) => drift::watch(decider),
    }
}

/// A decision under construction.
struct Decider<'a> {
    facts: DecisionInputs<'a>,
    status: VirtPlatformConfigStatus,
    notices: Vec<Notice>,
}

impl<'a> Decider<'a> {
    fn new(facts: DecisionInputs<'a>) -> Self {
        Self {
            facts,
            status: facts.status(),
            notices: Vec::new(),
        }
    }

    /// Enters a phase, or updates the message of the current one.
    fn enter(&mut self, phase: Phase, reason: Option<&str>, message: &str) {
        // An event marks the change of a phase only. The message of a phase changes with every node that a rollout
        // updates, and each new text would be an event of its own.
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
        // An undocumented reason fails the test that causes it; it must not stop an operator in production.
        debug_assert!(
            api::reasons::has_event(crate::reasons::EVENTS, reason, warning),
            "the event {reason} is not explained in reasons.rs"
        );
        self.notices.push(Notice {
            warning,
            reason: reason.to_owned(),
            message: message.to_owned(),
        });
    }

    /// Sets a condition that is independent of the phase.
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

    /// Sets a condition to false, if it is true.
    fn clear(&mut self, kind: &str, reason: &str, message: &str) {
        if conditions::is_true(&self.status.conditions, kind) {
            self.condition(kind, false, reason, message);
        }
    }

    /// Marks the current generation as observed.
    fn observe(&mut self) {
        self.status.observed_generation = self.facts.config.metadata.generation;
    }

    /// An edit of the spec acknowledges a changed input.
    fn acknowledge(&mut self) {
        self.clear(
            conditions::INPUT_DEPENDENCY_DRIFT,
            "Acknowledged",
            "The change of an input was acknowledged by an edit of the specification",
        );
        self.status.enforcement = crate::enforcement::resumed();
    }

    fn rest(mut self, wake: Option<Timestamp>) -> Decision {
        let again = self.note_health();
        self.end(NextStep::Rest(wake.into_iter().chain(again).min()))
    }

    fn end(self, todo: NextStep) -> Decision {
        Decision {
            status: self.status,
            todo,
            notices: self.notices,
        }
    }

    /// Continues in another phase.
    fn move_to(mut self, phase: Phase) -> Decision {
        self.enter(phase, None, conditions::message_of(phase));
        self.end(NextStep::Again)
    }

    /// Plans from scratch. The history entry of a plan in progress is closed first.
    fn start_over(mut self, why: Option<&str>) -> Decision {
        self.status.next_window = None;
        self.status.retry = None;
        // The items are replaced by those of the new plan. One that reached its target just before a kill would be lost
        // with them: neither drift nor a later removal would know about it.
        for index in 0..self.status.items.len() {
            draft::adopt_reached(&mut self, index);
        }
        if let Some(why) = why {
            self.notice(false, "Replanning", why);
        }
        let message = why.unwrap_or_else(|| conditions::message_of(Phase::Pending));
        self.enter(Phase::Pending, None, message);
        self.end(NextStep::Again)
    }

    /// Enters phase Ignored: nothing is managed.
    fn ignore(mut self) -> Decision {
        let profile = self.facts.profile.map(|profile| profile.about().impact);
        self.status.impact_severity = plan::worst(&self.status.items).or(profile);
        self.status.drift.clear();
        self.status.enforcement = None;
        self.status.next_window = None;
        self.status.retry = None;
        self.ignore_health();
        for kind in [
            conditions::INPUT_DEPENDENCY_DRIFT,
            conditions::UPGRADE_AVAILABLE,
            conditions::PLAN_STALE,
            conditions::CONTESTED,
            conditions::APPROVED,
        ] {
            self.clear(kind, "Ignored", "Not applicable - configuration is ignored");
        }
        self.observe();
        self.enter(Phase::Ignored, None, conditions::message_of(Phase::Ignored));
        // After `enter`: `execute::outcome` derives the result from the phase, and here it has to be Superseded.
        if let Some(decision) = self.close_if_open() {
            return decision;
        }
        self.end(NextStep::Rest(None))
    }

    /// The open history entry of the plan in status. The entry may exist although its number was not yet written to the
    /// status.
    fn open_entry(&self) -> Option<&'a Record> {
        let mut records = self.facts.records.iter();
        records.find(|record| {
            (record.outcome.is_none() || self.is_tried_again(record))
                && Some(&record.plan_digest) == self.status.plan_digest.as_ref()
        })
    }

    /// Whether an entry is of the plan that failed and is tried again. It has the outcome of the last attempt: an entry
    /// without one would stay open for as long as the cause of the failure is not repaired.
    fn is_tried_again(&self, record: &Record) -> bool {
        self.status.retry.is_some()
            && self.status.revision == Some(record.revision)
            && record.outcome.as_ref().is_some_and(|outcome| {
                matches!(
                    outcome.result,
                    PlanResult::Failed | PlanResult::CompletedWithErrors
                )
            })
    }

    /// Closes an entry that no plan continues: its configuration was deleted and created again, or the status lost.
    fn close_abandoned(&mut self) -> Option<Decision> {
        // The first status is written with its phase.
        self.status.phase?;
        let current = (self.status.revision, self.status.plan_digest.as_deref());
        let revision = record::abandoned(self.facts.records, current)?;
        let outcome = record::superseded("Another plan took its place", self.facts.now);
        Some(Decision {
            status: self.status.clone(),
            todo: NextStep::Close(revision, outcome),
            notices: Vec::new(),
        })
    }

    /// All kinds can be read, maybe again.
    fn note_readable(&mut self) {
        let met = conditions::get(&self.status.conditions, conditions::PREREQUISITES_MET);
        if met.is_some_and(|met| met.reason == "KindUnreadable")
            && self.status.phase != Some(Phase::PrerequisiteFailed)
        {
            self.condition(
                conditions::PREREQUISITES_MET,
                true,
                "AllDependenciesFound",
                "All prerequisites of the profile are installed",
            );
        }
    }

    /// Whether the plan in status is the one that would be approved now: the conditions of its execution are part of
    /// the digest.
    ///
    /// A plan that was begun and rejected keeps its digest although its history entry is closed: a new plan would have
    /// another digest, which is not rejected.
    fn terms_hold(&self) -> bool {
        let mut records = self.facts.records.iter();
        let begun = records.find(|record| {
            Some(&record.plan_digest) == self.status.plan_digest.as_ref()
                && (record.outcome.is_none()
                    || self.is_tried_again(record)
                    || review::rejection(self).is_some())
        });
        let revision = begun.map_or_else(|| plan::next_revision(&self.facts), |it| it.revision);
        let terms = plan::terms(&self.facts, revision);
        let digest = crate::hash::plan_digest(&terms, &self.status.items);
        Some(&digest) == self.status.plan_digest.as_ref()
    }

    /// Sets the required approvals according to the current policies.
    fn note_requirements(&mut self) {
        let impact = plan::worst(&self.status.items).unwrap_or(Impact::Low);
        self.status.required_approvals = self.facts.floor().requirements(impact);
    }

    /// The history entry of the current or latest plan.
    fn record(&self) -> Option<&'a Record> {
        let last = || {
            let revision = self.status.revision?;
            let mut records = self.facts.records.iter();
            records.find(|record| record.revision == revision)
        };
        // By digest first: after a kill between writing the entry and writing the status, `status.revision` is still
        // that of the plan before.
        self.open_entry().or_else(last)
    }

    /// Writes the outcome of the latest plan into the history, unless it is there already.
    fn close_if_open(&mut self) -> Option<Decision> {
        let record = self.record()?;
        let (revision, outcome) = (
            record.revision,
            execute::outcome(&self.status, self.facts.now),
        );
        // A later attempt that got further replaces the outcome of the one before.
        let improves = |known: &Outcome| {
            self.is_tried_again(record)
                && known.result != outcome.result
                && matches!(
                    outcome.result,
                    PlanResult::Completed | PlanResult::CompletedWithErrors
                )
        };
        if record
            .outcome
            .as_ref()
            .is_some_and(|known| !improves(known))
        {
            return None;
        }
        Some(Decision {
            status: self.status.clone(),
            todo: NextStep::Close(revision, outcome),
            notices: std::mem::take(&mut self.notices),
        })
    }

    /// Whether the fields that the plan is derived from have been edited.
    fn wants_another_plan(&self) -> bool {
        // All options are compared, unlike `optionsChanged` in the prototype's virtplatformconfig_controller.go, which
        // compares three fields: an edit of any other option had no effect there. Absent and empty options request the
        // same plan.
        let spec = &self.facts.config.spec;
        spec.options.clone().unwrap_or_default()
            != self.status.applied_options.clone().unwrap_or_default()
    }

    /// Changes an item and its transition time.
    fn touch(&mut self, index: usize, change: impl FnOnce(&mut Item)) {
        let now = self.facts.now;
        if let Some(item) = self.status.items.get_mut(index) {
            let before = item.state;
            change(item);
            // Only with the state: `spec.waitTimeout` counts from this time, and a new message must not extend it.
            if item.state != before {
                item.last_transition_time =
                    Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now));
            }
        }
    }
}
