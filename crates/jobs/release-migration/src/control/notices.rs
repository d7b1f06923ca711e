//! Events for changes since the last reconcile.

use api::reasons::has_event;
use api::release::ReleasePolicyStatus;
use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use machinery::time::human_duration;

use super::rows::ARRIVED;
use crate::reasons::EVENTS;

/// An event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// Whether it is a Warning event.
    pub warning: bool,
    /// CamelCase reason.
    pub reason: String,
    /// Event message.
    pub message: String,
}

/// The events between two statuses. A state that existed before the first reconcile emits none.
pub(super) fn notices(before: &ReleasePolicyStatus, now: &ReleasePolicyStatus) -> Vec<Notice> {
    let mut all = Vec::new();
    let mut push_event = |warning: bool, reason: &str, message: &str| {
        debug_assert!(
            has_event(EVENTS, reason, warning),
            "the event {reason} is not explained in reasons.rs"
        );
        all.push(Notice {
            warning,
            reason: reason.to_owned(),
            message: message.to_owned(),
        });
    };
    // On an installation of Medley, releases that were complete long ago are no events.
    let first = before.conditions.is_empty();
    let image = |status: &ReleasePolicyStatus| status.target.as_ref().map(|it| it.image.clone());
    let same = image(before) == image(now);
    if let Some(target) = now.target.as_ref().filter(|_| !same && !first) {
        let message = format!(
            "the cluster is on its way to {} ({}): {}",
            target.version,
            target.change.as_deref().unwrap_or_default(),
            target.image
        );
        push_event(false, "ReleaseStarted", &message);
    }
    if same {
        for row in now.operators.iter().filter(|it| it.state == ARRIVED) {
            let old = before.operators.iter().find(|it| it.name == row.name);
            if let Some(old) = old.filter(|it| !it.undone.is_empty()) {
                let took = history_of(now, &row.name).filter(|_| old.waiting_since.is_some());
                let took = took.map(|it| format!(" after {}", human_duration(it)));
                let message = format!("{} has arrived{}", row.name, took.unwrap_or_default());
                push_event(false, "OperatorArrived", &message);
            }
        }
    }
    for condition in &now.conditions {
        let old = find(before, &condition.type_);
        let is_same = old.is_some_and(|old| {
            (&old.status, &old.reason) == (&condition.status, &condition.reason)
        });
        if is_same {
            continue;
        }
        let (status, message) = (condition.status.as_str(), condition.message.as_str());
        match (condition.type_.as_str(), status, condition.reason.as_str()) {
            ("Complete", "True", _) if !first => push_event(false, "ReleaseComplete", message),
            ("Agrees", "False", "ClaimedEarly") => push_event(true, "ClaimedEarly", message),
            ("Failing", "True", _) => push_event(true, "ReleaseFailing", message),
            ("Failing", "Unknown", reason @ "SlowClusterOperator")
            | ("PayloadReady", "False", reason)
            | ("KeepsClusterVersion", "False", reason @ ("ForeignOwner" | "Forbidden")) => {
                push_event(true, reason, message);
            }
            _ => {}
        }
    }
    all
}

fn find<'a>(status: &'a ReleasePolicyStatus, kind: &str) -> Option<&'a Condition> {
    status.conditions.iter().find(|it| it.type_ == kind)
}

/// The latest recorded duration of an operator.
fn history_of(status: &ReleasePolicyStatus, name: &str) -> Option<SignedDuration> {
    let entry = status.history.iter().find(|it| it.operator == name)?;
    let took = entry.took_seconds.first()?;
    Some(SignedDuration::from_secs(*took))
}
