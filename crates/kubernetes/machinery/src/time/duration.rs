//! Go durations (`time.ParseDuration`, `Duration.String`) and the short forms for people
//! (`apimachinery/pkg/util/duration`).

use std::sync::LazyLock;

use jiff::SignedDuration;
use regex::Regex;

use crate::json::go_quote;

/// A text that is no duration, in Go's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// Malformed, or more than 64 bits of nanoseconds.
    #[error("time: invalid duration {}", go_quote(.0))]
    Invalid(String),
    /// A number without a unit.
    #[error("time: missing unit in duration {}", go_quote(.0))]
    MissingUnit(String),
    /// A unit other than ns, us, ms, s, m and h.
    #[error("time: unknown unit {} in duration {}", go_quote(.0), go_quote(.1))]
    UnknownUnit(String, String),
}

/// Reads a duration such as `1h30m` or `-1.5s`.
pub fn parse_duration(text: &str) -> Result<SignedDuration, DurationError> {
    let invalid = || DurationError::Invalid(text.to_owned());
    let (negative, mut rest) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    if rest == "0" {
        return Ok(SignedDuration::ZERO);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let whole = take_digits(&mut rest);
        let part = rest.strip_prefix('.').map(|after| {
            rest = after;
            take_digits(&mut rest)
        });
        if whole.is_empty() && part.is_none_or(str::is_empty) {
            return Err(invalid());
        }
        let end = rest
            .find(|c: char| c == '.' || c.is_ascii_digit())
            .unwrap_or(rest.len());
        let (unit, after) = rest.split_at(end);
        rest = after;
        if unit.is_empty() {
            return Err(DurationError::MissingUnit(text.to_owned()));
        }
        let scale = unit_nanos(unit)
            .ok_or_else(|| DurationError::UnknownUnit(unit.to_owned(), text.to_owned()))?;
        let whole: u64 = if whole.is_empty() {
            0
        } else {
            whole.parse().map_err(|_| invalid())?
        };
        let nanos = whole.checked_mul(scale).ok_or_else(invalid)?;
        let nanos = nanos
            .checked_add(fraction(part.unwrap_or(""), scale))
            .ok_or_else(invalid)?;
        total = total
            .checked_add(nanos)
            .filter(|t| *t <= 1 << 63)
            .ok_or_else(invalid)?;
    }
    if negative {
        let nanos = i64::try_from(-i128::from(total)).map_err(|_| invalid())?;
        return Ok(SignedDuration::from_nanos(nanos));
    }
    let nanos = i64::try_from(total).map_err(|_| invalid())?;
    Ok(SignedDuration::from_nanos(nanos))
}

/// A duration of OpenAPI: Go's, else the sum of all numbers that have a unit, such as `2 days`
/// (`strfmt.ParseDuration`).
pub(crate) fn parse_openapi_duration(text: &str) -> Option<i64> {
    static PARTS: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r"([0-9]+)[\t\n\f\r ]*([A-Za-zµ]+)").ok());
    // The last name of a unit stands for all words that begin with it.
    const UNITS: [(&[&str], i64); 8] = [
        (&["ns", "nano"], 1),
        (&["us", "µs", "micro"], 1_000),
        (&["ms", "milli"], 1_000_000),
        (&["s", "sec"], 1_000_000_000),
        (&["m", "min"], 60_000_000_000),
        (&["h", "hr", "hour"], 3_600_000_000_000),
        (&["d", "day"], 86_400_000_000_000),
        (&["w", "wk", "week"], 604_800_000_000_000),
    ];
    if let Ok(duration) = parse_duration(text) {
        return i64::try_from(duration.as_nanos()).ok();
    }
    let mut total = None;
    for captures in PARTS.iter().flat_map(|r| r.captures_iter(text)) {
        let (_, [number, unit]) = captures.extract();
        let (number, unit) = (number.parse::<i64>().ok()?, unit.to_lowercase());
        let fits = |names: &[&str]| {
            names.contains(&unit.as_str()) || names.last().is_some_and(|n| unit.starts_with(n))
        };
        if let Some((_, scale)) = UNITS.iter().find(|(names, _)| fits(names)) {
            // Go's arithmetic wraps around.
            let sum = total.unwrap_or(0_i64);
            total = Some(sum.wrapping_add(number.wrapping_mul(*scale)));
        }
    }
    total
}

