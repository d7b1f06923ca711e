//! Scalars that are more than a JSON literal: times, base64, quantities. The error texts are Go's.

use jiff::Timestamp;
use jiff::civil;
use jiff::tz::Offset;
use machinery::json::go_quote;
use machinery::quantity::Quantity;
use serde_json::Value;

const SECONDS_LAYOUT: &str = "2006-01-02T15:04:05Z07:00";
const MICROS_LAYOUT: &str = "2006-01-02T15:04:05.000000Z07:00";

/// Canonical text of a time: UTC with seconds. `None` is Go's zero time, which prints as null.
pub(super) fn time(text: &str) -> Result<Option<String>, String> {
    Ok(parse_time(text, SECONDS_LAYOUT)?.and_then(|time| format_time(time, false)))
}

/// Canonical text of a time with microseconds: UTC, six digits.
pub(super) fn micro_time(text: &str) -> Result<Option<String>, String> {
    Ok(parse_time(text, MICROS_LAYOUT)?.and_then(|time| format_time(time, true)))
}

/// The text of a time; `None` for Go's zero time.
pub(super) fn format_time(time: Timestamp, micros: bool) -> Option<String> {
    let utc = Offset::UTC.to_datetime(time);
    // Go's `metav1.Time` writes its zero value as null, which clients take for "not set".
    if utc == civil::datetime(1, 1, 1, 0, 0, 0, 0) {
        return None;
    }
    let (date, clock) = (utc.date(), utc.time());
    let fraction = if micros {
        format!(".{:06}", clock.subsec_nanosecond() / 1000)
    } else {
        String::new()
    };
    Some(format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}{fraction}Z",
        date.year(),
        date.month(),
        date.day(),
        clock.hour(),
        clock.minute(),
        clock.second()
    ))
}

/// Why a time does not parse, with the text of Go's `time.ParseError`.
struct TimeError<'a> {
    layout: &'static str,
    value: &'a str,
}

impl TimeError<'_> {
    fn cannot_parse(&self, rest: &str, element: &str) -> String {
        format!(
            "parsing time {} as {}: cannot parse {} as {}",
            go_quote(self.value),
            go_quote(self.layout),
            go_quote(rest),
            go_quote(element)
        )
    }

    fn because(&self, message: &str) -> String {
        format!("parsing time {}: {message}", go_quote(self.value))
    }
}

/// One or two digits at the start; `fixed` requires two.
fn two_digits(text: &str, fixed: bool) -> Option<(i8, &str)> {
    let digit = |at: usize| {
        text.as_bytes()
            .get(at)
            .filter(|b| b.is_ascii_digit())
            .map(|b| i8::try_from(b - b'0'))
    };
    let first = digit(0)?.ok()?;
    match digit(1) {
        Some(second) => Some((first * 10 + second.ok()?, &text[2..])),
        None if fixed => None,
        None => Some((first, &text[1..])),
    }
}

fn four_digits(text: &str) -> Option<(i16, &str)> {
    let digits = text
        .get(..4)
        .filter(|t| t.bytes().all(|b| b.is_ascii_digit()))?;
    Some((digits.parse().ok()?, &text[4..]))
}

fn literal<'a>(
    error: &TimeError<'_>,
    text: &'a str,
    expected: &'static str,
) -> Result<&'a str, String> {
    text.strip_prefix(expected)
        .ok_or_else(|| error.cannot_parse(text, expected))
}

/// Digits after a dot or comma, as nanoseconds; Go ignores finer ones.
fn fraction(digits: &str) -> i32 {
    let mut nanos = 0_i32;
    for at in 0..9 {
        let digit = digits.as_bytes().get(at).map_or(0, |b| i32::from(b - b'0'));
        nanos = nanos * 10 + digit;
    }
    nanos
}

