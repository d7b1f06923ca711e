//! Templates: JSON in which texts may contain expressions, as in `${options.mode}`.
//!
//! A text that consists of one expression becomes its value, of any type; null leaves the field or list item out. In
//! other texts, values are inserted. `$${` stands for `${`.

use machinery::cel::Environment;
use serde_json::{Map, Value};

use super::formula::{Expected, Findings, Formula, Values};
use crate::profile::Refusal;

/// How deep a template may be nested. Objects of Kubernetes are a dozen levels deep.
const MAX_DEPTH: usize = 64;

/// A compiled template.
#[derive(Debug)]
pub(super) enum Template {
    /// Without expressions.
    Literal(Value),
    /// The value of an expression.
    Value(Formula),
    /// A text with inserted values.
    Text(Vec<Part>),
    /// A list.
    List(Vec<Self>),
    /// An object.
    Object(Vec<(String, Self)>),
}

/// A part of a text.
#[derive(Debug)]
pub(super) enum Part {
    /// As it is.
    Literal(String),
    /// The value of an expression.
    Value(Formula),
}

impl Template {
    /// Compiles a template at `path` of the profile.
    pub(super) fn compile(
        found: &mut Findings,
        environment: &Environment,
        path: &str,
        source: &Value,
    ) -> Option<Self> {
        Self::below(found, environment, path, source, 0)
    }

    /// Compiles a text.
    pub(super) fn text(
        found: &mut Findings,
        environment: &Environment,
        path: &str,
        source: &str,
    ) -> Option<Self> {
        Self::compile(found, environment, path, &Value::from(source))
    }

    fn below(
        found: &mut Findings,
        environment: &Environment,
        path: &str,
        source: &Value,
        depth: usize,
    ) -> Option<Self> {
        if depth > MAX_DEPTH {
            found.error(
                path,
                format!("the template is nested more than {MAX_DEPTH} levels deep"),
            );
            return None;
        }
        let depth = depth + 1;
        match source {
            Value::String(text) => Self::of_text(found, environment, path, text),
            Value::Array(items) => {
                let items: Vec<_> = items
                    .iter()
                    .enumerate()
                    .map(|(index, item)| {
                        Self::below(found, environment, &format!("{path}[{index}]"), item, depth)
                    })
                    .collect();
                items
                    .into_iter()
                    .collect::<Option<Vec<_>>>()
                    .map(Self::List)
            }
            Value::Object(fields) => {
                let fields: Vec<_> = fields
                    .iter()
                    .map(|(name, field)| {
                        let below = format!("{path}.{name}");
                        let field = Self::below(found, environment, &below, field, depth);
                        field.map(|field| (name.clone(), field))
                    })
                    .collect();
                fields
                    .into_iter()
                    .collect::<Option<Vec<_>>>()
                    .map(Self::Object)
            }
            literal => Some(Self::Literal(literal.clone())),
        }
    }

    fn of_text(
        found: &mut Findings,
        environment: &Environment,
        path: &str,
        text: &str,
    ) -> Option<Self> {
        let pieces = match split(text) {
            Ok(pieces) => pieces,
            Err(why) => {
                found.error(path, why);
                return None;
            }
        };
        let mut formula =
            |source: &str| Formula::compile(found, environment, path, source, Expected::Any);
        if let [Piece::Expression(source)] = pieces.as_slice() {
            return formula(source).map(Self::Value);
        }
        let mut parts = Vec::new();
        for piece in pieces {
            parts.push(match piece {
                Piece::Literal(text) => Part::Literal(text),
                Piece::Expression(source) => Part::Value(formula(source)?),
            });
        }
        Some(match parts.as_mut_slice() {
            [] => Self::Literal(Value::from("")),
            [Part::Literal(text)] => Self::Literal(Value::from(std::mem::take(text))),
            _ => Self::Text(parts),
        })
    }

    /// Its value; null if its only expression is.
    pub(super) fn value(&self, values: &Values, budget: &mut u64) -> Result<Value, Refusal> {
        Ok(match self {
            Self::Literal(value) => value.clone(),
            Self::Value(formula) => formula.value(values, budget)?,
            Self::Text(parts) => {
                let mut text = String::new();
                for part in parts {
                    match part {
                        Part::Literal(literal) => text.push_str(literal),
                        Part::Value(formula) => match formula.value(values, budget)? {
                            Value::String(value) => text.push_str(&value),
                            value @ (Value::Bool(_) | Value::Number(_)) => {
                                text.push_str(&value.to_string());
                            }
                            other => {
                                return Err(formula.unusable(&format!(
                                    "the value is {other}, and has to be a string, a number or a boolean inside of a text"
                                )));
                            }
                        },
                    }
                }
                Value::from(text)
            }
            Self::List(items) => {
                let mut list = Vec::new();
                for item in items {
                    let value = item.value(values, budget)?;
                    if !value.is_null() {
                        list.push(value);
                    }
                }
                Value::Array(list)
            }
            Self::Object(fields) => {
                let mut object = Map::new();
                for (name, field) in fields {
                    let value = field.value(values, budget)?;
                    if !value.is_null() {
                        object.insert(name.clone(), value);
                    }
                }
                Value::Object(object)
            }
        })
    }

