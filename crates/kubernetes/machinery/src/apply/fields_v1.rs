//! The wire form of a field set: `FieldsV1`.

use std::sync::Arc;

use serde_json::{Map, Value};
use thiserror::Error;

use super::path::PathElement;
use super::set::FieldSet;
use crate::json;

/// Deeper than any object that can be stored; stops hostile input from exhausting the stack.
const MAX_DEPTH: usize = 256;

/// Why a `fieldsV1` value cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FieldsV1Error {
    /// A level that is no object.
    #[error("a level of the set is not an object")]
    NotAnObject,
    /// A key too short to name an element.
    #[error("key {0:?} must be at least 2 characters long")]
    ShortKey(String),
    /// A key without a colon after its kind.
    #[error("missing colon: {0}")]
    MissingColon(String),
    /// A key whose content does not match its kind.
    #[error("malformed path element {0:?}")]
    Malformed(String),
    /// More levels than an object can have.
    #[error("the set is nested more than {MAX_DEPTH} levels deep")]
    TooDeep,
}

impl FieldSet {
    /// Reads a set. Elements of a kind that is not known are left out, as upstream does for the
    /// sake of newer writers.
    pub fn from_fields_v1(value: &Value) -> Result<Self, FieldsV1Error> {
        read(value, 0).map(|(set, _)| set)
    }

    /// Writes the set.
    pub fn to_fields_v1(&self) -> Value {
        Value::Object(write(self))
    }
}

/// The set at one level and whether the level itself is a member.
fn read(value: &Value, depth: usize) -> Result<(FieldSet, bool), FieldsV1Error> {
    let map = match value {
        Value::Null => return Ok((FieldSet::default(), true)),
        Value::Object(_) if depth >= MAX_DEPTH => return Err(FieldsV1Error::TooDeep),
        Value::Object(map) => map,
        _ => return Err(FieldsV1Error::NotAnObject),
    };
    let mut set = FieldSet::default();
    let mut member = false;
    for (key, below) in map {
        if key == "." {
            member = true;
        } else if let Some(element) = read_element(key)? {
            let (children, is_member) = read(below, depth + 1)?;
            set.push(element, is_member, children);
        }
    }
    // `{}` means the element itself; `"."` is written only where there are children as well (`fieldpath/serialize.go`
    // of structured-merge-diff).
    member |= set.is_empty();
    Ok((set, member))
}

fn read_element(key: &str) -> Result<Option<PathElement>, FieldsV1Error> {
    let bytes = key.as_bytes();
    let [kind, separator, ..] = bytes else {
        return Err(FieldsV1Error::ShortKey(key.to_owned()));
    };
    if *separator != b':' {
        return Err(FieldsV1Error::MissingColon(key.to_owned()));
    }
    let malformed = || FieldsV1Error::Malformed(key.to_owned());
    let Some(text) = key.get(2..) else {
        return Err(malformed());
    };
    let element = match kind {
        b'f' => PathElement::field(text),
        b'k' => {
            let fields: Map<String, Value> = serde_json::from_str(text).map_err(|_| malformed())?;
            // A map of serde_json is sorted already.
            let fields: Vec<(Arc<str>, Value)> = fields
                .into_iter()
                .map(|(name, value)| (name.into(), value))
                .collect();
            PathElement::Key(fields.into())
        }
        b'v' => PathElement::item(serde_json::from_str(text).map_err(|_| malformed())?),
        b'i' => PathElement::Index(text.parse().map_err(|_| malformed())?),
        _ => return Ok(None),
    };
    Ok(Some(element))
}

fn write(set: &FieldSet) -> Map<String, Value> {
    let mut out = Map::new();
    for node in set.nodes() {
        let mut below = write(&node.children);
        if node.member && !below.is_empty() {
            below.insert(".".to_owned(), Value::Object(Map::new()));
        }
        out.insert(element_key(&node.element), Value::Object(below));
    }
    out
}

fn element_key(element: &PathElement) -> String {
    match element {
        PathElement::Field(name) => format!("f:{name}"),
        PathElement::Key(fields) => {
            let mut text = String::from("k:{");
            for (i, (name, value)) in fields.iter().enumerate() {
                if i > 0 {
                    text.push(',');
                }
                text.push_str(&json::to_string(&Value::from(&**name)));
                text.push(':');
                text.push_str(&json::to_string(value));
            }
            text.push('}');
            text
        }
        PathElement::Item(value) => format!("v:{}", json::to_string(value)),
        PathElement::Index(index) => format!("i:{index}"),
    }
}
