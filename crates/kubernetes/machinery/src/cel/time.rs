//! Timestamps and durations in Go's formats and limits.

use std::fmt::Write as _;

use jiff::civil;
use jiff::tz::{Offset, TimeZone, TimeZoneDatabase};

/// Nanoseconds of a second.
pub(crate) const SECOND: i128 = 1_000_000_000;
/// First second of the year 1.
const MIN_SECOND: i128 = -62_135_596_800;
/// Last second of the year 9999.
const MAX_SECOND: i128 = 253_402_300_799;

/// `nanos` if it is within the years 1 to 9999.
pub(crate) fn in_range(nanos: i128) -> Option<i128> {
    let seconds = nanos.div_euclid(SECOND);
    (MIN_SECOND..=MAX_SECOND)
        .contains(&seconds)
        .then_some(nanos)
}

/// Go's `time.ParseDuration`.
pub(crate) fn parse_duration(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.as_bytes().first()? {
        b'-' => (true, text.get(1..)?),
        b'+' => (false, text.get(1..)?),
        _ => (false, text),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let number_end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, tail) = rest.split_at(number_end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return None;
        }
        let unit_end = tail
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(tail.len());
        let (unit, next) = tail.split_at(unit_end);
        let scale: i128 = match unit {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => SECOND,
            "m" => 60 * SECOND,
            "h" => 3_600 * SECOND,
            _ => return None,
        };
        let whole: i128 = if whole.is_empty() {
            0
        } else {
            whole.parse::<i64>().ok()?.into()
        };
        total = total.checked_add(whole.checked_mul(scale)?)?;
        // Digits beyond a nanosecond of an hour change nothing.
        let digits: String = fraction.chars().take(18).collect();
        if !digits.is_empty() {
            let power = 10_i128.checked_pow(u32::try_from(digits.len()).ok()?)?;
            total = total.checked_add(digits.parse::<i128>().ok()? * scale / power)?;
        }
        rest = next;
    }
    i64::try_from(if negative { -total } else { total }).ok()
}

/// Durations of `OpenAPI`: Go's, and numbers with spelled out units (`strfmt.ParseDuration`).
pub(crate) fn parse_openapi_duration(text: &str) -> Option<i64> {
    if let Some(found) = parse_duration(text) {
        return Some(found);
    }
    let text = text.trim();
    let at = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(at);
    let scale: i64 = match unit.trim().to_lowercase().trim_end_matches('s') {
        "n" | "nano" | "nanosecond" | "nanosec" => 1,
        "u" | "µ" | "micro" | "microsecond" | "microsec" => 1_000,
        "m" | "milli" | "millisecond" | "millisec" => 1_000_000,
        "" | "sec" | "second" => 1_000_000_000,
        "min" | "minute" => 60_000_000_000,
        "h" | "hr" | "hour" => 3_600_000_000_000,
        "d" | "day" => 86_400_000_000_000,
        "w" | "wk" | "week" => 604_800_000_000_000,
        _ => return None,
    };
    number.parse::<i64>().ok()?.checked_mul(scale)
}

/// Go's `Duration.String` for the CEL conversion: seconds with a fraction, `3.5s`.
pub(crate) fn format_seconds(nanos: i64) -> String {
    let sign = if nanos < 0 { "-" } else { "" };
    let size = nanos.unsigned_abs();
    let (seconds, rest) = (size / 1_000_000_000, size % 1_000_000_000);
    let mut text = format!("{sign}{seconds}");
    if rest > 0 {
        let fraction = format!("{rest:09}");
        let _ = write!(text, ".{}", fraction.trim_end_matches('0'));
    }
    text.push('s');
    text
}

/// RFC 3339 with any fraction; a lower case `t` or `z`, or a space, is refused as by Go.
pub(crate) fn parse_timestamp(text: &str) -> Option<i128> {
    let (date, time) = text.split_once('T')?;
    let zone_at = time.find(['Z', '+', '-'])?;
    let (clock, zone) = time.split_at(zone_at);
    let (clock, fraction) = match clock.split_once(['.', ',']) {
        Some((clock, fraction)) => (clock, Some(fraction)),
        None => (clock, None),
    };
    let date = parse_civil_date(date)?;
    let [hour, minute, second] = fixed_fields(clock, ':')?;
    let date_time = date.to_datetime(civil::Time::new(hour, minute, second, 0).ok()?);
    let offset = if zone == "Z" {
        0
    } else {
        i128::from(parse_offset(zone)?)
    };
    let nanos = match fraction {
        None => 0,
        Some(digits) if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) => {
            return None;
        }
        Some(digits) => format!("{:0<9}", digits.get(..9.min(digits.len()))?)
            .parse()
            .ok()?,
    };
    in_range(since_epoch(date_time) - offset * SECOND + nanos)
}