fn parse_time(value: &str, layout: &'static str) -> Result<Option<Timestamp>, String> {
    let error = TimeError { layout, value };
    let number = |text, fixed, element: &str, range: std::ops::Range<i8>, name: &str| {
        let (number, rest) =
            two_digits(text, fixed).ok_or_else(|| error.cannot_parse(text, element))?;
        if range.contains(&number) {
            Ok((number, rest))
        } else {
            Err(error.because(&format!("{name} out of range")))
        }
    };
    let (year, rest) = four_digits(value).ok_or_else(|| error.cannot_parse(value, "2006"))?;
    let (month, rest) = number(literal(&error, rest, "-")?, true, "01", 1..13, "month")?;
    let (day, rest) = number(literal(&error, rest, "-")?, true, "02", 0..100, "day")?;
    let (hour, rest) = number(literal(&error, rest, "T")?, false, "15", 0..24, "hour")?;
    let (minute, rest) = number(literal(&error, rest, ":")?, true, "04", 0..60, "minute")?;
    let (second, mut rest) = number(literal(&error, rest, ":")?, true, "05", 0..60, "second")?;

    let digits = rest.strip_prefix(['.', ',']).map_or("", |tail| {
        let end = tail
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(tail.len());
        &tail[..end]
    });
    let mut nanos = 0;
    if layout == MICROS_LAYOUT {
        // This layout has exactly six digits.
        let Some(six) = digits.get(..6) else {
            return Err(error.cannot_parse(rest, ".000000"));
        };
        nanos = fraction(six);
        rest = &rest[7..];
    } else if !digits.is_empty() {
        nanos = fraction(digits);
        rest = &rest[1 + digits.len()..];
    }

    let (offset_seconds, rest) = zone(&error, rest)?;
    if !rest.is_empty() {
        return Err(error.because(&format!("extra text: {}", go_quote(rest))));
    }
    let date = civil::Date::new(year, month, day).map_err(|_| error.because("day out of range"))?;
    let clock = civil::Time::new(hour, minute, second, nanos)
        .map_err(|_| error.because("second out of range"))?;
    let time = Offset::UTC
        .to_timestamp(date.to_datetime(clock))
        .ok()
        .and_then(|time| {
            Timestamp::new(
                time.as_second() - i64::from(offset_seconds),
                time.subsec_nanosecond(),
            )
            .ok()
        })
        .ok_or_else(|| error.because("year out of range"))?;
    Ok(Some(time))
}

/// `Z` or an offset such as `+02:00`, in seconds.
fn zone<'a>(error: &TimeError<'_>, text: &'a str) -> Result<(i32, &'a str), String> {
    if let Some(rest) = text.strip_prefix('Z') {
        return Ok((0, rest));
    }
    let bad = || error.cannot_parse(text, "Z07:00");
    let zone = text
        .get(..6)
        .filter(|zone| zone.as_bytes()[3] == b':')
        .ok_or_else(bad)?;
    let part = |range: std::ops::Range<usize>| {
        zone.get(range)
            .and_then(|t| two_digits(t, true))
            .map(|(n, _)| i32::from(n))
    };
    let (hours, minutes) = (part(1..3).ok_or_else(bad)?, part(4..6).ok_or_else(bad)?);
    if hours > 24 {
        return Err(error.because("time zone offset hour out of range"));
    }
    if minutes > 60 {
        return Err(error.because("time zone offset minute out of range"));
    }
    let seconds = hours * 3600 + minutes * 60;
    match zone.as_bytes()[0] {
        b'+' => Ok((seconds, &text[6..])),
        b'-' => Ok((-seconds, &text[6..])),
        _ => Err(bad()),
    }
}

/// The sextet of a base64 character.
fn sextet(byte: u8) -> Option<u32> {
    let value = match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    };
    Some(u32::from(value))
}

/// Decodes padded base64 as Go does: line breaks are skipped, the error names the byte.
pub(super) fn base64(text: &str) -> Result<Vec<u8>, String> {
    let illegal = |at: usize| format!("illegal base64 data at input byte {at}");
    let source = text.as_bytes();
    let is_break = |at: usize| matches!(source.get(at), Some(b'\n' | b'\r'));
    let mut bytes = Vec::with_capacity(source.len() / 4 * 3);
    let mut at = 0;
    loop {
        let (mut quantum, mut count) = (0_u32, 0_usize);
        let mut padded = false;
        while count < 4 {
            let Some(&byte) = source.get(at) else {
                return if count == 0 {
                    Ok(bytes)
                } else {
                    Err(illegal(at - count))
                };
            };
            at += 1;
            if let Some(value) = sextet(byte) {
                quantum = quantum << 6 | value;
                count += 1;
                continue;
            }
            if matches!(byte, b'\n' | b'\r') {
                continue;
            }
            if byte != b'=' || count < 2 {
                return Err(illegal(at - 1));
            }
            if count == 2 {
                while is_break(at) {
                    at += 1;
                }
                match source.get(at) {
                    None => return Err(illegal(source.len())),
                    Some(b'=') => at += 1,
                    Some(_) => return Err(illegal(at - 1)),
                }
            }
            while is_break(at) {
                at += 1;
            }
            if at < source.len() {
                return Err(illegal(at));
            }
            padded = true;
            break;
        }
        let full = quantum << (6 * (4 - count));
        let take = if padded { count - 1 } else { 3 };
        bytes.extend_from_slice(&full.to_be_bytes()[1..=take]);
    }
}

/// Canonical text of a quantity.
pub(super) fn quantity(value: &Value) -> Result<String, String> {
    Quantity::from_json(value)
        .map(|quantity| quantity.canonical())
        .map_err(|error| error.to_string())
}
