//! Dotted paths: `.spec.replicas`.

use std::fmt;

use serde_json::{Map, Value};

/// Field names from the root of an object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SimplePath {
    fields: Vec<String>,
}

/// A text that is no dotted path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SimplePathError {
    /// Nothing at all.
    #[error("must not be empty")]
    Empty,
    /// Not a chain of field names that starts with a dot, like `.spec.replicas`.
    #[error("must be a simple json path starting with .")]
    NotSimple,
}

impl SimplePath {
    /// Reads a path; lists, filters and quotes are not simple.
    pub fn parse(text: &str) -> Result<Self, SimplePathError> {
        if text.is_empty() {
            return Err(SimplePathError::Empty);
        }
        let fields: Vec<String> = text
            .strip_prefix('.')
            .ok_or(SimplePathError::NotSimple)?
            .split('.')
            .map(Into::into)
            .collect();
        let odd = |c: char| matches!(c, '[' | ']' | '{' | '}' | '*' | '\'' | '"' | ' ' | '\\');
        if fields.iter().any(|f| f.is_empty() || f.contains(odd)) {
            return Err(SimplePathError::NotSimple);
        }
        Ok(Self { fields })
    }

    /// The field names in order.
    pub fn fields(&self) -> impl Iterator<Item = &str> {
        self.fields.iter().map(String::as_str)
    }

    /// The value there, if there is one.
    pub fn get<'a>(&self, object: &'a Value) -> Option<&'a Value> {
        self.fields
            .iter()
            .try_fold(object, |value, field| value.as_object()?.get(field))
    }

    /// Puts a value there, making objects on the way. `false` when something on the way is not an
    /// object.
    pub fn set(&self, object: &mut Value, value: Value) -> bool {
        let Some((last, parents)) = self.fields.split_last() else {
            return false;
        };
        let mut at = object;
        for field in parents {
            let Some(map) = at.as_object_mut() else {
                return false;
            };
            at = map
                .entry(field.as_str())
                .or_insert_with(|| Value::Object(Map::new()));
        }
        match at.as_object_mut() {
            Some(map) => {
                map.insert(last.clone(), value);
                true
            }
            None => false,
        }
    }
}

impl fmt::Display for SimplePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fields
            .iter()
            .try_for_each(|field| write!(f, ".{field}"))
    }
}
