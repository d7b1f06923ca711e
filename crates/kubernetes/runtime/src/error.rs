//! Errors of a reconcile.

use kube::core::Status;

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
        self.status().map(|status| status.code)
    }

    /// The API server's response, if it answered.
    pub fn status(&self) -> Option<&Status> {
        match self {
            Self::Api { cause, .. } => match &**cause {
                kube::Error::Api(status) => Some(status),
                _ => None,
            },
            Self::Invalid(_) | Self::Late(_) => None,
        }
    }

    /// Whether the object, or its kind, does not exist.
    pub fn is_not_found(&self) -> bool {
        self.code() == Some(404)
    }

    /// The API server's message, or else the error without the operation: for events, whose reason names the operation.
    pub fn message(&self) -> String {
        match self {
            Self::Api { cause, .. } => message(cause),
            Self::Invalid(text) | Self::Late(text) => text.clone(),
        }
    }

    /// Whether a creation failed because the namespace is terminating.
    pub fn is_namespace_terminating(&self) -> bool {
        let details = self.status().and_then(|status| status.details.as_ref());
        let mut causes = details.into_iter().flat_map(|details| &details.causes);
        // The code (403) and reason (`Forbidden`) are those of an RBAC denial as well; only this cause differs. The
        // NamespaceLifecycle admission plugin sets it (`pkg/admission/plugin/namespace/lifecycle/admission.go` in
        // k8s.io/apiserver).
        causes.any(|cause| cause.reason == "NamespaceTerminating")
    }

    /// The API server's message if it rejected the object itself: forbidden by admission, a quota or RBAC, or invalid.
    /// The same request will not succeed later without a change elsewhere.
    pub fn rejection(&self) -> Option<&str> {
        let status = self.status()?;
        // 400 is missing on purpose: it means that the request is malformed, which is a defect of ours and not a
        // state that the user can correct.
        matches!(status.code, 403 | 422).then_some(&status.message)
    }

    /// Whether another writer was faster: the object has changed since it was read. A retry with the
    /// current object should succeed.
    pub fn is_conflict(&self) -> bool {
        // 404 counts because a patch or replace of an object that was deleted after it was read
        // fails with it. Both mean that the cache is behind, and both are expected: they are
        // logged at debug level and have their own metric.
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
pub trait Absent<T, E> {
    /// `None` if the object does not exist (404).
    fn not_found_as_none(self) -> Result<Option<T>, E>;
}

impl<T> Absent<T, kube::Error> for Result<T, kube::Error> {
    fn not_found_as_none(self) -> Result<Option<T>, kube::Error> {
        match self {
            Err(error) if code(&error) == Some(404) => Ok(None),
            other => other.map(Some),
        }
    }
}

impl<T> Absent<T, Error> for Result<T, Error> {
    fn not_found_as_none(self) -> Result<Option<T>, Error> {
        match self {
            Err(error) if error.is_not_found() => Ok(None),
            other => other.map(Some),
        }
    }
}
