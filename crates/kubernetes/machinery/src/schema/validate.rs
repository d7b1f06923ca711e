//! Values against a schema, with the messages of `kube-openapi/pkg/validation/validate` as
//! `apiextensions-apiserver/pkg/apiserver/validation` turns them into field errors.

mod logic;

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use regex::Regex;
use serde_json::{Map, Value};

use super::correlate::{OldItems, field_schema, old_field, unchanged};
use super::formats;
use super::numbers::{Num, is_json_integer, range_error, to_int};
use super::types::{Schema, SchemaType};
use crate::field::{ErrorKind, ErrorList, FieldError, Path};
use crate::json::{go_float, go_quote};

/// Where in the validated value something is. Only rendered when there is an error to report.
struct At<'a> {
    parent: Option<&'a Self>,
    step: ValueSegment<'a>,
}

#[derive(Clone, Copy)]
enum ValueSegment<'a> {
    Root,
    /// A declared property; the first one has no dot in front.
    Field(&'a str),
    /// An undeclared or absent one; always with a dot.
    Dotted(&'a str),
    Index(usize),
}

const ROOT: At<'static> = At {
    parent: None,
    step: ValueSegment::Root,
};

impl<'a> At<'a> {
    fn below(&'a self, step: ValueSegment<'a>) -> Self {
        At {
            parent: Some(self),
            step,
        }
    }

    fn is_root(&self) -> bool {
        self.parent.is_none()
    }

    fn text(&self) -> String {
        let mut out = self.parent.map(At::text).unwrap_or_default();
        match self.step {
            ValueSegment::Root => {}
            ValueSegment::Field(name) if out.is_empty() => out.push_str(name),
            ValueSegment::Field(name) | ValueSegment::Dotted(name) => {
                out.push('.');
                out.push_str(name);
            }
            ValueSegment::Index(index) => {
                let _ = write!(out, "[{index}]");
            }
        }
        out
    }
}

/// What came of a check: the errors, and how much matched. Of several alternatives that all fail the
/// one that matched most is reported, so matches are counted exactly as upstream counts them.
#[derive(Default)]
struct Outcome {
    errors: Vec<FieldError>,
    matches: u32,
}

impl Outcome {
    fn merge(&mut self, other: Self) {
        self.errors.extend(other.errors);
        self.matches += other.matches;
    }

    fn is_valid(&self) -> bool {
        self.errors.is_empty()
    }
}

/// Checks values against schemas whose patterns are already compiled.
pub(super) struct Checker<'a> {
    /// Compiled patterns by their text; one that is missing matches nothing.
    pub(super) patterns: &'a HashMap<String, Regex>,
    /// Where the errors are reported.
    pub(super) base: &'a Path,
    /// Whether int-or-string nodes restrict the type: not when defaults are checked.
    pub(super) int_or_string: bool,
}