    /// Its value as a text.
    pub(super) fn rendered(
        &self,
        path: &str,
        values: &Values,
        budget: &mut u64,
    ) -> Result<String, Refusal> {
        match self.value(values, budget)? {
            Value::String(text) => Ok(text),
            other => Err(Refusal::Unreadable(format!(
                "{path}: the value is {other}, and has to be a string"
            ))),
        }
    }

    /// Whether the template can set the field at a dotted path.
    pub(super) fn may_set(&self, path: &str) -> bool {
        let mut here = self;
        for segment in crate::values::segments(path) {
            here = match here {
                Self::Object(fields) => match fields.iter().find(|(name, _)| name == segment) {
                    Some((_, field)) => field,
                    None => return false,
                },
                Self::Value(_) => return true,
                _ => return false,
            };
        }
        true
    }

    /// All expressions in it.
    pub(super) fn formulas<'a>(&'a self, all: &mut Vec<&'a Formula>) {
        match self {
            Self::Literal(_) => {}
            Self::Value(formula) => all.push(formula),
            Self::Text(parts) => all.extend(parts.iter().filter_map(|part| match part {
                Part::Value(formula) => Some(formula),
                Part::Literal(_) => None,
            })),
            Self::List(items) => items.iter().for_each(|item| item.formulas(all)),
            Self::Object(fields) => fields.iter().for_each(|(_, field)| field.formulas(all)),
        }
    }
}

/// A piece of a text.
#[derive(Debug, PartialEq, Eq)]
enum Piece<'a> {
    Literal(String),
    Expression(&'a str),
}

/// Splits a text at its expressions.
fn split(text: &str) -> Result<Vec<Piece<'_>>, String> {
    let mut pieces = Vec::new();
    let mut literal = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        if let Some(before) = rest[..at].strip_suffix('$') {
            literal.push_str(before);
            literal.push_str("${");
            rest = &rest[at + 2..];
            continue;
        }
        literal.push_str(&rest[..at]);
        let inside = &rest[at + 2..];
        let end = closing_brace(inside).ok_or_else(|| {
            format!(
                "the expression that begins with {:?} has no end",
                short(inside)
            )
        })?;
        if !literal.is_empty() {
            pieces.push(Piece::Literal(std::mem::take(&mut literal)));
        }
        pieces.push(Piece::Expression(&inside[..end]));
        rest = &inside[end + 1..];
    }
    literal.push_str(rest);
    if !literal.is_empty() {
        pieces.push(Piece::Literal(literal));
    }
    Ok(pieces)
}

fn short(text: &str) -> String {
    text.chars().take(20).collect()
}

/// Where the expression ends: at the brace that closes none of its own. Braces in strings do not count.
fn closing_brace(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let (mut depth, mut at) = (0_usize, 0);
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'\'' | b'"' => {
                let raw = at > 0 && matches!(bytes[at - 1], b'r' | b'R');
                at = string_end(bytes, at, raw)?;
                continue;
            }
            b'{' => depth += 1,
            b'}' if depth == 0 => return Some(at),
            b'}' => depth -= 1,
            _ => {}
        }
        at += 1;
    }
    None
}

/// The position behind the string that begins at `start`.
fn string_end(bytes: &[u8], start: usize, raw: bool) -> Option<usize> {
    let quote = *bytes.get(start)?;
    let triple = bytes.get(start + 1) == Some(&quote) && bytes.get(start + 2) == Some(&quote);
    let width = if triple { 3 } else { 1 };
    let mut at = start + width;
    while let Some(&byte) = bytes.get(at) {
        if byte == b'\\' && !raw {
            at += 2;
        } else if bytes.get(at..at + width)?.iter().all(|it| *it == quote) {
            return Some(at + width);
        } else {
            at += 1;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("plain", &[Piece::Literal("plain".into())])]
    #[case("", &[])]
    #[case("${a}", &[Piece::Expression("a")])]
    #[case("x ${a} y", &[Piece::Literal("x ".into()), Piece::Expression("a"), Piece::Literal(" y".into())])]
    #[case("$${a}", &[Piece::Literal("${a}".into())])]
    #[case("${{'a': {'b': 1}}}", &[Piece::Expression("{'a': {'b': 1}}")])]
    #[case("${'}'}-", &[Piece::Expression("'}'"), Piece::Literal("-".into())])]
    #[case(r"${'\'}'}", &[Piece::Expression(r"'\'}'")])]
    #[case(r#"${r"\"}"#, &[Piece::Expression(r#"r"\""#)])]
    #[case(r#"${"""}""" + ''}"#, &[Piece::Expression(r#""""}""" + ''"#)])]
    #[case("costs 5$", &[Piece::Literal("costs 5$".into())])]
    fn texts_are_split_at_expressions(#[case] text: &str, #[case] pieces: &[Piece<'_>]) {
        assert_eq!(split(text).unwrap(), pieces);
    }

    #[rstest]
    #[case("${a")]
    #[case("${'}")]
    #[case("${{}")]
    fn open_expressions_are_refused(#[case] text: &str) {
        assert!(split(text).unwrap_err().contains("has no end"));
    }
}
