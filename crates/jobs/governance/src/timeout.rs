//! How long an item may take to become healthy (`spec.waitTimeout`).

#[cfg(test)]
mod tests;

use jiff::{SignedDuration, Timestamp};
use machinery::json::go_quote;
use machinery::time::{format_duration, parse_duration};

/// Whether there is still time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// There is none left: the item has failed, and this is its message.
    Expired(String),
    /// There is: so much, or for ever. Nobody else may wake us up, so somebody has to look again then.
    Wait(Option<SignedDuration>),
}

/// Reads `spec.waitTimeout`: a Go duration of more than nothing.
pub fn parse(text: &str) -> Result<SignedDuration, String> {
    positive("spec.waitTimeout", text)
}

/// Reads a Go duration of more than nothing from a field.
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

/// Whether an item that waits since then may go on waiting. `last` is what it waits for.
pub fn verdict(
    since: Timestamp,
    now: Timestamp,
    timeout: Option<SignedDuration>,
    last: &str,
) -> Verdict {
    let Some(timeout) = timeout else {
        return Verdict::Wait(None);
    };
    let waited = now.duration_since(since).max(SignedDuration::ZERO);
    match timeout.checked_sub(waited) {
        Some(left) if left.is_positive() => Verdict::Wait(Some(left)),
        _ => Verdict::Expired(format!(
            "Timeout waiting for resource to become healthy (waited {}, timeout {}): {last}",
            format_duration(SignedDuration::from_secs(waited.as_secs())),
            format_duration(timeout),
        )),
    }
}