impl Checker<'_> {
    /// All errors of `value`; with `old`, those in unchanged parts are tolerated.
    pub(super) fn run(
        &self,
        schema: &Schema,
        value: &Value,
        old: Option<&Value>,
    ) -> Vec<FieldError> {
        let outcome = self.ratcheting(schema, value, &ROOT, old);
        let mut seen = HashSet::new();
        outcome
            .errors
            .into_iter()
            // `allOf` and `anyOf` find the same violation several times; upstream removes duplicates by text as well.
            .filter(|error| seen.insert(error.to_string()))
            .collect()
    }

    fn ratcheting(
        &self,
        schema: &Schema,
        value: &Value,
        at: &At<'_>,
        old: Option<&Value>,
    ) -> Outcome {
        let mut outcome = self.node(schema, value, at, old);
        // Compared only after a violation: most updates are valid, and the
        // comparison would cost as much as the check.
        if !outcome.is_valid() && old.is_some_and(|old| unchanged(schema, value, old)) {
            outcome.errors.clear();
        }
        outcome
    }

    fn node(&self, schema: &Schema, value: &Value, at: &At<'_>, old: Option<&Value>) -> Outcome {
        let mut out = Outcome::default();
        let types = self.types(schema);
        let format = if !schema.format.is_empty()
            && formats::recognized(&schema.format, schema.schema_type)
        {
            schema.format.as_str()
        } else {
            ""
        };
        if value.is_null() {
            match self.type_error(schema, types, format, value, at) {
                Some(error) => out.errors.push(error),
                None => out.matches += 1,
            }
            out.errors.extend(self.enumeration(schema, value, at));
            return out;
        }
        if !types.is_empty() || !format.is_empty() {
            match self.type_error(schema, types, format, value, at) {
                Some(error) => out.errors.push(error),
                None => out.matches += 1,
            }
            out.matches += 1;
        }
        out.merge(self.combinations(schema, value, at));
        out.matches += 1;
        match value {
            Value::String(text) => {
                out.errors.extend(self.string(schema, text, at));
                out.matches += 1;
                if let Some(fits) = formats::matches(format, text).filter(|_| !format.is_empty()) {
                    if !fits {
                        let detail = format!(
                            "{} in body must be of type {format}: {}",
                            at.text(),
                            go_quote(text)
                        );
                        out.errors.push(self.fault(
                            ErrorKind::TypeInvalid,
                            at,
                            text.as_str(),
                            detail,
                        ));
                    }
                    out.matches += 1;
                }
            }
            Value::Number(number) => {
                self.number(schema, types, format, Num::of(number), at, &mut out);
                out.matches += 2;
            }
            Value::Array(items) => {
                self.items(schema, items, at, old, &mut out);
                out.matches += 2;
            }
            _ => {}
        }
        out.errors.extend(self.enumeration(schema, value, at));
        out.matches += 1;
        if let Value::Object(map) = value {
            self.object(schema, map, at, old, &mut out);
            out.matches += 1;
        }
        out.matches += 1;
        out
    }

    fn types(&self, schema: &Schema) -> &'static [SchemaType] {
        use SchemaType::{Array, Boolean, Integer, Number, Object, String};
        if self.int_or_string && schema.int_or_string.is_some() {
            return &[Integer, String];
        }
        match schema.schema_type {
            None => &[],
            Some(Object) => &[Object],
            Some(Array) => &[Array],
            Some(String) => &[String],
            Some(Integer) => &[Integer],
            Some(Number) => &[Number],
            Some(Boolean) => &[Boolean],
        }
    }

    fn field(&self, at: &At<'_>) -> Path {
        let text = at.text();
        match text.strip_prefix('.').unwrap_or(&text) {
            "" => self.base.clone(),
            name => self.base.child(name),
        }
    }

    fn fault(
        &self,
        kind: ErrorKind,
        at: &At<'_>,
        value: impl Into<Value>,
        detail: impl Into<String>,
    ) -> FieldError {
        FieldError::with_value(kind, &self.field(at), value, detail)
    }

    fn invalid(&self, at: &At<'_>, value: impl Into<Value>, what: &str) -> FieldError {
        self.fault(
            ErrorKind::Invalid,
            at,
            value,
            format!("{} in body {what}", at.text()),
        )
    }

    /// Errors that upstream keeps no field for are reported at the base with an empty value.
    fn plain(&self, detail: String) -> FieldError {
        FieldError::invalid(self.base, "", detail)
    }

    fn type_error(
        &self,
        schema: &Schema,
        types: &[SchemaType],
        format: &str,
        value: &Value,
        at: &At<'_>,
    ) -> Option<FieldError> {
        let joined = || types.iter().map(|t| t.name()).collect::<Vec<_>>().join(",");
        let wrong = |wanted: &str, got: &str| {
            let detail = format!(
                "{} in body must be of type {wanted}: {}",
                at.text(),
                go_quote(got)
            );
            Some(self.fault(ErrorKind::TypeInvalid, at, got, detail))
        };
        let (found, found_format) = match value {
            Value::Null => {
                return if types.is_empty() || schema.nullable {
                    None
                } else {
                    wrong(&joined(), "null")
                };
            }
            Value::Bool(_) => (SchemaType::Boolean, ""),
            Value::String(_) => (SchemaType::String, ""),
            Value::Array(_) => (SchemaType::Array, ""),
            Value::Object(_) => (SchemaType::Object, ""),
            Value::Number(number) => match Num::of(number) {
                Num::Int(_) => (SchemaType::Integer, "int64"),
                Num::Float(_) => (SchemaType::Number, "float64"),
            },
        };
        let has = |t| types.contains(&t);
        let float_as_int = found == SchemaType::Number
            && has(SchemaType::Integer)
            && value.as_f64().is_some_and(is_json_integer);
        let int_as_float = found == SchemaType::Integer && has(SchemaType::Number);
        let text_or_list = matches!(found, SchemaType::String | SchemaType::Array);
        let fits = has(found) || float_as_int || int_as_float;
        if !text_or_list && !format.is_empty() && !fits && format != found_format {
            return wrong(format, found_format);
        }
        // A format takes strings and, by an oddity, lists out of the type check.
        let numeric = has(SchemaType::Number) || has(SchemaType::Integer);
        if (!numeric && !format.is_empty() && text_or_list) || fits {
            return None;
        }
        wrong(&joined(), found.name())
    }

    fn enumeration(&self, schema: &Schema, value: &Value, at: &At<'_>) -> Option<FieldError> {
        let accepted = &schema.enum_values;
        if accepted.is_empty() || accepted.iter().any(|one| converts_to(value, one)) {
            return None;
        }
        let texts = accepted.iter().map(|one| match one {
            Value::String(text) => text.clone(),
            other => crate::json::to_string(other),
        });
        Some(FieldError::not_supported(
            &self.field(at),
            value.clone(),
            texts,
        ))
    }

    fn string(&self, schema: &Schema, text: &str, at: &At<'_>) -> Option<FieldError> {
        if schema.max_length.is_some() || schema.min_length.is_some() {
            // Code points, although the message speaks of bytes: kube-openapi counts
            // runes, and apimachinery's `TooLong` words it.
            let length = text.chars().count() as u64;
            if let Some(max) = schema.max_length.filter(|max| length > *max) {
                let unit = if max == 1 { "byte" } else { "bytes" };
                let detail = format!("may not be more than {max} {unit}");
                return Some(FieldError::without_value(
                    ErrorKind::TooLong,
                    &self.field(at),
                    detail,
                ));
            }
            if let Some(min) = schema.min_length.filter(|min| length < *min) {
                let what = format!("should be at least {min} chars long");
                return Some(self.invalid(at, text, &what));
            }
        }
        if schema.pattern.is_empty()
            || self
                .patterns
                .get(&schema.pattern)
                .is_some_and(|p| p.is_match(text))
        {
            return None;
        }
        Some(self.invalid(at, text, &format!("should match '{}'", schema.pattern)))
    }

    fn number(
        &self,
        schema: &Schema,
        types: &[SchemaType],
        format: &str,
        number: Num,
        at: &At<'_>,
        out: &mut Outcome,
    ) {
        let type_name = match types {
            [one @ (SchemaType::Integer | SchemaType::Number)] => one.name(),
            _ => "",
        };
        let format = if type_name.is_empty() { "" } else { format };
        let mut in_range = |number: Num, what: &str| {
            let path = if type_name.is_empty() {
                String::new()
            } else {
                at.text()
            };
            let error = range_error(number, type_name, format, what, &path);
            let fits = error.is_none();
            out.errors.extend(error.map(|e| self.plain(e)));
            fits
        };
        in_range(number, "Checked");
        let mut found = Vec::new();
        if let Some(factor) = schema.multiple_of {
            let native = in_range(Num::Float(factor), "MultipleOf");
            found.extend(self.multiple_of(factor, number, native, at));
        }
        if let Some(min) = schema.minimum {
            let native = in_range(Num::Float(min), "Minimum boundary");
            let low = compare(number, min, native);
            let exclusive = schema.exclusive_minimum;
            if low.is_some_and(|o| o.is_lt() || (exclusive && o.is_eq())) {
                let than = if exclusive {
                    "greater than"
                } else {
                    "greater than or equal to"
                };
                let what = format!("should be {than} {}", bound(number, min, native));
                found.push(self.invalid(at, number.value(), &what));
            }
        }
        if let Some(max) = schema.maximum {
            let native = in_range(Num::Float(max), "Maximum boundary");
            let high = compare(number, max, native);
            let exclusive = schema.exclusive_maximum;
            if high.is_some_and(|o| o.is_gt() || (exclusive && o.is_eq())) {
                let than = if exclusive {
                    "less than"
                } else {
                    "less than or equal to"
                };
                let what = format!("should be {than} {}", bound(number, max, native));
                found.push(self.invalid(at, number.value(), &what));
            }
        }
        out.errors.extend(found);
    }

    fn multiple_of(
        &self,
        factor: f64,
        number: Num,
        native: bool,
        at: &At<'_>,
    ) -> Option<FieldError> {
        let positive = |shown: String, value: Value| {
            let detail = format!(
                "factor MultipleOf declared for {} must be positive: {shown}",
                at.text()
            );
            Some(self.fault(ErrorKind::Invalid, at, value, detail))
        };
        if let (Num::Int(int), true) = (number, native) {
            let whole = to_int(factor);
            if whole <= 0 {
                return positive(whole.to_string(), whole.into());
            }
            let what = format!("should be a multiple of {whole}");
            return (int % whole != 0).then(|| self.invalid(at, int, &what));
        }
        if factor <= 0.0 {
            return positive(go_float(factor, 6), factor.into());
        }
        let float = number.float();
        let quotient = if factor < 1.0 {
            1.0 / factor * float
        } else {
            float / factor
        };
        let what = format!("should be a multiple of {}", go_float(factor, 6));
        (!is_json_integer(quotient)).then(|| self.invalid(at, float, &what))
    }

    fn items(
        &self,
        schema: &Schema,
        items: &[Value],
        at: &At<'_>,
        old: Option<&Value>,
        out: &mut Outcome,
    ) {
        if let Some(item_schema) = schema.items.as_deref() {
            let before = old.and_then(|old| OldItems::new(schema, old));
            for (i, item) in items.iter().enumerate() {
                let was = before.as_ref().and_then(|b| b.find(item));
                out.merge(self.ratcheting(
                    item_schema,
                    item,
                    &at.below(ValueSegment::Index(i)),
                    was,
                ));
            }
        }
        let size = items.len();
        if let Some(min) = schema.min_items.filter(|min| (size as u64) < *min) {
            let what = format!("should have at least {min} items");
            out.errors.push(self.invalid(at, size, &what));
        }
        out.errors.extend(self.too_many(schema.max_items, size, at));
    }

    fn too_many(&self, max: Option<u64>, size: usize, at: &At<'_>) -> Option<FieldError> {
        let max = max.filter(|max| size as u64 > *max)?;
        let max = usize::try_from(max).unwrap_or(usize::MAX);
        Some(FieldError::too_many(&self.field(at), size, max))
    }

    fn object(
        &self,
        schema: &Schema,
        map: &Map<String, Value>,
        at: &At<'_>,
        old: Option<&Value>,
        out: &mut Outcome,
    ) {
        if let Some(min) = schema
            .min_properties
            .filter(|min| (map.len() as u64) < *min)
        {
            let what = format!("should have at least {min} properties");
            out.errors.push(self.invalid(at, map.len(), &what));
        }
        out.errors
            .extend(self.too_many(schema.max_properties, map.len(), at));
        // The version and kind of the root are never ratcheted: conversion hides their changes.
        let was = |name: &str| {
            let hidden = at.is_root() && matches!(name, "kind" | "apiVersion");
            old.filter(|_| !hidden)
                .and_then(|old| old_field(schema, old, name))
        };
        let declared = |name: &str| schema.properties.contains_key(name);
        for (name, value) in map.iter().filter(|(name, _)| !declared(name)) {
            if schema.additional_properties_bool == Some(false) {
                let detail = format!("{}.{name} in body is a forbidden property", at.text());
                out.errors
                    .push(self.fault(ErrorKind::Invalid, at, name.as_str(), detail));
            } else if let Some(extra) = field_schema(schema, name) {
                let at = at.below(ValueSegment::Dotted(name));
                out.merge(self.ratcheting(extra, value, &at, was(name)));
            }
        }
        for (name, property) in &schema.properties {
            if let Some(value) = map.get(name) {
                let at = at.below(ValueSegment::Field(name));
                out.merge(self.ratcheting(property, value, &at, was(name)));
            }
        }
        for name in schema
            .required
            .iter()
            .filter(|name| !map.contains_key(*name))
        {
            let field = self.field(&at.below(ValueSegment::Dotted(name)));
            out.errors.required(&field, "");
        }
    }
}

