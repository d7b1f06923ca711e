//! When a plan that failed is tried again (`status.retry`).
//!
//! A missing permission, a namespace or CRD that is created later, a conflict, a timeout: what made a plan fail is often
//! repaired elsewhere, and no watch event announces it. The plan stays approved, so that it is tried again as it is.

#[cfg(test)]
mod tests;

use api::advisor::Retry;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// The first interval; each following one is twice as long.
const FIRST: SignedDuration = SignedDuration::from_secs(30);
/// The longest interval after a failure: the cause is not going to be repaired by waiting, and each attempt is a write
/// that the API server rejects.
pub(crate) const LONGEST: SignedDuration = SignedDuration::from_mins(30);
/// The longest interval while a prerequisite is missing (the seed's 5 min).
pub(crate) const LONGEST_FOR_PREREQUISITE: SignedDuration = SignedDuration::from_mins(5);

/// The next attempt after another failure.
pub(crate) fn after_failure(
    before: Option<&Retry>,
    now: Timestamp,
    longest: SignedDuration,
) -> Retry {
    let attempts = before.map_or(0, |before| before.attempts).saturating_add(1);
    // Not more doublings than reach the longest interval, so that nothing overflows.
    let doublings = attempts.saturating_sub(1).min(16);
    let interval = FIRST
        .checked_mul(1 << doublings)
        .unwrap_or(longest)
        .min(longest);
    // In whole seconds, as the API stores it: otherwise the time that is read back would be before the one decided on.
    let at = now.checked_add(interval).ok();
    let at = at.and_then(|at| Timestamp::from_second(at.as_second()).ok());
    Retry {
        attempts,
        at: at.map(Time),
    }
}

/// The attempt has begun: how often it failed is kept until the plan ends.
pub(crate) fn begun(retry: &Retry) -> Retry {
    Retry {
        at: None,
        ..retry.clone()
    }
}

/// When it is tried again, if that is in the future.
pub(crate) fn pending(retry: Option<&Retry>, now: Timestamp) -> Option<Timestamp> {
    let at = retry?.at.as_ref()?.0;
    (at > now).then_some(at)
}

/// The time of the next attempt, for a sentence.
pub fn describe(retry: &Retry) -> Option<String> {
    let at = machinery::time::format_time(retry.at.as_ref()?.0);
    Some(match retry.attempts {
        1 => format!("It is tried again at {at}."),
        attempts => format!("It failed {attempts} times, and is tried again at {at}."),
    })
}
