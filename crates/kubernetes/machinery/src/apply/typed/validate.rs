//! Whether a value has its merge type; the texts are those of `structured-merge-diff/typed`.

use std::collections::BTreeSet;
use std::fmt::{self, Write as _};

use serde_json::Value;

use super::{Typed, item};
use crate::apply::path::PathElement;
use crate::apply::schema::{Form, ListRelation, ListType, MapType, Scalar, TypeRef};
use crate::json::{go_dynamic_type, go_quote};
use crate::patch::go_print;

/// Deeper than any object the API accepts; stops hostile input from exhausting the stack.
const MAX_DEPTH: usize = 256;

/// Whether an associative list may hold several items with the same key. Stored objects may, because
/// they may predate the list becoming associative; applied configurations may not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Duplicates {
    /// They may.
    Allow,
    /// They may not.
    Deny,
}

/// One place where a value does not have its type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypedError {
    /// Where, as path text; empty for the whole value.
    pub path: String,
    /// The message.
    pub message: String,
}

/// Every place where a value does not have its type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypedErrors(pub Vec<TypedError>);

impl fmt::Display for TypedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            return f.write_str(&self.message);
        }
        write!(f, "{}: {}", self.path, self.message)
    }
}

impl fmt::Display for TypedErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [only] = self.0.as_slice() {
            return only.fmt(f);
        }
        f.write_str("errors:")?;
        self.0.iter().try_for_each(|error| write!(f, "\n  {error}"))
    }
}

impl std::error::Error for TypedErrors {}

impl Typed<'_> {
    /// Checks a value against the type.
    pub fn validate(&self, value: &Value, duplicates: Duplicates) -> Result<(), TypedErrors> {
        let errors = self.check(self.root, value, duplicates, 0);
        if errors.is_empty() {
            Ok(())
        } else {
            Err(TypedErrors(errors))
        }
    }

    fn check(
        &self,
        reference: &TypeRef,
        value: &Value,
        duplicates: Duplicates,
        depth: usize,
    ) -> Vec<TypedError> {
        let Some(definition) = self.schema.resolve(reference) else {
            return error(format!(
                "schema error: no type found matching: {}",
                name_of(reference)
            ));
        };
        if definition.opaque {
            return match value {
                Value::Null | Value::Array(_) => Vec::new(),
                other => error(format!("expected list, got {}", shown(other))),
            };
        }
        if depth > MAX_DEPTH {
            return error(format!("nested more than {MAX_DEPTH} levels deep"));
        }
        match definition.form(definition.forms(Some(value))) {
            Some(Form::Scalar(scalar)) => check_scalar(scalar, value),
            Some(Form::List(list)) => self.check_list(list, value, duplicates, depth),
            Some(Form::Map(map)) => self.check_map(map, value, duplicates, depth),
            None => error(format!(
                "schema error: invalid atom: {}",
                atom_name(reference)
            )),
        }
    }

    fn check_list(
        &self,
        list: &ListType,
        value: &Value,
        duplicates: Duplicates,
        depth: usize,
    ) -> Vec<TypedError> {
        let items = match value {
            Value::Null => return Vec::new(),
            Value::Array(items) => items,
            other => return error(format!("expected list, got {}", shown(other))),
        };
        let associative = list.relation != ListRelation::Atomic;
        let mut seen = BTreeSet::new();
        let mut errors = Vec::new();
        for (index, child) in items.iter().enumerate() {
            if associative {
                if let Err(why) = item::check(list, child) {
                    errors.extend(error(format!("element {index}: {why}")));
                    // The first item that has no identity ends the list: the paths of
                    // the following ones would be guesses.
                    return errors;
                }
                if duplicates == Duplicates::Deny
                    && let Ok(element) = item::element(list, child)
                    // One error for each further item of the key, in the order of the list, as upstream reports them.
                    && let Some(twice) = seen.replace(element)
                {
                    errors.extend(error(format!("duplicate entries for key {twice}")));
                }
            }
            let below = self.check(&list.element, child, duplicates, depth + 1);
            if !below.is_empty() {
                let element = if associative {
                    item::element(list, child).unwrap_or_else(|_| PathElement::Index(place(index)))
                } else {
                    PathElement::Index(place(index))
                };
                errors.extend(prefixed(&element, below));
            }
        }
        errors
    }

    fn check_map(
        &self,
        map: &MapType,
        value: &Value,
        duplicates: Duplicates,
        depth: usize,
    ) -> Vec<TypedError> {
        let entries = match value {
            Value::Null => return Vec::new(),
            Value::Object(entries) => entries,
            other => return error(format!("expected map, got {}", shown(other))),
        };
        let mut errors = Vec::new();
        for (name, child) in entries {
            let Some(reference) = map.entry(name) else {
                let unknown = error("field not declared in schema".to_owned());
                errors.extend(prefixed(&PathElement::field(name), unknown));
                // Upstream gives up on a map at its first unknown field.
                break;
            };
            let below = self.check(reference, child, duplicates, depth + 1);
            if !below.is_empty() {
                errors.extend(prefixed(&PathElement::field(name), below));
            }
        }
        errors
    }
}

