//! String functions (cel-go `ext/strings.go`, version 2). Positions count code points.

use crate::cel::meter::{Fail, Meter, tenths};
use crate::cel::value::Val;

/// Calls a string function.
pub(super) fn call<'a>(name: &str, args: &[Val<'a>], meter: &mut Meter) -> Result<Val<'a>, Fail> {
    if let Some(Val::Str(text)) = args.first() {
        meter.burn_bytes(text.len())?;
    }
    match (name, args) {
        ("contains", [Val::Str(s), Val::Str(t)]) => Ok(Val::Bool(s.contains(&**t))),
        ("startsWith", [Val::Str(s), Val::Str(t)]) => Ok(Val::Bool(s.starts_with(&**t))),
        ("endsWith", [Val::Str(s), Val::Str(t)]) => Ok(Val::Bool(s.ends_with(&**t))),
        ("charAt", [Val::Str(s), Val::Int(at)]) => char_at(s, *at),
        ("indexOf", [Val::Str(s), Val::Str(t)]) => index_of(s, t, 0),
        ("indexOf", [Val::Str(s), Val::Str(t), Val::Int(from)]) => index_of(s, t, *from),
        ("lastIndexOf", [Val::Str(s), Val::Str(t)]) => {
            let size = i64::try_from(s.chars().count()).unwrap_or(i64::MAX);
            if t.is_empty() {
                return Ok(Val::Int(size));
            }
            if s.len() < t.len() {
                return Ok(Val::Int(-1));
            }
            last_index_of(s, t, size - 1)
        }
        ("lastIndexOf", [Val::Str(s), Val::Str(t), Val::Int(from)]) => last_index_of(s, t, *from),
        ("lowerAscii", [Val::Str(s)]) => Ok(Val::string(s.to_ascii_lowercase())),
        ("upperAscii", [Val::Str(s)]) => Ok(Val::string(s.to_ascii_uppercase())),
        ("trim", [Val::Str(s)]) => Ok(Val::string(s.trim())),
        ("replace", [Val::Str(s), Val::Str(old), Val::Str(new)]) => replace(s, old, new, -1, meter),
        ("replace", [Val::Str(s), Val::Str(old), Val::Str(new), Val::Int(n)]) => {
            replace(s, old, new, *n, meter)
        }
        ("split", [Val::Str(s), Val::Str(separator)]) => split(s, separator, -1, meter),
        ("split", [Val::Str(s), Val::Str(separator), Val::Int(n)]) => {
            split(s, separator, *n, meter)
        }
        ("substring", [Val::Str(s), Val::Int(start)]) => substring(s, *start, None),
        ("substring", [Val::Str(s), Val::Int(start), Val::Int(end)]) => {
            substring(s, *start, Some(*end))
        }
        ("join", [list]) => join(list, "", meter),
        ("join", [list, Val::Str(separator)]) => join(list, separator, meter),
        ("strings.quote", [Val::Str(s)]) => Ok(Val::string(quote(s))),
        _ => Err(Fail::no_overload()),
    }
}

fn out_of_range(index: i64) -> Fail {
    Fail::error(format!("index out of range: {index}"))
}

/// Byte position of a code point position.
fn byte_at(text: &str, index: i64) -> Option<usize> {
    let index = usize::try_from(index).ok()?;
    let mut positions = text.char_indices().map(|(at, _)| at).chain([text.len()]);
    positions.nth(index)
}

fn char_at<'a>(text: &str, index: i64) -> Result<Val<'a>, Fail> {
    let at = byte_at(text, index).ok_or_else(|| out_of_range(index))?;
    let found: String = text[at..].chars().take(1).collect();
    Ok(Val::string(found))
}

/// Code point position of a byte position.
fn position<'a>(text: &str, at: Option<usize>) -> Val<'a> {
    let count = at.map(|at| text[..at].chars().count());
    Val::Int(count.and_then(|c| i64::try_from(c).ok()).unwrap_or(-1))
}