/// Go's `Duration.String`: `1h0m0s`, `1.5s`, `2ms`, `0s`.
pub fn format_duration(duration: SignedDuration) -> String {
    let nanos = duration.as_nanos();
    let sign = if nanos < 0 { "-" } else { "" };
    let nanos = nanos.unsigned_abs();
    if nanos == 0 {
        return "0s".to_owned();
    }
    if nanos < 1_000_000_000 {
        let (scale, unit) = match nanos {
            0..1_000 => (1, "ns"),
            1_000..1_000_000 => (1_000, "µs"),
            _ => (1_000_000, "ms"),
        };
        return format!("{sign}{}{unit}", decimal(nanos, scale));
    }
    let minutes = nanos / 60_000_000_000;
    let seconds = decimal(nanos % 60_000_000_000, 1_000_000_000);
    match (minutes / 60, minutes % 60) {
        (0, 0) => format!("{sign}{seconds}s"),
        (0, minutes) => format!("{sign}{minutes}m{seconds}s"),
        (hours, minutes) => format!("{sign}{hours}h{minutes}m{seconds}s"),
    }
}

/// About how long, in two or three figures: `59s`, `4m10s`, `3h`, `2y5d`. More than a second into
/// the future is `<invalid>`.
pub fn human_duration(duration: SignedDuration) -> String {
    let seconds = duration.as_secs();
    if seconds < -1 {
        return "<invalid>".to_owned();
    }
    if seconds < 0 {
        return "0s".to_owned();
    }
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    match () {
        () if seconds < 120 => format!("{seconds}s"),
        () if minutes < 10 => two(minutes, "m", seconds % 60, "s"),
        () if minutes < 180 => format!("{minutes}m"),
        () if hours < 8 => two(hours, "h", minutes % 60, "m"),
        () if hours < 48 => format!("{hours}h"),
        () if hours < 24 * 8 => two(days, "d", hours % 24, "h"),
        () if hours < 24 * 365 * 2 => format!("{days}d"),
        () if hours < 24 * 365 * 8 => two(days / 365, "y", days % 365, "d"),
        () => format!("{}y", days / 365),
    }
}

fn two(large: i64, large_unit: &str, small: i64, small_unit: &str) -> String {
    if small == 0 {
        format!("{large}{large_unit}")
    } else {
        format!("{large}{large_unit}{small}{small_unit}")
    }
}

fn take_digits<'a>(rest: &mut &'a str) -> &'a str {
    let count = rest.bytes().take_while(u8::is_ascii_digit).count();
    let (digits, after) = rest.split_at(count);
    *rest = after;
    digits
}

fn unit_nanos(unit: &str) -> Option<u64> {
    Some(match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    })
}

/// The digits after the dot in units of `scale`, cut off below a nanosecond.
fn fraction(digits: &str, scale: u64) -> u64 {
    // Nineteen digits are more than any unit can show.
    let digits = &digits[..digits.len().min(18)];
    let Ok(number) = digits.parse::<u128>() else {
        return 0;
    };
    let count = u32::try_from(digits.len()).unwrap_or(0);
    u64::try_from(number * u128::from(scale) / 10_u128.pow(count)).unwrap_or(0)
}

/// `value / scale` without trailing zeros.
fn decimal(value: u128, scale: u128) -> String {
    let (whole, part) = (value / scale, value % scale);
    if part == 0 {
        return whole.to_string();
    }
    let width = scale.ilog10() as usize;
    let part = format!("{part:0width$}");
    format!("{whole}.{}", part.trim_end_matches('0'))
}
