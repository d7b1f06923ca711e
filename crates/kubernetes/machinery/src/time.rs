//! Times and durations as the API writes, parses and shows them.
//!
//! There is no clock here: a caller that needs an age passes the current time.

mod duration;
mod parse;
#[cfg(test)]
mod tests;

use jiff::Timestamp;

pub(crate) use duration::parse_openapi_duration;
pub use duration::{DurationError, format_duration, human_duration, parse_duration};
pub use parse::{TimeError, parse_time};
pub(crate) use parse::{parse_date, parse_rfc3339};

/// `metav1.Time`: RFC 3339, UTC, whole seconds.
pub fn format_time(time: Timestamp) -> String {
    // Go cuts the fraction off; towards the past, as times before 1970 would show.
    let second = time.as_nanosecond().div_euclid(1_000_000_000);
    let whole = i64::try_from(second)
        .ok()
        .and_then(|s| Timestamp::from_second(s).ok());
    whole
        .unwrap_or(time)
        .strftime("%Y-%m-%dT%H:%M:%SZ")
        .to_string()
}

/// How long ago something happened, for a table cell: `4m10s`, `<unknown>` when the time is not
/// set, `<invalid>` when it is no time or lies in the future.
pub fn age(timestamp: Option<&str>, now: Timestamp) -> String {
    match timestamp {
        None | Some("" | "null") => "<unknown>".to_owned(),
        Some(text) => match parse_time(text) {
            Ok(time) if is_zero(time) => "<unknown>".to_owned(),
            Ok(time) => human_duration(now.duration_since(time)),
            Err(_) => "<invalid>".to_owned(),
        },
    }
}

/// Whether this is Go's zero time, which the API treats as absent.
pub fn is_zero(time: Timestamp) -> bool {
    time.as_second() == GO_ZERO_SECOND && time.subsec_nanosecond() == 0
}

/// 0001-01-01T00:00:00Z.
const GO_ZERO_SECOND: i64 = -62_135_596_800;
