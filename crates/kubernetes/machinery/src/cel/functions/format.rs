//! `format` (cel-go `ext/formatting.go`): the first version of it, which follows the conventions
//! of English for numbers.

use std::fmt::Write as _;

use super::convert;
use crate::cel::clauses::{Clause, PRECISION};
use crate::cel::meter::{Fail, Meter};
use crate::cel::time::{format_seconds, format_timestamp};
use crate::cel::value::{List, Val};
use crate::json::go_quote;

/// `template.format(items)`
pub(super) fn format<'a>(
    template: &str,
    items: &List<'a>,
    meter: &mut Meter,
) -> Result<Val<'a>, Fail> {
    let mut out = String::with_capacity(template.len());
    let mut rest = template;
    let mut index = 0;
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(tail) = rest.strip_prefix('%') {
            out.push('%');
            rest = tail;
            continue;
        }
        let item = items
            .get(index)
            .unwrap_or_else(|| Err(Fail::error(format!("index {index} out of range"))))?;
        index += 1;
        rest = clause(rest, &item, &mut out, meter)?;
        meter.burn_bytes(out.len() / 8)?;
    }
    out.push_str(rest);
    meter.burn_bytes(out.len())?;
    Ok(Val::string(out))
}

/// Formats one item by the clause that `rest` starts with and returns what follows.
fn clause<'t>(
    rest: &'t str,
    item: &Val<'_>,
    out: &mut String,
    meter: &mut Meter,
) -> Result<&'t str, Fail> {
    let (Clause { verb, precision }, rest) = Clause::parse(rest).map_err(Fail::Error)?;
    let formatted = match verb {
        's' => plain(item, meter)?,
        'd' => match item {
            Val::Int(_) | Val::Uint(_) => super::display(item),
            _ => return Err(unfit("decimal clause can only be used on integers", item)),
        },
        'f' => match double(item) {
            Some(d) => fixed(d, precision),
            None => {
                return Err(unfit(
                    "fixed-point clause can only be used on doubles",
                    item,
                ));
            }
        },
        'e' => match double(item) {
            Some(d) => scientific(d, precision),
            None => return Err(unfit("scientific clause can only be used on doubles", item)),
        },
        'b' => match item {
            Val::Bool(b) => u8::from(*b).to_string(),
            Val::Int(i) => signed(*i, |u| format!("{u:b}")),
            Val::Uint(u) => format!("{u:b}"),
            _ => {
                return Err(unfit(
                    "only integers and bools can be formatted as binary",
                    item,
                ));
            }
        },
        'o' => match item {
            Val::Int(i) => signed(*i, |u| format!("{u:o}")),
            Val::Uint(u) => format!("{u:o}"),
            _ => return Err(unfit("octal clause can only be used on integers", item)),
        },
        // `x` or `X`; parsing lets nothing else in.
        _ => {
            let text = hex(item, meter)?;
            if verb == 'X' {
                text.to_uppercase()
            } else {
                text
            }
        }
    };
    out.push_str(&formatted);
    Ok(rest)
}

fn unfit(message: &str, item: &Val<'_>) -> Fail {
    Fail::error(format!(
        "error during formatting: {message}, was given {}",
        item.type_name()
    ))
}

fn signed(value: i64, show: impl Fn(u64) -> String) -> String {
    let sign = if value < 0 { "-" } else { "" };
    format!("{sign}{}", show(value.unsigned_abs()))
}

fn hex(item: &Val<'_>, meter: &mut Meter) -> Result<String, Fail> {
    let bytes = match item {
        Val::Int(i) => return Ok(signed(*i, |u| format!("{u:x}"))),
        Val::Uint(u) => return Ok(format!("{u:x}")),
        Val::Str(text) => text.as_bytes(),
        Val::Bytes(bytes) => bytes,
        _ => {
            let message = "only integers, byte buffers, and strings can be formatted as hex";
            return Err(unfit(message, item));
        }
    };
    meter.burn_bytes(bytes.len() * 2)?;
    let mut out = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        let _ = write!(out, "{byte:02x}");
    }
    Ok(out)
}