fn check_scalar(scalar: Scalar, value: &Value) -> Vec<TypedError> {
    let fits = match scalar {
        _ if value.is_null() => true,
        Scalar::Numeric => value.is_number(),
        Scalar::String => value.is_string(),
        Scalar::Boolean => value.is_boolean(),
        Scalar::Untyped => !value.is_array() && !value.is_object(),
    };
    if fits {
        return Vec::new();
    }
    error(match scalar {
        Scalar::Numeric => format!(
            "expected numeric (int or float), got {}",
            go_dynamic_type(value)
        ),
        Scalar::String => {
            // Upstream prints this one with `%#v`, which shows the Go type; the others use `%v`.
            let mut text = String::from("expected string, got &value.valueUnstructured{Value:");
            go_syntax(value, &mut text);
            text.push('}');
            text
        }
        Scalar::Boolean => format!("expected boolean, got {}", shown(value)),
        Scalar::Untyped => format!("expected any scalar, got {}", shown(value)),
    })
}

fn error(message: String) -> Vec<TypedError> {
    vec![TypedError {
        path: String::new(),
        message,
    }]
}

fn prefixed(element: &PathElement, mut errors: Vec<TypedError>) -> Vec<TypedError> {
    let prefix = element.to_string();
    for error in &mut errors {
        error.path.insert_str(0, &prefix);
    }
    errors
}

fn place(index: usize) -> i64 {
    i64::try_from(index).unwrap_or(i64::MAX)
}

fn name_of(reference: &TypeRef) -> &str {
    if let TypeRef::Named(name) = reference {
        name
    } else {
        "inlined type"
    }
}

fn atom_name(reference: &TypeRef) -> String {
    match reference {
        TypeRef::Named(name) => format!("named type: {name}"),
        _ => "inlined".to_owned(),
    }
}

/// Go's `%v` of the box that a decoded value is in.
fn shown(value: &Value) -> String {
    format!("&{{{}}}", go_print(value))
}

/// Go's `%#v` of a decoded value.
fn go_syntax(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("interface {}(nil)"),
        Value::Bool(_) | Value::Number(_) => out.push_str(&go_print(value)),
        Value::String(text) => out.push_str(&go_quote(text)),
        Value::Array(items) => {
            out.push_str("[]interface {}{");
            for (i, item) in items.iter().enumerate() {
                out.push_str(if i > 0 { ", " } else { "" });
                go_syntax(item, out);
            }
            out.push('}');
        }
        Value::Object(map) => {
            out.push_str("map[string]interface {}{");
            for (i, (key, item)) in map.iter().enumerate() {
                let _ = write!(out, "{}{}:", if i > 0 { ", " } else { "" }, go_quote(key));
                go_syntax(item, out);
            }
            out.push('}');
        }
    }
}
