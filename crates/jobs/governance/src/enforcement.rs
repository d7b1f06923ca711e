//! Limits corrections of drift when locks are bypassed, to avoid endless edit conflicts.
//!
//! At most five corrections per minute. A sixth one waits for a minute; after three such waits another manager
//! evidently keeps reverting, and correction pauses until a user edits the spec. An exponential backoff instead would
//! only make the alert flap.

#[cfg(test)]
mod tests;

use api::advisor::Enforcement;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// Maximum number of corrections within [`PERIOD`].
pub const CORRECTIONS: usize = 5;
/// The window in which [`CORRECTIONS`] are counted, and the wait once they are used up.
pub const PERIOD: SignedDuration = SignedDuration::from_mins(1);
/// Number of consecutive waits after which correction pauses.
///
/// virt-platform-autopilot pauses after as many (`ThrashingThreshold` in pkg/throttling/thrashing_detector.go).
pub const EXHAUSTIONS: u32 = 3;
/// Time without a correction after which the state is reset.
pub const RESET_AFTER: SignedDuration = SignedDuration::from_hours(1);

/// How to handle drift.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CorrectionVerdict {
    /// Correct it.
    Correct,
    /// Do not correct it before this time.
    Wait(Timestamp),
    /// Stop correcting: the limit is reached now, and a warning event is emitted.
    Pause,
    /// Do not correct it: correction is already paused.
    Paused,
}

/// Decides about current drift and returns the new state. `against` is the manager of the drifted fields.
pub fn correct(
    enforcement: Option<&Enforcement>,
    now: Timestamp,
    against: Option<&str>,
) -> (Enforcement, CorrectionVerdict) {
    let mut next = enforcement.cloned().unwrap_or_default();
    if next.paused {
        return (next, CorrectionVerdict::Paused);
    }
    if next.wait_until.as_ref().is_none_or(|until| until.0 <= now) && forgotten(&next, now) {
        next = Enforcement::default();
    }
    if let Some(manager) = against {
        next.against = Some(manager.to_owned());
    }
    if let Some(until) = &next.wait_until {
        if now < until.0 {
            let until = until.0;
            return (next, CorrectionVerdict::Wait(until));
        }
        next.wait_until = None;
    }
    let recent = next
        .corrections
        .iter()
        .filter(|correction| now.duration_since(correction.0) < PERIOD)
        .count();
    if recent < CORRECTIONS {
        next.corrections.push(Time(whole(now)));
        // Older ones do not affect the limit.
        let surplus = next.corrections.len().saturating_sub(CORRECTIONS);
        next.corrections.drain(..surplus);
        return (next, CorrectionVerdict::Correct);
    }
    next.exhaustions = next.exhaustions.saturating_add(1);
    if next.exhaustions >= EXHAUSTIONS {
        next.paused = true;
        return (next, CorrectionVerdict::Pause);
    }
    let until = whole(now).checked_add(PERIOD).unwrap_or(Timestamp::MAX);
    next.wait_until = Some(Time(until));
    (next, CorrectionVerdict::Wait(until))
}

/// The state while nothing has drifted: reset after a quiet hour. The other manager has stopped, so a pause ends as
/// well.
pub fn settled(enforcement: &Enforcement, now: Timestamp) -> Option<Enforcement> {
    (!forgotten(enforcement, now)).then(|| enforcement.clone())
}

/// The state after an edit of the spec: reset, since a user has intervened.
pub fn resumed() -> Option<Enforcement> {
    None
}

/// Whether the last correction is too old to count.
fn forgotten(enforcement: &Enforcement, now: Timestamp) -> bool {
    enforcement
        .corrections
        .iter()
        .all(|correction| now.duration_since(correction.0) >= RESET_AFTER)
}

/// Rounds up to whole seconds, the precision of the API: rounding down would expire a correction too early.
fn whole(time: Timestamp) -> Timestamp {
    let second = time.as_nanosecond().div_euclid(1_000_000_000);
    let second = i64::try_from(second).unwrap_or(i64::MAX);
    let next = i64::from(time.subsec_nanosecond() != 0);
    Timestamp::from_second(second.saturating_add(next)).unwrap_or(time)
}
