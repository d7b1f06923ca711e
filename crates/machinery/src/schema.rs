//! Structural schemas of custom resources: what a CRD declares, and what follows from it.

mod types;

pub use types::{IntOrStringForm, ListType, MapType, Schema, SchemaType, ValidationRule};
