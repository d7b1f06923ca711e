//! The timeout for an item to become healthy (`spec.waitTimeout`).

#[cfg(test)]
mod tests;

use jiff::{SignedDuration, Timestamp};
use machinery::json::go_quote;
use machinery::time::{format_duration, parse_duration};

/// Whether the timeout has expired.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TimeoutVerdict {
    /// Expired: the item has failed with this message.
    Expired(String),
    /// Not expired: the remaining time, `None` without a timeout. The caller requeues then, since no watch event may
    /// arrive.
    Wait(Option<SignedDuration>),
}

/// Parses `spec.waitTimeout`: a positive Go duration.
pub fn parse(text: &str) -> Result<SignedDuration, String> {
    positive("spec.waitTimeout", text)
}

/// Parses a positive Go duration from a field.
pub(crate) fn positive(field: &str, text: &str) -> Result<SignedDuration, String> {
    let accepted = "accepted are positive Go durations such as 30m, 2h or 1h30m";
    match parse_duration(text) {
        Ok(duration) if duration.is_positive() => Ok(duration),
        Ok(_) => Err(format!(
            "{field}: {} is not more than zero; {accepted}",
            go_quote(text)
        )),
        Err(why) => Err(format!(
            "{field}: {} is no duration ({why}); {accepted}",
            go_quote(text)
        )),
    }
}

/// Whether an item that waits since `since` has timed out. `last` is its latest health message.
pub fn verdict(
    since: Timestamp,
    now: Timestamp,
    timeout: Option<SignedDuration>,
    last: &str,
) -> TimeoutVerdict {
    let Some(timeout) = timeout else {
        return TimeoutVerdict::Wait(None);
    };
    let waited = now.duration_since(since).max(SignedDuration::ZERO);
    match timeout.checked_sub(waited) {
        Some(left) if left.is_positive() => TimeoutVerdict::Wait(Some(left)),
        _ => TimeoutVerdict::Expired(format!(
            "Timeout waiting for resource to become healthy (waited {}, timeout {}): {last}",
            format_duration(SignedDuration::from_secs(waited.as_secs())),
            format_duration(timeout),
        )),
    }
}
