//! Label and field selectors: reading, printing, matching.
//!
//! The texts of the errors are those of `apimachinery/pkg/labels` and `apimachinery/pkg/fields`,
//! because clients see them in answers to a bad query.

mod field;
mod label;
mod parse;
#[cfg(test)]
mod tests;

pub use field::{FieldRequirement, FieldSelector};
pub use label::{LabelSelector, Operator, Requirement};
pub(crate) use label::{strings_at, text_at};