/// `date-time` of `OpenAPI`, where the zone may be absent.
pub(crate) fn parse_openapi_timestamp(text: &str) -> Option<i128> {
    parse_timestamp(text)
        .or_else(|| parse_timestamp(&text.replacen('t', "T", 1).replace('z', "Z")))
        .or_else(|| parse_timestamp(&format!("{text}Z")))
}

/// `2006-01-02`, at midnight in UTC.
pub(crate) fn parse_date(text: &str) -> Option<i128> {
    let date = parse_civil_date(text)?;
    Some(since_epoch(date.to_datetime(civil::Time::midnight())))
}

fn parse_civil_date(text: &str) -> Option<civil::Date> {
    let (year, rest) = text.split_once('-')?;
    if year.len() != 4 || !year.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let [month, day] = fixed_fields(rest, '-')?;
    civil::Date::new(year.parse().ok()?, month, day).ok()
}

/// Fields of exactly two digits each.
fn fixed_fields<const N: usize>(text: &str, separator: char) -> Option<[i8; N]> {
    let mut out = [0; N];
    let mut parts = text.split(separator);
    for slot in &mut out {
        let part = parts.next()?;
        if part.len() != 2 || !part.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        *slot = part.parse().ok()?;
    }
    parts.next().is_none().then_some(out)
}

/// Seconds of `+02:00`, `-02:00` or `02:00`.
fn parse_offset(text: &str) -> Option<i32> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, text.get(1..)?),
        b'+' => (false, text.get(1..)?),
        _ => (false, text),
    };
    let [hours, minutes] = fixed_fields::<2>(digits, ':')?;
    if hours > 23 || minutes > 59 {
        return None;
    }
    let seconds = i32::from(hours) * 3_600 + i32::from(minutes) * 60;
    Some(if negative { -seconds } else { seconds })
}

/// RFC 3339 in UTC with as many digits as needed.
pub(crate) fn format_timestamp(nanos: i128) -> String {
    let Some(t) = zoned(nanos, &TimeZone::UTC) else {
        return String::new();
    };
    let mut text = format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}",
        t.year(),
        t.month(),
        t.day(),
        t.hour(),
        t.minute(),
        t.second()
    );
    let fraction = nanos.rem_euclid(SECOND);
    if fraction > 0 {
        let digits = format!("{fraction:09}");
        let _ = write!(text, ".{}", digits.trim_end_matches('0'));
    }
    text.push('Z');
    text
}

/// Nanoseconds from 1970 to a date and time in UTC.
fn since_epoch(t: civil::DateTime) -> i128 {
    t.duration_since(civil::DateTime::constant(1970, 1, 1, 0, 0, 0, 0))
        .as_nanos()
}

/// Date and time in a zone. The ends of the range are reached by civil arithmetic, since they are
/// beyond what `jiff::Timestamp` holds.
pub(crate) fn zoned(nanos: i128, zone: &TimeZone) -> Option<civil::DateTime> {
    let offset = match zone.to_fixed_offset() {
        Ok(offset) => offset,
        Err(_) => zone.to_offset(jiff::Timestamp::from_nanosecond(nanos).ok()?),
    };
    let local = nanos + i128::from(offset.seconds()) * SECOND;
    let seconds = i64::try_from(local.div_euclid(SECOND)).ok()?;
    let rest = i32::try_from(local.rem_euclid(SECOND)).ok()?;
    let epoch = civil::DateTime::constant(1970, 1, 1, 0, 0, 0, 0);
    epoch
        .checked_add(jiff::SignedDuration::new(seconds, rest))
        .ok()
}

/// The zone of a name or of an offset like `02:00`.
pub(crate) fn time_zone(name: &str) -> Result<TimeZone, String> {
    if name.is_empty() || name == "UTC" {
        return Ok(TimeZone::UTC);
    }
    if name.contains(':') {
        return parse_offset(name)
            .and_then(|seconds| Offset::from_seconds(seconds).ok())
            .map(TimeZone::fixed)
            .ok_or_else(|| format!("unknown time zone {name}"));
    }
    TimeZoneDatabase::bundled()
        .get(name)
        .map_err(|_| format!("unknown time zone {name}"))
}
