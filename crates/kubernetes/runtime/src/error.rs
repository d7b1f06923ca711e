//! Why a reconcile did not get to its end.

/// What went wrong, and while doing what.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server refused or could not be asked.
    #[error("{operation}: {}", said(cause))]
    Api {
        /// The operation and its object.
        operation: String,
        /// What the server said; the message tells it.
        cause: Box<kube::Error>,
    },
    /// An object says something that nobody can act upon.
    #[error("{0}")]
    Invalid(String),
    /// Something that was waited for did not come in time.
    #[error("{0}")]
    Late(String),
}

impl Error {
    /// Wraps what the server said with the operation that asked.
    pub fn api(operation: impl Into<String>) -> impl FnOnce(kube::Error) -> Self {
        let operation = operation.into();
        move |cause| Self::Api {
            operation,
            cause: Box::new(cause),
        }
    }

    /// The code of the server's answer.
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Api { cause, .. } => code(cause),
            Self::Invalid(_) | Self::Late(_) => None,
        }
    }

    /// Whether somebody else was faster: the object is not as it was read. The next try, with what
    /// is there now, is expected to pass.
    pub fn is_race(&self) -> bool {
        matches!(self.code(), Some(404 | 409))
    }
}

/// What the server said, in its own words.
fn said(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}

/// The code of an answer that is an error.
fn code(error: &kube::Error) -> Option<u16> {
    match error {
        kube::Error::Api(status) => Some(status.code),
        _ => None,
    }
}

/// What to make of answers that say that there is nothing left to do.
pub trait Absent<T> {
    /// `None` where the object is not there (404).
    fn or_absent(self) -> Result<Option<T>, kube::Error>;
}

impl<T> Absent<T> for Result<T, kube::Error> {
    fn or_absent(self) -> Result<Option<T>, kube::Error> {
        match self {
            Ok(value) => Ok(Some(value)),
            Err(error) if code(&error) == Some(404) => Ok(None),
            Err(error) => Err(error),
        }
    }
}
