//! Structural schemas of custom resources: what a CRD declares, and what follows from it.
//!
//! ```text
//! CRD --crd::validate_crd--> accepted --CompiledSchema--> kept per version
//! object --coerce--> --prune--> --prune_nulls--> --default--> CompiledSchema::validate
//!        --check_embedded--> --check_lists--> rules, unless rules_blocked
//! ```

pub mod crd;
pub mod openapi;
pub mod regexp;

mod check;
mod compiled;
mod correlate;
mod defaulting;
mod embedded;
mod field_path;
mod formats;
mod lists;
mod names;
mod node;
mod numbers;
mod parse;
mod prune;
mod types;
mod validate;

#[cfg(test)]
mod tests;

pub(crate) use check::check_rule_form;
pub use check::{Checks, check_structural, unrecognized_formats};
pub use compiled::CompiledSchema;
pub(crate) use correlate::{OldItems, field_schema, unchanged};
pub use defaulting::{default, prune_nulls};
pub use embedded::{check_embedded, coerce};
pub use field_path::valid_field_path;
pub(crate) use formats::is_uuid;
pub use lists::{check_lists, check_lists_update};
pub use prune::prune;
pub use types::{IntOrStringForm, ListType, MapType, Schema, SchemaType, ValidationRule};

use crate::field::{ErrorKind, FieldError, Path};

/// The error that takes the place of the rules when `errors` leave an object in no state to run them:
/// a wrong type, a missing or unaccepted value, or one that is too large for the cost estimates.
///
/// To be appended only for schemas that have rules.
pub fn rules_blocked(errors: &[FieldError]) -> Option<FieldError> {
    let blocking = errors.iter().any(|error| {
        matches!(
            error.kind,
            ErrorKind::NotSupported
                | ErrorKind::Required
                | ErrorKind::TooLong
                | ErrorKind::TooMany
                | ErrorKind::TypeInvalid
        )
    });
    blocking.then(|| {
        FieldError::invalid(
            &Path::root(),
            serde_json::Value::Null,
            "some validation rules were not checked because the object was invalid; correct the \
             existing errors to complete validation",
        )
    })
}
