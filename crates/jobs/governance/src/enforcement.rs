//! Limits corrections of drift when locks are bypassed, to avoid endless edit conflicts.
//!
//! At most five corrections per minute. Drift that follows on the fifth within the minute is a fight: another manager
//! evidently keeps reverting, and correction pauses until a user edits the spec. Waiting and trying again would prolong
//! the fight, and an exponential backoff would only make the alert flap.

#[cfg(test)]
mod tests;

use api::advisor::Enforcement;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// Maximum number of corrections within [`PERIOD`].
pub const CORRECTIONS: usize = 5;
/// The window in which [`CORRECTIONS`] are counted.
pub const PERIOD: SignedDuration = SignedDuration::from_mins(1);
/// Time without a correction after which the state is reset.
pub const RESET_AFTER: SignedDuration = SignedDuration::from_hours(1);

/// How to handle drift.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CorrectionVerdict {
    /// Correct it.
    Correct,
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
    if forgotten(&next, now) {
        next = Enforcement::default();
    }
    if let Some(manager) = against {
        next.against = Some(manager.to_owned());
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
    next.paused = true;
    (next, CorrectionVerdict::Pause)
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
