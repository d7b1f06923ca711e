//! Timestamps and durations in Go's formats and limits.

use std::fmt::Write as _;

use jiff::civil;
use jiff::tz::{Offset, TimeZone, TimeZoneDatabase};

use crate::time::parse_rfc3339;

/// Nanoseconds of a second.
pub(crate) const SECOND: i128 = 1_000_000_000;
/// First second of the year 1.
// The limits of `google.protobuf.Timestamp`, which cel-go checks
// (`common/types/timestamp.go`). Go's own `time.Time` reaches further.
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

/// Nanoseconds of a duration in Go's form.
pub(crate) fn parse_duration(text: &str) -> Option<i64> {
    let duration = crate::time::parse_duration(text).ok()?;
    i64::try_from(duration.as_nanos()).ok()
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
    let (local, offset) = parse_rfc3339(text).ok()?;
    in_range(since_epoch(local) - offset.as_nanos())
}

/// `date-time` of `OpenAPI`, where the zone may be absent.
pub(crate) fn parse_openapi_timestamp(text: &str) -> Option<i128> {
    parse_timestamp(text)
        .or_else(|| parse_timestamp(&text.replacen('t', "T", 1).replace('z', "Z")))
        .or_else(|| parse_timestamp(&format!("{text}Z")))
}

/// `2006-01-02`, at midnight in UTC.
pub(crate) fn parse_date(text: &str) -> Option<i128> {
    let date = crate::time::parse_date(text)?;
    Some(since_epoch(date.to_datetime(civil::Time::midnight())))
}

/// Seconds of `+02:00`, `-02:00` or `02:00`.
fn parse_offset(text: &str) -> Option<i32> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, text.get(1..)?),
        b'+' => (false, text.get(1..)?),
        _ => (false, text),
    };
    let (hours, minutes) = digits.split_once(':')?;
    let [hours, minutes] = [hours, minutes].map(|part| {
        let two = part.len() == 2 && part.bytes().all(|b| b.is_ascii_digit());
        part.parse::<i32>().ok().filter(|_| two)
    });
    let (hours, minutes) = (hours?, minutes?);
    if hours > 23 || minutes > 59 {
        return None;
    }
    let seconds = hours * 3_600 + minutes * 60;
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
    // The bundled database and not that of the system: a container image has none, and replicas must agree on a rule.
    TimeZoneDatabase::bundled()
        .get(name)
        .map_err(|_| format!("unknown time zone {name}"))
}
