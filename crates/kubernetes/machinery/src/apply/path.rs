//! One step of a path into an object, and the order such steps have.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use serde_json::{Number, Value};

use crate::json::{compare_with_float, go_quote};
use crate::patch::go_print;

/// How a child is found in its parent.
///
/// Steps are ordered field, key, item, index, as `structured-merge-diff` orders them; numbers
/// compare by value, so that `1` and `1.0` are the same step.
#[derive(Debug, Clone)]
pub enum PathElement {
    /// A field of an object.
    Field(Arc<str>),
    /// The item of an associative list that has these key fields; sorted by name.
    Key(Arc<[(Arc<str>, Value)]>),
    /// The item of a set that has this value.
    Item(Arc<Value>),
    /// The item at this place of a list.
    Index(i64),
}

impl PathElement {
    /// A field of an object.
    pub fn field(name: &str) -> Self {
        Self::Field(name.into())
    }

    /// The item of an associative list with these key fields, in any order.
    pub fn key(mut fields: Vec<(Arc<str>, Value)>) -> Self {
        fields.sort_by(|a, b| a.0.cmp(&b.0));
        Self::Key(fields.into())
    }

    /// The item of a set.
    pub fn item(value: Value) -> Self {
        Self::Item(Arc::new(value))
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Field(_) => 0,
            Self::Key(_) => 1,
            Self::Item(_) => 2,
            Self::Index(_) => 3,
        }
    }
}

impl Ord for PathElement {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Field(a), Self::Field(b)) => a.cmp(b),
            (Self::Key(a), Self::Key(b)) => compare_keys(a, b),
            (Self::Item(a), Self::Item(b)) => compare_values(a, b),
            (Self::Index(a), Self::Index(b)) => a.cmp(b),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for PathElement {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for PathElement {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for PathElement {}

impl fmt::Display for PathElement {
    /// The text error messages use: `.name`, `[port=80,proto="TCP"]`, `[="x"]`, `[3]`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Key(fields) => {
                f.write_str("[")?;
                for (i, (name, value)) in fields.iter().enumerate() {
                    let comma = if i > 0 { "," } else { "" };
                    write!(f, "{comma}{name}={}", value_text(value))?;
                }
                f.write_str("]")
            }
            Self::Item(value) => write!(f, "[={}]", value_text(value)),
            Self::Index(index) => write!(f, "[{index}]"),
        }
    }
}

/// A whole path as messages print it.
pub fn path_text(path: &[PathElement]) -> String {
    use fmt::Write as _;
    let mut text = String::new();
    for element in path {
        // Writing to a string cannot fail.
        let _ = write!(text, "{element}");
    }
    text
}

fn compare_keys(a: &[(Arc<str>, Value)], b: &[(Arc<str>, Value)]) -> Ordering {
    for ((name_a, value_a), (name_b, value_b)) in a.iter().zip(b) {
        let order = name_a
            .cmp(name_b)
            .then_with(|| compare_values(value_a, value_b));
        if order != Ordering::Equal {
            return order;
        }
    }
    a.len().cmp(&b.len())
}

/// The order of values of any type: numbers, strings, booleans, lists, maps, null.
pub(super) fn compare_values(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => compare_numbers(a, b),
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Array(a), Value::Array(b)) => {
            let first = a
                .iter()
                .zip(b)
                .map(|(a, b)| compare_values(a, b))
                .find(|o| o.is_ne());
            first.unwrap_or_else(|| a.len().cmp(&b.len()))
        }
        (Value::Object(a), Value::Object(b)) => {
            let first = a
                .iter()
                .zip(b)
                .map(|((ka, va), (kb, vb))| ka.cmp(kb).then_with(|| compare_values(va, vb)))
                .find(|o| o.is_ne());
            first.unwrap_or_else(|| a.len().cmp(&b.len()))
        }
        _ => value_rank(a).cmp(&value_rank(b)),
    }
}

/// Whether two values are the same; numbers by value, so `1` is `1.0`.
pub fn values_equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => compare_numbers(a, b).is_eq(),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| values_equal(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.iter()
                    .zip(b)
                    .all(|((ka, va), (kb, vb))| ka == kb && values_equal(va, vb))
        }
        _ => a == b,
    }
}

fn value_rank(value: &Value) -> u8 {
    match value {
        Value::Number(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    }
}

// Never through `f64` for integers: 2^53 and 2^53 + 1 would be one list item.
fn compare_numbers(a: &Number, b: &Number) -> Ordering {
    let with_float = |int: i128, float: &Number| {
        let float = float.as_f64().unwrap_or_default();
        compare_with_float(int, float).unwrap_or(Ordering::Equal)
    };
    match (integer(a), integer(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        (None, None) => {
            let (a, b) = (
                a.as_f64().unwrap_or_default(),
                b.as_f64().unwrap_or_default(),
            );
            a.partial_cmp(&b).unwrap_or(Ordering::Equal)
        }
        (Some(a), None) => with_float(a, b),
        (None, Some(b)) => with_float(b, a).reverse(),
    }
}

fn integer(number: &Number) -> Option<i128> {
    number
        .as_i64()
        .map(i128::from)
        .or_else(|| number.as_u64().map(i128::from))
}

/// A scalar as Go prints it in a path.
fn value_text(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(_) => go_print(value),
        Value::String(text) => go_quote(text),
        Value::Array(items) => {
            format!(
                "[{}]",
                items.iter().map(value_text).collect::<Vec<_>>().join(",")
            )
        }
        Value::Object(map) => {
            let entry = |(key, value): (&String, &Value)| format!("{key}={}", value_text(value));
            map.iter().map(entry).collect::<Vec<_>>().concat()
        }
    }
}
