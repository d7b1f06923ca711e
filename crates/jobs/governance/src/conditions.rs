//! Conditions: one for every phase, of which exactly one is true, and some that are independent of the phase.
//!
//! Types, reasons and messages are those of the prototype that users know. Unlike there, a condition never outlives its
//! phase, and `lastTransitionTime` changes only with the status, as `metav1.Condition` defines it.

use std::borrow::Cow;

use api::advisor::Phase;
use api::reasons::has_condition;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use crate::reasons::CONDITIONS;

/// This version of the operator plans differently.
pub const UPGRADE_AVAILABLE: &str = "UpgradeAvailable";
/// An input of the plan has changed.
pub const INPUT_DEPENDENCY_DRIFT: &str = "InputDependencyDrift";
/// All prerequisites of the profile are installed.
pub const PREREQUISITES_MET: &str = "PrerequisitesMet";
/// Targets have changed since the plan was generated.
pub const PLAN_STALE: &str = "PlanStale";
/// Other controllers set fields that the plan changes.
pub const CONTESTED: &str = "Contested";
/// The desired state of the profile is in force.
pub const PROFILE_ACTIVE: &str = "ProfileActive";
/// The plan may be applied.
pub const APPROVED: &str = "Approved";
/// The operators of the targets report that what is in force works.
pub const HEALTHY: &str = "Healthy";

/// Maximum length of a message. The CRD allows 32768, but the conditions of all other phases repeat a failure, and the
/// object has to stay below the size limit of etcd.
const MAX_MESSAGE_CHARS: usize = 4096;

/// Truncates a message to the maximum length.
pub fn truncate_message(message: &str) -> Cow<'_, str> {
    if message.chars().nth(MAX_MESSAGE_CHARS).is_none() {
        return Cow::Borrowed(message);
    }
    let kept = message.chars().take(MAX_MESSAGE_CHARS - 1);
    Cow::Owned(kept.chain(['…']).collect())
}

/// Sets one condition and leaves the others. A message that is too long is truncated.
pub fn set(
    conditions: &mut Vec<Condition>,
    kind: &str,
    status: bool,
    reason: &str,
    message: &str,
    at: &Observation,
) {
    let status = if status { "True" } else { "False" };
    set_status(conditions, kind, status, reason, message, at);
}

/// As [`set`], for conditions that may also be `Unknown`.
pub fn set_status(
    conditions: &mut Vec<Condition>,
    kind: &str,
    status: &str,
    reason: &str,
    message: &str,
    at: &Observation,
) {
    debug_assert!(
        has_condition(CONDITIONS, kind, status, reason),
        "{kind}={status} {reason} is not explained in reasons.rs"
    );
    let message = truncate_message(message);
    let known = conditions
        .iter_mut()
        .find(|condition| condition.type_ == kind);
    match known {
        Some(condition) => {
            if condition.status != status {
                status.clone_into(&mut condition.status);
                condition.last_transition_time = Time(at.now);
            }
            reason.clone_into(&mut condition.reason);
            condition.message = message.into_owned();
            condition.observed_generation = at.generation;
        }
        None => conditions.push(Condition {
            type_: kind.to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message: message.into_owned(),
            last_transition_time: Time(at.now),
            observed_generation: at.generation,
        }),
    }
}

/// Whether a condition is true.
pub fn is_true(conditions: &[Condition], kind: &str) -> bool {
    conditions
        .iter()
        .any(|condition| condition.type_ == kind && condition.status == "True")
}

/// A condition by its type.
pub fn get<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == kind)
}

/// Time and generation of an observation.
#[derive(Debug, Clone, Copy)]
pub struct Observation {
    /// The current time.
    pub now: Timestamp,
    /// The observed generation.
    pub generation: Option<i64>,
}

