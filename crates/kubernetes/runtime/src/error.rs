//! Errors of a reconcile.

/// Why a reconcile failed, and in which operation.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server rejected the request or could not be reached.
    #[error("{operation}: {}", message(cause))]
    Api {
        /// The operation and its object.
        operation: String,
        /// The error of the request; the display text includes it.
        cause: Box<kube::Error>,
    },
    /// An object contains something the controller cannot act on.
    #[error("{0}")]
    Invalid(String),
    /// Something did not happen in time.
    #[error("{0}")]
    Late(String),
}

impl Error {
    /// Wraps an API error with the operation that failed.
    pub fn api(operation: impl Into<String>) -> impl FnOnce(kube::Error) -> Self {
        let operation = operation.into();
        move |cause| Self::Api {
            operation,
            cause: Box::new(cause),
        }
    }

    /// The HTTP status code of the API server's response.
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Api { cause, .. } => code(cause),
            Self::Invalid(_) | Self::Late(_) => None,
        }
    }

    /// Whether another writer was faster: the object has changed since it was read. A retry with the
    /// current object should succeed.
    pub fn is_conflict(&self) -> bool {
        matches!(self.code(), Some(404 | 409))
    }
}

/// The message of the API server, without kube's prefix.
fn message(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}

/// The HTTP status code of an error response.
fn code(error: &kube::Error) -> Option<u16> {
    match error {
        kube::Error::Api(status) => Some(status.code),
        _ => None,
    }
}

/// Treats 404 as absence instead of an error.
pub trait Absent<T> {
    /// `None` if the object does not exist (404).
    fn not_found_as_none(self) -> Result<Option<T>, kube::Error>;
}

impl<T> Absent<T> for Result<T, kube::Error> {
    fn not_found_as_none(self) -> Result<Option<T>, kube::Error> {
        match self {
            Ok(value) => Ok(Some(value)),
            Err(error) if code(&error) == Some(404) => Ok(None),
            Err(error) => Err(error),
        }
    }
}
