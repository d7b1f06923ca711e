//! Why an apply fails.

use thiserror::Error;

use super::conflict::Conflicts;
use super::managed::ManagedFieldsError;
use super::typed::TypedErrors;
use crate::status::Status;

/// Why an apply fails.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ApplyError {
    /// The configuration is of another kind or version than the endpoint.
    #[error("invalid object type: {0}")]
    InvalidObjectType(String),
    /// The configuration contains `managedFields`.
    #[error("metadata.managedFields must be nil")]
    ManagedFieldsGiven,
    /// Others own what would change.
    #[error("{0}")]
    Conflict(Conflicts),
    /// The configuration does not have the type of the kind.
    #[error("failed to create typed patch object ({object}): {errors}")]
    TypedPatch {
        /// Which object.
        object: String,
        /// The errors.
        errors: TypedErrors,
    },
    /// The stored object does not match the type of the kind.
    #[error("failed to create typed live object ({object}): {errors}")]
    TypedLive {
        /// Which object.
        object: String,
        /// The errors.
        errors: TypedErrors,
    },
    /// The stored object has invalid `managedFields`.
    #[error("failed to decode managed fields: {0}")]
    ManagedFields(#[from] ManagedFieldsError),
    /// The object cannot be had in the version of the request, or there is no such version.
    #[error("{0}")]
    Version(String),
    /// The owner of what was there before the first apply cannot be recorded.
    #[error("failed to create manager for existing fields: {0}")]
    BeforeFirstApply(String),
}

impl From<ApplyError> for Status {
    /// The answer that kube-apiserver gives; type errors are plain 500s there.
    fn from(error: ApplyError) -> Self {
        match &error {
            ApplyError::Conflict(conflicts) => conflicts.into(),
            ApplyError::InvalidObjectType(_) | ApplyError::ManagedFieldsGiven => {
                Self::bad_request(error.to_string())
            }
            // 500 without a reason looks wrong and is what kube-apiserver answers to an unknown field in an apply;
            // clients and test suites compare it.
            _ => Self::plain_500(error.to_string()),
        }
    }
}