/// Sets the conditions of all phases for a new phase.
///
/// `reason` overrides the default reason of the phase (`PlanStale` for Failed).
pub fn enter(
    conditions: &mut Vec<Condition>,
    phase: Phase,
    reason: Option<&str>,
    message: &str,
    at: &Observation,
) {
    // All of them in one write: a reader that waits for a condition never sees two phases true, or none.
    for other in Phase::ALL {
        if other == phase {
            let reason = reason.unwrap_or_else(|| reason_of(phase));
            set(conditions, phase.as_str(), true, reason, message, at);
        } else {
            let (reason, message) = condition_of_other_phase(phase, other, message);
            set(conditions, other.as_str(), false, reason, message, at);
        }
    }
    let (active, reason, message) = active(phase, message);
    set(conditions, PROFILE_ACTIVE, active, reason, message, at);
}

/// The reason of the condition of the phase itself.
fn reason_of(phase: Phase) -> &'static str {
    match phase {
        Phase::Drifted => "DriftDetected",
        other => other.as_str(),
    }
}

/// The default message of a phase.
pub fn message_of(phase: Phase) -> &'static str {
    match phase {
        Phase::Pending => "Waiting for a plan to be made",
        Phase::Drafting => "Generating plan from profile",
        Phase::PrerequisiteFailed => "Prerequisites are not met",
        Phase::ReviewRequired => "Plan ready for review. Change action to 'Apply' to execute.",
        Phase::InProgress => "Applying plan configuration",
        Phase::Completed => "Configuration successfully applied and in sync",
        Phase::CompletedWithErrors => "Plan completed but some items failed",
        Phase::CompletedWithUpgrade => {
            "Configuration in sync, but this version of the operator would plan differently. Change action to 'DryRun' to review."
        }
        Phase::Failed => "Plan failed",
        Phase::Drifted => "Configuration has drifted from desired state",
        Phase::Ignored => {
            "Configuration is ignored - no management actions will be performed. Resources remain in their current state and are now under manual control. Change action to 'DryRun' or 'Apply' to resume operator management."
        }
    }
}

/// Reason and message of the condition of `other` while in `phase`.
fn condition_of_other_phase(phase: Phase, other: Phase, message: &str) -> (&'static str, &str) {
    use Phase::{
        Completed, CompletedWithErrors, Drafting, Drifted, Failed, Ignored, InProgress,
        PrerequisiteFailed, ReviewRequired,
    };
    match (phase, other) {
        (Ignored, _) => ("Ignored", "Not applicable - configuration is ignored"),
        (_, Ignored) => ("NotIgnored", "Configuration is being managed"),
        (PrerequisiteFailed, _) => ("PrerequisitesFailed", message),
        (Failed, _) => ("Failed", message),
        (InProgress, _) => ("InProgress", "Plan is being applied"),
        (Completed, PrerequisiteFailed) => ("Completed", "All prerequisites met"),
        (Completed, Failed) => ("Completed", "No failures occurred"),
        (Completed | CompletedWithErrors, InProgress) => {
            ("NotInProgress", "Plan application completed")
        }
        (_, InProgress) => ("NotInProgress", "Plan is not being applied"),
        (Drifted, Completed) => (
            "ConfigurationDrifted",
            "Configuration is no longer in sync - drift detected",
        ),
        (CompletedWithErrors, Completed) => (
            "CompletedWithErrors",
            "Plan completed but some items failed",
        ),
        (_, Drifted) => ("NoDrift", "Configuration is in sync with desired state"),
        (_, Drafting) => ("NotDrafting", "Plan generation completed"),
        (_, Completed) => ("NotCompleted", "Plan not yet applied"),
        (_, ReviewRequired) => ("NotReviewRequired", "No plan waits for review"),
        _ => (phase.as_str(), message_of(phase)),
    }
}

/// The ProfileActive condition.
fn active(phase: Phase, message: &str) -> (bool, &'static str, &str) {
    match phase {
        Phase::Completed => (true, "Completed", message_of(Phase::Completed)),
        Phase::CompletedWithUpgrade => (
            true,
            "UpgradeAvailable",
            message_of(Phase::CompletedWithUpgrade),
        ),
        Phase::Drifted => (false, "DriftDetected", message),
        Phase::Ignored => (
            false,
            "Ignored",
            "Not applicable - configuration is ignored",
        ),
        other => (false, other.as_str(), message),
    }
}

#[cfg(test)]
mod tests;