fn double(item: &Val<'_>) -> Option<f64> {
    match item {
        Val::Double(d) => Some(*d),
        Val::Str(text) => match &**text {
            // cel-go accepts these three texts, for numbers that JSON cannot write.
            "NaN" => Some(f64::NAN),
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            _ => None,
        },
        _ => None,
    }
}

/// With a comma for every three digits.
fn fixed(d: f64, precision: usize) -> String {
    if !d.is_finite() {
        return special(d).to_owned();
    }
    let text = format!("{d:.precision$}");
    let (sign, text) = text
        .strip_prefix('-')
        .map_or(("", text.as_str()), |t| ("-", t));
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let mut out = String::from(sign);
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    if !fraction.is_empty() {
        let _ = write!(out, ".{fraction}");
    }
    out
}

fn special(d: f64) -> &'static str {
    if d.is_nan() {
        "NaN"
    } else if d > 0.0 {
        "∞"
    } else {
        "-∞"
    }
}

/// `1.5×10⁰³`
fn scientific(d: f64, precision: usize) -> String {
    if !d.is_finite() {
        return special(d).to_owned();
    }
    let text = format!("{d:.precision$e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, digits) = exponent
        .strip_prefix('-')
        .map_or(("", exponent), |d| ("⁻", d));
    let raised: String = format!("{digits:0>2}")
        .chars()
        .map(|c| {
            "⁰¹²³⁴⁵⁶⁷⁸⁹"
                .chars()
                .nth(c.to_digit(10).unwrap_or(0) as usize)
                .unwrap_or(c)
        })
        .collect();
    format!("{mantissa}×10{sign}{raised}")
}

/// `%s`
fn plain(item: &Val<'_>, meter: &mut Meter) -> Result<String, Fail> {
    meter.burn(1)?;
    Ok(match item {
        Val::Null => "null".to_owned(),
        Val::Bool(_) | Val::Int(_) | Val::Uint(_) => super::display(item),
        Val::Double(d) => convert::format_double(*d),
        Val::Str(text) => {
            meter.burn_bytes(text.len())?;
            text.to_string()
        }
        Val::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Val::Timestamp(t) => format_timestamp(*t),
        Val::Duration(d) => format_seconds(*d),
        Val::Type(name) => name.to_string(),
        Val::List(list) => {
            let mut parts = Vec::new();
            for member in list.iter() {
                parts.push(nested(&member?, meter)?);
            }
            format!("[{}]", parts.join(", "))
        }
        Val::Map(map) => {
            let mut parts = Vec::new();
            for key in map.keys() {
                if let Some(value) = map.find(&key)? {
                    parts.push((nested(&key, meter)?, nested(&value, meter)?));
                }
            }
            // By the printed key: Go's maps have no order, and cel-go sorts so that messages are stable.
            parts.sort();
            let parts: Vec<String> = parts.into_iter().map(|(k, v)| format!("{k}:{v}")).collect();
            format!("{{{}}}", parts.join(", "))
        }
        other => {
            let message = "string clause can only be used on strings, bools, bytes, ints, doubles, \
                           maps, lists, types, durations, and timestamps";
            return Err(unfit(message, other));
        }
    })
}

/// A value within a list or a map, written as a literal.
fn nested(item: &Val<'_>, meter: &mut Meter) -> Result<String, Fail> {
    Ok(match item {
        Val::Str(text) => {
            meter.burn_bytes(text.len())?;
            go_quote(text)
        }
        Val::Bytes(bytes) => format!("b{}", go_quote(&String::from_utf8_lossy(bytes))),
        Val::Double(d) if d.is_finite() => format!("{d:.PRECISION$}"),
        Val::Double(d) => go_quote(&convert::format_double(*d)),
        Val::Timestamp(t) => format!("timestamp({})", go_quote(&format_timestamp(*t))),
        Val::Duration(d) => format!("duration({})", go_quote(&format_seconds(*d))),
        Val::List(_)
        | Val::Map(_)
        | Val::Null
        | Val::Bool(_)
        | Val::Int(_)
        | Val::Uint(_)
        | Val::Type(_) => plain(item, meter)?,
        other => {
            let message = format!("no formatting function for {}", other.type_name());
            return Err(Fail::error(format!("error during formatting: {message}")));
        }
    })
}
