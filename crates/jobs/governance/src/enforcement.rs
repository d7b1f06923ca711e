//! Against edit wars: how often drift is corrected when locks are bypassed.
//!
//! At most five corrections a minute. When a sixth is wanted there is a pause of a minute; when that
//! has happened three times, somebody else is as stubborn as we are, and we give up until a human
//! looks. Waiting longer and longer instead would only make the alert come and go.

#[cfg(test)]
mod tests;

use api::advisor::Enforcement;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// So many corrections in [`PERIOD`].
pub const CORRECTIONS: usize = 5;
/// The time that [`CORRECTIONS`] are counted in, and that is waited when there were as many.
pub const PERIOD: SignedDuration = SignedDuration::from_mins(1);
/// So many waits in a row, and we give up.
pub const EXHAUSTIONS: u32 = 3;
/// After so long without a correction everything is forgotten.
pub const QUIET: SignedDuration = SignedDuration::from_hours(1);

/// What to do about drift.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Correct it.
    Correct,
    /// Leave it until then.
    Wait(Timestamp),
    /// Leave it for good: this is the moment at which we give up, and somebody should be told.
    Pause,
    /// Leave it: we gave up before.
    Paused,
}

/// What to do about drift that is there now, and what to remember. `against` owns what drifted.
pub fn correct(
    enforcement: Option<&Enforcement>,
    now: Timestamp,
    against: Option<&str>,
) -> (Enforcement, Verdict) {
    let mut next = enforcement.cloned().unwrap_or_default();
    if next.paused {
        return (next, Verdict::Paused);
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
            return (next, Verdict::Wait(until));
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
        // Older ones decide nothing.
        let surplus = next.corrections.len().saturating_sub(CORRECTIONS);
        next.corrections.drain(..surplus);
        return (next, Verdict::Correct);
    }
    next.exhaustions = next.exhaustions.saturating_add(1);
    if next.exhaustions >= EXHAUSTIONS {
        next.paused = true;
        return (next, Verdict::Pause);
    }
    let until = whole(now).checked_add(PERIOD).unwrap_or(Timestamp::MAX);
    next.wait_until = Some(Time(until));
    (next, Verdict::Wait(until))
}

/// What to remember when nothing has drifted: nothing, once it has been quiet for long enough. Whoever
/// we fought with has stopped, so a pause is over, too.
pub fn settled(enforcement: &Enforcement, now: Timestamp) -> Option<Enforcement> {
    (!forgotten(enforcement, now)).then(|| enforcement.clone())
}

/// What to remember when the specification has changed: nothing. Somebody has looked.
pub fn resumed() -> Option<Enforcement> {
    None
}

/// Whether the last correction is too long ago to matter.
fn forgotten(enforcement: &Enforcement, now: Timestamp) -> bool {
    enforcement
        .corrections
        .iter()
        .all(|correction| now.duration_since(correction.0) >= QUIET)
}

/// The next whole second, as times are kept: rounding down would let a correction be forgotten too early.
fn whole(time: Timestamp) -> Timestamp {
    let second = time.as_nanosecond().div_euclid(1_000_000_000);
    let second = i64::try_from(second).unwrap_or(i64::MAX);
    let next = i64::from(time.subsec_nanosecond() != 0);
    Timestamp::from_second(second.saturating_add(next)).unwrap_or(time)
}
