//! Inspections of images: which results a decision may use, when the next one starts, and when a gated pod stops
//! waiting.

#[cfg(test)]
mod tests;

use std::time::Duration;

use crate::images::{Inspection, Uninspectable};

/// First delay after a failed inspection; it doubles with every further failure.
///
/// With the default gate timeout of 10 s this makes about five attempts.
pub const FIRST_RETRY_DELAY: Duration = Duration::from_millis(500);
/// Upper bound of the delay, unless the registry asks for a longer one.
const MAX_RETRY_DELAY: Duration = Duration::from_secs(30);

/// The credentials with which admission inspects the images of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InspectionAccess {
    /// Those of the pod and of the nodes.
    PullSecrets,
    /// None, although the pod may have some.
    Anonymous,
}

impl InspectionAccess {
    /// An unverified caller chose the namespace of the review, and would learn from the response what the secrets of
    /// that namespace give access to. Images that need credentials stay unknown then, and the pod is gated for the
    /// controller, which reads the real pod.
    pub fn for_caller(verified: bool) -> Self {
        if verified {
            Self::PullSecrets
        } else {
            Self::Anonymous
        }
    }

    /// Whether the last error of a registry may be used: it may concern an image of another tenant.
    pub fn may_use_outages(self) -> bool {
        self == Self::PullSecrets
    }

    /// The result of an inspection, if it is final: an anonymous request that failed may succeed with pull secrets.
    pub fn usable(self, inspected: Result<Inspection, Uninspectable>) -> Option<Inspection> {
        match (inspected, self) {
            (Err(_), Self::Anonymous) => None,
            (inspected, _) => final_result(inspected),
        }
    }
}

/// The result of an inspection, unless a retry may yield another one.
pub fn final_result(inspected: Result<Inspection, Uninspectable>) -> Option<Inspection> {
    match inspected {
        Ok(known) => Some(known),
        Err(failure) => (!failure.transient).then_some(Inspection::Uninspectable(failure)),
    }
}

/// The state of a gated pod whose images are not all known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GateWait {
    /// How long the pod has been waiting.
    pub waited: Duration,
    /// Whether its images are being inspected.
    pub inspecting: bool,
    /// Remaining backoff after failed inspections.
    pub backoff: Duration,
}

/// Next action for a pod with unknown images.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextInspection {
    /// Inspect now; requeue after this delay at the latest.
    Now(Duration),
    /// An inspection is running or backing off; requeue after this delay at the latest.
    Later(Duration),
    /// The gate timeout has passed: decide without the missing platforms.
    TimedOut,
}

/// The next action for a gated pod. A pod waits no longer than the gate timeout, whatever the registry does.
pub fn next_inspection(wait: GateWait, gate_timeout: Duration) -> NextInspection {
    let left = gate_timeout.saturating_sub(wait.waited);
    // Before everything else: an inspection that hangs must not extend the wait.
    if left.is_zero() {
        NextInspection::TimedOut
    } else if wait.inspecting {
        NextInspection::Later(left)
    } else if wait.backoff.is_zero() {
        NextInspection::Now(left)
    } else {
        NextInspection::Later(left.min(wait.backoff))
    }
}

/// The delay before the next inspection, after this number of earlier ones. A longer `Retry-After` of the registry wins.
pub fn retry_delay(earlier: u32, retry_after: Duration) -> Duration {
    // 2^10 times the first delay is beyond the maximum; the limit keeps the shift in range.
    let doubled = FIRST_RETRY_DELAY.saturating_mul(1 << earlier.min(10));
    doubled.min(MAX_RETRY_DELAY).max(retry_after)
}

/// The result for an image that was not inspected within the gate timeout.
pub fn give_up(last_error: Option<&str>, gate_timeout: Duration) -> Inspection {
    let why = last_error.unwrap_or("the registry did not answer");
    Inspection::Uninspectable(Uninspectable {
        message: format!("{why} (gave up after {} s)", gate_timeout.as_secs()),
        transient: true,
    })
}
