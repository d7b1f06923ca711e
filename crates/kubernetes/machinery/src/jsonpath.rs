//! Paths into objects, as CRDs write them.
//!
//! Printer columns use kubectl's dialect of JSONPath (`client-go/util/jsonpath`), compiled once into
//! a [`JsonPath`]; so do the templates of `-o jsonpath` ([`Template`]) and `-o custom-columns` ([`CustomColumns`]). The scale subresource and selectable fields use plain dotted paths, a
//! [`SimplePath`].

mod columns;
mod eval;
mod parse;
mod print;
mod simple;
mod template;
#[cfg(test)]
mod tests;

use serde_json::Value;

pub use columns::{ColumnsError, CustomColumns, align};
pub use eval::EvalError;
pub use parse::ParseError;
pub(crate) use parse::unquote;
pub(crate) use print::text;
pub use simple::{SimplePath, SimplePathError};
pub use template::{Template, TemplateError};

/// A compiled path.
#[derive(Debug, Clone, PartialEq)]
pub struct JsonPath {
    nodes: Vec<Node>,
}

impl JsonPath {
    /// Compiles the inside of a `{...}` action: `.spec.ports[0].name`.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        Ok(Self {
            nodes: parse::action(text)?,
        })
    }

    /// All values the path leads to. Missing fields lead nowhere; an index out of bounds or a
    /// filter on something that is no list is an error.
    pub fn find<'a>(&'a self, data: &'a Value) -> Result<Vec<&'a Value>, EvalError> {
        eval::list(vec![data], &self.nodes, MissingFields::Ignore)
    }
}

/// Fields that no value has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MissingFields {
    /// They lead nowhere.
    Ignore,
    /// They are errors.
    Reject,
}

/// One step of a path.
#[derive(Debug, Clone, PartialEq)]
enum Node {
    /// `.name` or `['name']`
    Field(String),
    /// `.*`
    Wildcard,
    /// `..`
    Recursive,
    /// `[0]`, `[-1]`, `[1:3]`, `[*]`
    Slice(Slice),
    /// `[0,2]`, `['a','b']`
    Union(Vec<Vec<Self>>),
    /// `[?(@.a=="x")]`; without an operator, `[?(@.a)]`
    Filter {
        left: Vec<Self>,
        comparison: Option<(Operator, Vec<Self>)>,
    },
    /// A text, number or truth value, in filters.
    Literal(Value),
}

/// Start, end and step of a range; `None` for absent parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Slice {
    start: Option<i64>,
    end: Option<i64>,
    /// The end was not given but follows from a single index.
    derived: bool,
    step: Option<i64>,
}

/// How a filter compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}
