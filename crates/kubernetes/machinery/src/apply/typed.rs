//! What can be done with values once their merge type is known.

mod compare;
mod item;
mod merge;
mod reconcile;
mod remove;
mod to_set;
mod validate;

#[cfg(test)]
mod tests;

use super::schema::{Schema, TypeRef};

pub use compare::Comparison;
pub use validate::{Duplicates, TypedError, TypedErrors};

/// A merge type, ready to read values with.
///
/// All operations but [`Typed::validate`] expect values that passed it; they never fail, and give
/// no useful result for values that did not.
#[derive(Debug, Clone, Copy)]
pub struct Typed<'a> {
    schema: &'a Schema,
    root: &'a TypeRef,
}

impl<'a> Typed<'a> {
    /// Reads values as `root`, a type of `schema`.
    pub fn new(schema: &'a Schema, root: &'a TypeRef) -> Self {
        Self { schema, root }
    }
}