/// How a number stands to a bound: whole numbers are compared as such if the bound fits their type.
fn compare(number: Num, limit: f64, native: bool) -> Option<std::cmp::Ordering> {
    match number {
        Num::Int(int) if native => Some(int.cmp(&to_int(limit))),
        other => other.float().partial_cmp(&limit),
    }
}

/// The bound as the message shows it.
fn bound(number: Num, limit: f64, native: bool) -> String {
    match number {
        Num::Int(_) if native => to_int(limit).to_string(),
        _ => go_float(limit, 6),
    }
}

/// Whether `value`, converted to the type of `accepted` as Go's `reflect` does it, equals it. A null is
/// never among the accepted.
fn converts_to(value: &Value, accepted: &Value) -> bool {
    match (value, accepted) {
        (Value::Null, _) | (_, Value::Null) => false,
        (Value::Number(value), Value::Number(accepted)) => {
            match (Num::of(value), Num::of(accepted)) {
                (Num::Int(a), Num::Int(b)) => a == b,
                (Num::Float(a), Num::Int(b)) => to_int(a) == b,
                #[expect(clippy::float_cmp, reason = "the exact comparison is the rule")]
                (a, Num::Float(b)) => a.float() == b,
            }
        }
        (Value::Number(value), Value::String(accepted)) => match Num::of(value) {
            // Go makes a string of one character from an integer.
            Num::Int(int) => {
                let c = u32::try_from(int)
                    .ok()
                    .and_then(char::from_u32)
                    .unwrap_or('\u{fffd}');
                accepted.chars().eq([c])
            }
            Num::Float(_) => false,
        },
        (value, accepted) => value == accepted,
    }
}
