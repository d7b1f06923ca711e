//! The state of a pod, as controllers read it.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Pod, PodCondition};

/// The phase of a pod, by default `Pending`.
pub(crate) fn phase(pod: &Pod) -> &str {
    let phase = pod.status.as_ref().and_then(|it| it.phase.as_deref());
    phase.unwrap_or("Pending")
}

/// The node of a pod, once it is scheduled.
pub(crate) fn node_name(pod: &Pod) -> Option<&str> {
    let name = pod.spec.as_ref()?.node_name.as_deref();
    name.filter(|name| !name.is_empty())
}

/// Whether a pod has terminated for good.
pub(crate) fn is_terminal(pod: &Pod) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}

/// Whether a pod is neither terminated nor being deleted.
pub(crate) fn is_active(pod: &Pod) -> bool {
    !is_terminal(pod) && pod.metadata.deletion_timestamp.is_none()
}

/// Whether a pod is being deleted and has not terminated yet.
pub(crate) fn is_terminating(pod: &Pod) -> bool {
    !is_terminal(pod) && pod.metadata.deletion_timestamp.is_some()
}

/// Whether a pod's `Ready` condition is true.
pub(crate) fn is_ready(pod: &Pod) -> bool {
    ready_condition(pod).is_some()
}

/// Whether a pod has been ready for long enough.
pub(crate) fn is_available(pod: &Pod, min_ready_seconds: i32, now: Timestamp) -> bool {
    is_ready(pod)
        && (min_ready_seconds == 0
            || available_at(pod, min_ready_seconds).is_some_and(|at| at <= now))
}

/// Time until a ready pod is available, if only time is missing.
pub(crate) fn available_in(pod: &Pod, min_ready_seconds: i32, now: Timestamp) -> Option<Duration> {
    let wait = available_at(pod, min_ready_seconds)?.duration_since(now);
    (wait > SignedDuration::ZERO).then(|| wait.unsigned_abs())
}

/// Since when a pod is ready.
pub(crate) fn ready_since(pod: &Pod) -> Option<Timestamp> {
    Some(ready_condition(pod)?.last_transition_time.as_ref()?.0)
}

fn available_at(pod: &Pod, min_ready_seconds: i32) -> Option<Timestamp> {
    ready_since(pod)?
        .checked_add(SignedDuration::from_secs(min_ready_seconds.into()))
        .ok()
}

fn ready_condition(pod: &Pod) -> Option<&PodCondition> {
    let mut conditions = pod.status.as_ref()?.conditions.iter().flatten();
    conditions.find(|condition| condition.type_ == "Ready" && condition.status == "True")
}
