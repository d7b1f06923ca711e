//! Conversions between types and the parts of dates.

use std::sync::Arc;

use jiff::tz::TimeZone;

use crate::cel::meter::{Fail, Meter};
use crate::cel::time::{
    SECOND, format_seconds, format_timestamp, in_range, parse_duration, parse_timestamp, time_zone,
    zoned,
};
use crate::cel::value::Val;
use crate::json::go_float;

/// `int(x)` and the other conversions.
pub(super) fn call<'a>(name: &str, value: &Val<'a>, meter: &mut Meter) -> Result<Val<'a>, Fail> {
    match name {
        "dyn" => Ok(value.clone()),
        "type" => Ok(Val::Type(value.type_name().into())),
        "bool" => to_bool(value),
        "int" => to_int(value),
        "uint" => to_uint(value),
        "double" => to_double(value),
        "string" => to_string(value, meter),
        "bytes" => match value {
            Val::Bytes(_) => Ok(value.clone()),
            Val::Str(text) => {
                meter.burn_bytes(text.len())?;
                Ok(Val::Bytes(Arc::from(text.as_bytes())))
            }
            _ => Err(Fail::no_overload()),
        },
        "duration" => match value {
            Val::Duration(_) => Ok(value.clone()),
            Val::Int(nanos) => Ok(Val::Duration(*nanos)),
            Val::Str(text) => parse_duration(text)
                .map(Val::Duration)
                .ok_or_else(|| cannot(value, "google.protobuf.Duration")),
            _ => Err(Fail::no_overload()),
        },
        "timestamp" => match value {
            Val::Timestamp(_) => Ok(value.clone()),
            Val::Int(seconds) => in_range(i128::from(*seconds) * SECOND)
                .map(Val::Timestamp)
                .ok_or_else(|| Fail::error("timestamp overflow")),
            Val::Str(text) => parse_timestamp(text)
                .map(Val::Timestamp)
                .ok_or_else(|| cannot(value, "google.protobuf.Timestamp")),
            _ => Err(Fail::no_overload()),
        },
        _ => Err(Fail::no_overload()),
    }
}

fn cannot(value: &Val<'_>, to: &str) -> Fail {
    Fail::error(format!(
        "type conversion error from '{}' to '{to}'",
        value.type_name()
    ))
}

fn to_bool<'a>(value: &Val<'a>) -> Result<Val<'a>, Fail> {
    match value {
        Val::Bool(_) => Ok(value.clone()),
        Val::Str(text) => match &**text {
            // The spellings of Go's `strconv.ParseBool`.
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Val::Bool(true)),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Val::Bool(false)),
            _ => Err(cannot(value, "bool")),
        },
        _ => Err(Fail::no_overload()),
    }
}

#[expect(clippy::cast_possible_truncation, reason = "bounds are checked before")]
fn to_int<'a>(value: &Val<'a>) -> Result<Val<'a>, Fail> {
    let overflow = || Fail::error("integer overflow");
    Ok(Val::Int(match value {
        Val::Int(i) => *i,
        Val::Uint(u) => i64::try_from(*u).map_err(|_| overflow())?,
        // Both ends are excluded, as in cel-go (`common/types/overflow.go`): -2^63
        // itself is an overflow, although it would fit.
        Val::Double(d) if d.abs() < 9_223_372_036_854_775_808.0 => *d as i64,
        Val::Double(_) => return Err(overflow()),
        Val::Str(text) => text.parse().map_err(|_| cannot(value, "int"))?,
        Val::Duration(nanos) => *nanos,
        Val::Timestamp(nanos) => i64::try_from(nanos.div_euclid(SECOND)).map_err(|_| overflow())?,
        _ => return Err(Fail::no_overload()),
    }))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "bounds are checked before"
)]
fn to_uint<'a>(value: &Val<'a>) -> Result<Val<'a>, Fail> {
    let overflow = || Fail::error("unsigned integer overflow");
    Ok(Val::Uint(match value {
        Val::Uint(u) => *u,
        Val::Int(i) => u64::try_from(*i).map_err(|_| overflow())?,
        Val::Double(d) if (0.0..18_446_744_073_709_551_616.0).contains(d) => *d as u64,
        Val::Double(_) => return Err(overflow()),
        Val::Str(text) => text.parse().map_err(|_| cannot(value, "uint"))?,
        _ => return Err(Fail::no_overload()),
    }))
}

#[expect(clippy::cast_precision_loss, reason = "the language rounds here")]
fn to_double<'a>(value: &Val<'a>) -> Result<Val<'a>, Fail> {
    Ok(Val::Double(match value {
        Val::Double(d) => *d,
        Val::Int(i) => *i as f64,
        Val::Uint(u) => *u as f64,
        Val::Str(text) => text.parse().map_err(|_| cannot(value, "double"))?,
        _ => return Err(Fail::no_overload()),
    }))
}

fn to_string<'a>(value: &Val<'a>, meter: &mut Meter) -> Result<Val<'a>, Fail> {
    Ok(match value {
        Val::Str(_) => value.clone(),
        Val::Bytes(bytes) => {
            meter.burn_bytes(bytes.len())?;
            let text = std::str::from_utf8(bytes)
                .map_err(|_| Fail::error("invalid UTF-8 in bytes, cannot convert to string"))?;
            Val::string(text)
        }
        Val::Bool(_) | Val::Int(_) | Val::Uint(_) | Val::Double(_) => {
            Val::string(super::display(value))
        }
        Val::Duration(nanos) => Val::string(format_seconds(*nanos)),
        Val::Timestamp(nanos) => Val::string(format_timestamp(*nanos)),
        Val::Ip(ip) => Val::string(ip.to_string()),
        Val::Cidr(cidr) => Val::string(cidr.to_string()),
        _ => return Err(Fail::no_overload()),
    })
}

/// Go's `%g`.
pub(super) fn format_double(d: f64) -> String {
    go_float(d, 6)
}

/// `getFullYear()` and similar accessors of timestamps, some also of durations.
pub(super) fn date_part<'a>(name: &str, args: &[Val<'a>]) -> Result<Val<'a>, Fail> {
    let (nanos, zone) = match args {
        [Val::Duration(nanos)] => {
            let per = match name {
                "getHours" => 3_600_000_000_000,
                "getMinutes" => 60_000_000_000,
                "getSeconds" => 1_000_000_000,
                "getMilliseconds" => return Ok(Val::Int(nanos / 1_000_000)),
                _ => return Err(Fail::no_overload()),
            };
            return Ok(Val::Int(nanos / per));
        }
        [Val::Timestamp(nanos)] => (*nanos, TimeZone::UTC),
        [Val::Timestamp(nanos), Val::Str(zone)] => (*nanos, time_zone(zone).map_err(Fail::Error)?),
        _ => return Err(Fail::no_overload()),
    };
    let t = zoned(nanos, &zone).ok_or_else(|| Fail::error("timestamp overflow"))?;
    Ok(Val::Int(match name {
        "getFullYear" => t.year().into(),
        "getMonth" => i64::from(t.month()) - 1,
        "getDayOfYear" => i64::from(t.day_of_year()) - 1,
        "getDayOfMonth" => i64::from(t.day()) - 1,
        "getDate" => t.day().into(),
        "getDayOfWeek" => t.weekday().to_sunday_zero_offset().into(),
        "getHours" => t.hour().into(),
        "getMinutes" => t.minute().into(),
        "getSeconds" => t.second().into(),
        "getMilliseconds" => t.millisecond().into(),
        _ => return Err(Fail::no_overload()),
    }))
}
