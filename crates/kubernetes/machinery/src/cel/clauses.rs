//! Clauses of `format` strings, and the check of constant ones (cel-go `ext/formatting.go`).

use super::ast::{Expr, Kind};
use super::types::Type;
use crate::json::go_quote;

/// The default precision.
pub(crate) const PRECISION: usize = 6;
/// More digits than any double has.
const MAX_PRECISION: usize = 1_000;

/// What follows a `%`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clause {
    /// The verb.
    pub(crate) verb: char,
    /// Digits after the point.
    pub(crate) precision: usize,
}

impl Clause {
    /// The clause that `rest` starts with, and what follows it.
    pub(crate) fn parse(rest: &str) -> Result<(Self, &str), String> {
        if rest.is_empty() {
            return Err("unexpected end of string".to_owned());
        }
        let wrong = |what: &str| {
            format!("could not parse formatting clause: error while parsing precision: {what}")
        };
        let (precision, rest) = match rest.strip_prefix('.') {
            None => (PRECISION, rest),
            Some(tail) => {
                let end = tail
                    .find(|c: char| !c.is_ascii_digit())
                    .ok_or_else(|| wrong("could not find end of precision specifier"))?;
                let digits = &tail[..end];
                let precision = digits.parse().ok().filter(|p| *p <= MAX_PRECISION);
                let precision = precision.ok_or_else(|| {
                    wrong(&format!(
                        "error while converting precision to integer: strconv.Atoi: parsing {}: \
                         invalid syntax",
                        go_quote(digits)
                    ))
                })?;
                (precision, &tail[end..])
            }
        };
        let (verb, rest) = rest.split_at_checked(1).unwrap_or((rest, ""));
        // Upstream uses only the first byte.
        let byte = verb.bytes().next().unwrap_or(b' ');
        if !b"sdfebxXo".contains(&byte) {
            return Err(format!(
                "could not parse formatting clause: unrecognized formatting clause \"{}\"",
                char::from(byte)
            ));
        }
        let verb = char::from(byte);
        Ok((Self { verb, precision }, rest))
    }
}

/// The error of a constant template and its arguments: the text, and the argument if it is about one.
pub(crate) fn check<'e>(
    template: &str,
    args: &[&'e Expr],
    type_of: &dyn Fn(&Expr) -> Type,
) -> Result<(), (String, Option<&'e Expr>)> {
    let mut rest = template;
    let mut index = 0;
    while let Some(at) = rest.find('%') {
        rest = &rest[at + 1..];
        if let Some(tail) = rest.strip_prefix('%') {
            rest = tail;
            continue;
        }
        if rest.is_empty() {
            return Err(("unexpected end of string".to_owned(), None));
        }
        let Some(arg) = args.get(index) else {
            return Err((format!("index {index} out of range"), None));
        };
        index += 1;
        let (clause, tail) = Clause::parse(rest).map_err(|text| (text, None))?;
        rest = tail;
        if let Some((message, bad)) = unfit(clause.verb, arg, type_of) {
            let name = type_of(bad).runtime_name();
            let text = format!("error during formatting: {message}, was given {name}");
            return Err((text, Some(bad)));
        }
    }
    if args.len() > index {
        let text = format!(
            "too many arguments supplied to string.format (expected {index}, got {})",
            args.len()
        );
        return Err((text, None));
    }
    Ok(())
}

/// Why a verb cannot show an argument, and which part of it.
fn unfit<'e>(
    verb: char,
    arg: &'e Expr,
    type_of: &dyn Fn(&Expr) -> Type,
) -> Option<(&'static str, &'e Expr)> {
    let t = type_of(arg);
    let whole = matches!(t, Type::Int | Type::Uint | Type::Dyn);
    let (fits, message) = match verb {
        's' => {
            let message = "string clause can only be used on strings, bools, bytes, ints, doubles, \
                           maps, lists, types, durations, and timestamps";
            return unfit_text(arg, type_of).map(|bad| (message, bad));
        }
        'd' => (whole, "decimal clause can only be used on integers"),
        'o' => (whole, "octal clause can only be used on integers"),
        'b' => (
            whole || matches!(t, Type::Bool),
            "only integers and bools can be formatted as binary",
        ),
        'x' | 'X' => (
            whole || matches!(t, Type::String | Type::Bytes),
            "only integers, byte buffers, and strings can be formatted as hex",
        ),
        // Text may be that of an infinity.
        'f' => (
            matches!(t, Type::Double | Type::String | Type::Dyn),
            "fixed-point clause can only be used on doubles",
        ),
        _ => (
            matches!(t, Type::Double | Type::String | Type::Dyn),
            "scientific clause can only be used on doubles",
        ),
    };
    (!fits).then_some((message, arg))
}

/// The part of an argument that has no text form.
fn unfit_text<'e>(arg: &'e Expr, type_of: &dyn Fn(&Expr) -> Type) -> Option<&'e Expr> {
    if matches!(
        type_of(arg),
        Type::Object(_) | Type::Opaque(_) | Type::Optional(_)
    ) {
        return Some(arg);
    }
    match &arg.kind {
        Kind::List(items) => items.iter().find_map(|i| unfit_text(&i.value, type_of)),
        Kind::Map(entries) => entries
            .iter()
            .find_map(|e| unfit_text(&e.key, type_of).or_else(|| unfit_text(&e.value, type_of))),
        _ => None,
    }
}
