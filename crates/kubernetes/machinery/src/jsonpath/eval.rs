//! Following a path.

use std::cmp::Ordering;

use serde_json::Value;

use super::{MissingFields, Node, Operator, Slice};
use crate::json::to_string;

/// Repeated `..` multiply what they find, so there is an end to it.
pub(super) const MAX_RESULTS: usize = 100_000;

/// Why a path cannot be followed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EvalError {
    /// A field that no value has.
    #[error("{0} is not found")]
    Missing(String),
    /// An index or a range where there is no list.
    #[error("{0} is not array or slice")]
    NotAList(String),
    /// A filter where there is no list.
    #[error("{0} is not array or slice and cannot be filtered")]
    NotFilterable(String),
    /// An index beyond the list.
    #[error("array index out of bounds: index {index}, length {length}")]
    OutOfBounds {
        /// The index.
        index: i64,
        /// How many items there are.
        length: i64,
    },
    /// A range that runs backwards.
    #[error("starting index {0} is greater than ending index {1}")]
    Backwards(i64, i64),
    /// A range that does not move.
    #[error("step must be > 0")]
    Step,
    /// A filter over several values at once.
    #[error("can only compare one element at a time")]
    ManyValues,
    /// A filter over values of different or incomparable types.
    #[error("incompatible types for comparison")]
    Incomparable,
    /// The number of results exceeds the limit.
    #[error("more than {MAX_RESULTS} results")]
    TooManyResults,
}

/// Follows all steps from all inputs.
pub(super) fn list<'a>(
    mut values: Vec<&'a Value>,
    nodes: &'a [Node],
    missing: MissingFields,
) -> Result<Vec<&'a Value>, EvalError> {
    for node in nodes {
        values = step(&values, node, missing)?;
        if values.len() > MAX_RESULTS {
            return Err(EvalError::TooManyResults);
        }
    }
    Ok(values)
}

fn step<'a>(
    input: &[&'a Value],
    node: &'a Node,
    missing: MissingFields,
) -> Result<Vec<&'a Value>, EvalError> {
    let mut found = Vec::new();
    match node {
        Node::Field(name) => {
            found.extend(input.iter().filter_map(|v| v.as_object()?.get(name)));
            if found.is_empty() && !input.is_empty() && missing == MissingFields::Reject {
                return Err(EvalError::Missing(name.clone()));
            }
        }
        Node::Wildcard => input.iter().for_each(|v| children(v, &mut found)),
        Node::Recursive => {
            for value in input {
                descend(value, &mut found)?;
            }
        }
        // A text replaces its input, unlike numbers: `{.items[*]"x"}` is one x.
        Node::Literal(text @ Value::String(_)) => found.push(text),
        Node::Literal(value) => found.extend(input.iter().map(|_| value)),
        Node::Union(parts) => {
            for part in parts {
                found.extend(list(input.to_vec(), part, missing)?);
            }
        }
        Node::Slice(range) => {
            for value in input {
                slice(value, *range, &mut found)?;
            }
        }
        Node::Filter { left, comparison } => {
            for value in input {
                let items = value
                    .as_array()
                    .ok_or_else(|| EvalError::NotFilterable(to_string(value)))?;
                for item in items {
                    if passes(item, left, comparison.as_ref(), missing)? {
                        found.push(item);
                    }
                }
            }
        }
    }
    Ok(found)
}

fn children<'a>(value: &'a Value, found: &mut Vec<&'a Value>) {
    match value {
        Value::Array(items) => found.extend(items),
        Value::Object(map) => found.extend(map.values()),
        _ => {}
    }
}

/// All descendants, parents before children. Upstream skips empty values, numbers and booleans, but not
/// strings.
fn descend<'a>(value: &'a Value, found: &mut Vec<&'a Value>) -> Result<(), EvalError> {
    let keep = match value {
        Value::Array(items) => !items.is_empty(),
        Value::Object(map) => !map.is_empty(),
        Value::String(text) => !text.is_empty(),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    };
    if !keep {
        return Ok(());
    }
    found.push(value);
    // Here as well as in `list`: one descent into a large object may exceed the limit before the step ends.
    if found.len() > MAX_RESULTS {
        return Err(EvalError::TooManyResults);
    }
    let mut below = Vec::new();
    children(value, &mut below);
    below.into_iter().try_for_each(|v| descend(v, found))
}

