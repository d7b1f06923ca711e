//! The three ways to change an object in place: JSON patch, merge patch, strategic merge patch.
//!
//! ```text
//! bytes --JsonPatch::decode-----------> JsonPatch --apply--------------------+
//! bytes --decode_merge_patch----------> Value ------merge_patch--------------+--> patched object
//! bytes --decode_strategic_patch------> Value ------strategic_merge_patch----+
//! ```
//!
//! Decoding and applying are separate, because a patch is applied again whenever the object changed
//! under it. The result has yet to be pruned, defaulted and validated like any other input; it may hold
//! nulls and, in lists that are replaced as a whole, unconsumed directives.

mod go_print;
mod json_patch;
mod merge;
pub mod strategic;
#[cfg(test)]
mod tests;

use crate::status::{Details, Status};

pub use go_print::go_print;
pub use json_patch::{JsonPatch, MAX_COPIED_BYTES, MAX_OPERATIONS, json_patch};
pub use merge::{decode_merge_patch, merge_difference, merge_patch};
pub use strategic::{
    Opaque, PatchStrategy, StrategicField, StrategicType, TypeKind, decode_strategic_patch,
    strategic_merge_patch,
};

/// Why a patch was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// The patch itself cannot be understood: 400 with this text.
    #[error("{0}")]
    Malformed(String),
    /// The patch does not apply to this object: 422. Clients never see the detail.
    #[error("the patch does not apply: {0}")]
    Unprocessable(String),
    /// A JSON patch of this many operations: 413.
    #[error("a JSON patch of {0} operations, at most {MAX_OPERATIONS} are accepted")]
    TooManyOperations(usize),
    /// What a genuine server answers with a bare 500 and this text.
    #[error("{0}")]
    Internal(String),
}

impl PatchError {
    /// The answer of the API.
    pub fn status(&self) -> Status {
        match self {
            Self::Malformed(text) => Status::bad_request(text.clone()),
            // `errors.NewGenericServerResponse` keeps the server's own words to itself.
            Self::Unprocessable(_) => Status::failure(
                422,
                "Invalid",
                "the server rejected our request due to an error in our request",
            )
            .with_details(Details::default()),
            Self::TooManyOperations(count) => Status::failure(
                413,
                "RequestEntityTooLarge",
                format!(
                    "Request entity too large: The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {count}"
                ),
            ),
            Self::Internal(text) => Status::plain_500(text.clone()),
        }
    }
}
