//! The condition `Healthy`: what the operators of the targets report for as long as a configuration is in force.
//!
//! The phase says whether what was approved is applied; this condition says whether it works. It never changes the phase.

use std::collections::BTreeSet;

use api::advisor::{ItemState, TargetRef};
use jiff::{SignedDuration, Timestamp};
use kube_core::DynamicObject;

use super::{Decider, execute};
use crate::conditions::{self, HEALTHY};
use crate::health::Health;

/// How long an operator may process an edit of its object before the condition says so: every edit by another manager would
/// be two events otherwise, although nothing is wrong.
const PROCESSING_GRACE: SignedDuration = SignedDuration::from_mins(1);

/// Targets that a message names. A plan may have a thousand.
const MAX_NAMED: usize = 5;

impl Decider<'_> {
    /// Sets the condition from the current reports. Before anything is in force, there is none. Returns when to look
    /// again, if that does not depend on another report.
    pub(super) fn note_health(&mut self) -> Option<Timestamp> {
        if self.status.applied.is_empty() {
            if conditions::get(&self.status.conditions, HEALTHY).is_some() {
                self.set_health("Unknown", "NothingInForce", "Nothing is in force");
            }
            return None;
        }
        let mut again = None;
        let (status, reason, message) = self.judge(&mut again);
        self.set_health(status, reason, &message);
        again
    }

    /// The configuration is ignored: nothing is watched.
    pub(super) fn ignore_health(&mut self) {
        if conditions::get(&self.status.conditions, HEALTHY).is_some() {
            let message = "Not applicable - configuration is ignored";
            self.set_health("Unknown", "Ignored", message);
        }
    }

    /// Status, reason and message of the condition. `again` becomes the time when an operator that still processes an edit
    /// should be done.
    fn judge(&self, again: &mut Option<Timestamp>) -> (&'static str, &'static str, String) {
        let was_healthy = conditions::is_true(&self.status.conditions, HEALTHY);
        let snapshot = self.facts.snapshot;
        let items = self.status.items.iter();
        let in_progress: BTreeSet<&TargetRef> = items
            .filter(|item| item.state == ItemState::InProgress)
            .map(|item| &item.target_ref)
            .collect();
        let (mut faults, mut changing, mut unseen) = (Vec::new(), Vec::new(), Vec::new());
        for applied in &self.status.applied {
            let target = &applied.target_ref;
            if let Some(why) = snapshot.unreadable_target(target) {
                unseen.push(format!("{} cannot be read: {why}", target.kind));
                continue;
            }
            if snapshot.kind_of(target).is_none() {
                unseen.push(format!("{} is not installed", target.kind));
                continue;
            }
            let live = snapshot.target(target).map(|live| &**live);
            match execute::reported_health(&self.facts, &applied.name, target) {
                Health::Healthy(_) => {}
                Health::Unseen { why, .. } => unseen.push(why),
                Health::Failed(message) | Health::Waiting { message, fault: true, .. }
                    // A rollout that has just begun is no fault, whatever its Deployment reports meanwhile.
                    if !in_progress.contains(target) =>
                {
                    faults.push(format!("{}: {message}", applied.name));
                }
                Health::Waiting { .. } if was_healthy && in_grace(live, self.facts.now).is_some() => {
                    let until = in_grace(live, self.facts.now);
                    *again = (*again).into_iter().chain(until).min();
                }
                Health::Waiting { message, .. } | Health::Failed(message) => {
                    changing.push(format!("{}: {message}", applied.name));
                }
            }
        }
        if !faults.is_empty() {
            return ("False", "Degraded", listed(&faults));
        }
        if !changing.is_empty() {
            return ("Unknown", "Progressing", listed(&changing));
        }
        if !unseen.is_empty() {
            return ("Unknown", "NotReported", listed(&unseen));
        }
        let message = "The operators of all targets report that what is in force works";
        ("True", "AsReported", message.to_owned())
    }

    fn set_health(&mut self, status: &str, reason: &str, message: &str) {
        let known = conditions::get(&self.status.conditions, HEALTHY);
        // An event marks a transition: not the first report, and not another message.
        if known.is_some_and(|known| known.status != status) {
            match status {
                "True" => self.notice(false, "Healthy", message),
                "False" => self.notice(true, "Unhealthy", message),
                _ => self.notice(false, "HealthUnknown", message),
            }
        }
        let moment = self.facts.moment();
        conditions::set_status(
            &mut self.status.conditions,
            HEALTHY,
            status,
            reason,
            message,
            &moment,
        );
    }
}

/// Until when an operator may process the last edit of its object, if that is in the future.
fn in_grace(live: Option<&DynamicObject>, now: Timestamp) -> Option<Timestamp> {
    let until = last_write(live?)?.checked_add(PROCESSING_GRACE).ok()?;
    (until > now).then_some(until)
}

/// When the object was last written, apart from its status.
fn last_write(live: &DynamicObject) -> Option<Timestamp> {
    let entries = live.metadata.managed_fields.iter().flatten();
    let entries = entries.filter(|entry| entry.subresource.is_none());
    entries
        .filter_map(|entry| entry.time.as_ref().map(|time| time.0))
        .max()
}

/// The first findings without duplicates, and the number of the others.
fn listed(findings: &[String]) -> String {
    let mut named: Vec<&str> = Vec::new();
    let mut seen = BTreeSet::new();
    let distinct = findings
        .iter()
        .filter(|finding| seen.insert(finding.as_str()));
    let distinct: Vec<&String> = distinct.collect();
    named.extend(
        distinct
            .iter()
            .take(MAX_NAMED)
            .map(|finding| finding.as_str()),
    );
    let text = named.join("; ");
    match distinct.len().saturating_sub(MAX_NAMED) {
        0 => text,
        more => format!("{text}; and {more} more"),
    }
}