fn index_of<'a>(text: &str, part: &str, from: i64) -> Result<Val<'a>, Fail> {
    if part.is_empty() {
        return Ok(Val::Int(from));
    }
    if from < 0 {
        return Err(out_of_range(from));
    }
    let Some(start) = byte_at(text, from) else {
        return Ok(Val::Int(-1));
    };
    Ok(position(
        text,
        text[start..].find(part).map(|at| at + start),
    ))
}

fn last_index_of<'a>(text: &str, part: &str, from: i64) -> Result<Val<'a>, Fail> {
    if part.is_empty() {
        return Ok(Val::Int(from));
    }
    if from < 0 {
        return Err(out_of_range(from));
    }
    let size = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
    if from >= size {
        return Ok(Val::Int(-1));
    }
    // The match may start at `from` at the latest.
    let latest = byte_at(text, from).unwrap_or(text.len());
    let end = (latest + part.len()).min(text.len());
    let end = (end..=text.len())
        .find(|at| text.is_char_boundary(*at))
        .unwrap_or(text.len());
    let found = text[..end].rfind(part).filter(|at| *at <= latest);
    Ok(position(text, found))
}

fn replace<'a>(
    text: &str,
    old: &str,
    new: &str,
    limit: i64,
    meter: &mut Meter,
) -> Result<Val<'a>, Fail> {
    if limit == 0 {
        return Ok(Val::string(text));
    }
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    // Counted first, since the result may be far larger than the arguments.
    let count = text.matches(old).take(limit).count();
    let size = text.len().saturating_add(count.saturating_mul(new.len()));
    meter.burn_bytes(size)?;
    Ok(Val::string(text.replacen(old, new, limit)))
}

fn split<'a>(text: &str, separator: &str, n: i64, meter: &mut Meter) -> Result<Val<'a>, Fail> {
    let limit = match n {
        0 => return Ok(Val::list(Vec::new())),
        n => usize::try_from(n).unwrap_or(usize::MAX),
    };
    let mut parts = Vec::new();
    let mut push = |part: &str| -> Result<(), Fail> {
        meter.burn(6 + part.len() / 8)?;
        parts.push(Val::string(part));
        Ok(())
    };
    if separator.is_empty() {
        // Every code point on its own, the rest in the last one.
        let mut rest = text;
        let mut made = 1;
        while let Some(c) = rest.chars().next() {
            if made >= limit {
                break;
            }
            push(&rest[..c.len_utf8()])?;
            rest = &rest[c.len_utf8()..];
            made += 1;
        }
        if !rest.is_empty() {
            push(rest)?;
        }
    } else {
        for part in text.splitn(limit, separator) {
            push(part)?;
        }
    }
    Ok(Val::list(parts))
}

fn substring<'a>(text: &str, start: i64, end: Option<i64>) -> Result<Val<'a>, Fail> {
    if let Some(end) = end
        && start > end
    {
        let message = format!("invalid substring range. start: {start}, end: {end}");
        return Err(Fail::error(message));
    }
    let from = byte_at(text, start).ok_or_else(|| out_of_range(start))?;
    let to = match end {
        Some(end) => byte_at(text, end).ok_or_else(|| out_of_range(end))?,
        None => text.len(),
    };
    Ok(Val::string(text.get(from..to).unwrap_or_default()))
}

fn join<'a>(list: &Val<'a>, separator: &str, meter: &mut Meter) -> Result<Val<'a>, Fail> {
    let Val::List(list) = list else {
        return Err(Fail::no_overload());
    };
    let mut text = String::new();
    for (at, item) in list.iter().enumerate() {
        let item = item?;
        let Val::Str(part) = &item else {
            let shown = super::display(&item);
            return Err(Fail::error(format!("join: invalid input: {shown}")));
        };
        meter.burn_bytes(part.len() + separator.len())?;
        if at > 0 {
            text.push_str(separator);
        }
        text.push_str(part);
    }
    meter.charge(tenths(text.chars().count() as u64, 2))?;
    Ok(Val::string(text))
}

fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{b}' => out.push_str("\\v"),
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