fn slice<'a>(value: &'a Value, range: Slice, found: &mut Vec<&'a Value>) -> Result<(), EvalError> {
    let items = match value {
        // A missing list prints nothing; `kubectl get` has to show rows whose status is not filled in yet.
        Value::Null => return Ok(()),
        Value::Array(items) => items,
        other => return Err(EvalError::NotAList(crate::json::go_type(other).to_owned())),
    };
    let length = i64::try_from(items.len()).unwrap_or(i64::MAX);
    let from_end = |index: i64| {
        if index < 0 {
            index.saturating_add(length)
        } else {
            index
        }
    };
    let start = from_end(range.start.unwrap_or(0));
    let end = match range.end {
        // The one after the last, reached from `[-1]`, counts from the end as well.
        Some(0) if range.derived => length,
        Some(end) => from_end(end),
        None => length,
    };
    if start == end {
        return Ok(());
    }
    if start >= length || start < 0 {
        return Err(EvalError::OutOfBounds {
            index: start,
            length,
        });
    }
    if end > length || end < 0 {
        return Err(EvalError::OutOfBounds {
            index: end - 1,
            length,
        });
    }
    if start > end {
        return Err(EvalError::Backwards(start, end));
    }
    let step = range.step.unwrap_or(1);
    if step <= 0 {
        return Err(EvalError::Step);
    }
    let at = |index: i64| usize::try_from(index).unwrap_or(usize::MAX);
    found.extend(items[at(start)..at(end)].iter().step_by(at(step)));
    Ok(())
}

fn passes(
    item: &Value,
    left: &[Node],
    comparison: Option<&(Operator, Vec<Node>)>,
    missing: MissingFields,
) -> Result<bool, EvalError> {
    let found = list(vec![item], left, missing);
    let Some((operator, right)) = comparison else {
        // What cannot be followed does not exist.
        return Ok(found.is_ok_and(|found| !found.is_empty()));
    };
    let found = found?;
    let Some(left) = single(&found)? else {
        return Ok(false);
    };
    let found = list(vec![item], right, missing)?;
    let Some(right) = single(&found)? else {
        return Ok(false);
    };
    compare(left, *operator, right)
}

fn single<'a>(found: &[&'a Value]) -> Result<Option<&'a Value>, EvalError> {
    match found {
        [] => Ok(None),
        [one] => Ok(Some(one)),
        _ => Err(EvalError::ManyValues),
    }
}

/// Integers, floats, texts and truth values, each with its own kind only.
fn compare(left: &Value, operator: Operator, right: &Value) -> Result<bool, EvalError> {
    let order = match (left, right) {
        (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
        (Value::Number(a), Value::Number(b)) => match (a.as_i64(), b.as_i64()) {
            (Some(a), Some(b)) => Some(a.cmp(&b)),
            (None, None) => a.as_f64().partial_cmp(&b.as_f64()),
            _ => None,
        },
        (Value::Bool(a), Value::Bool(b)) => {
            // Truth values have no order.
            return match operator {
                Operator::Equal => Ok(a == b),
                Operator::NotEqual => Ok(a != b),
                _ => Err(EvalError::Incomparable),
            };
        }
        _ => None,
    };
    let order = order.ok_or(EvalError::Incomparable)?;
    Ok(match operator {
        Operator::Equal => order == Ordering::Equal,
        Operator::NotEqual => order != Ordering::Equal,
        Operator::Less => order == Ordering::Less,
        Operator::LessOrEqual => order != Ordering::Greater,
        Operator::Greater => order == Ordering::Greater,
        Operator::GreaterOrEqual => order != Ordering::Less,
    })
}
