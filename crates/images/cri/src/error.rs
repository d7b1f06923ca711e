//! Errors of pulls and removals, and their gRPC status for the kubelet.

use std::io;

use oci::{Cause, StoreError, error_chain, resolve};
use platform::ReferenceError;
use tonic::{Code, Status};

use crate::quota::QuotaExceeded;

/// Why a pull or removal failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The request names no image.
    #[error("{operation} an image: the request names none")]
    Unnamed {
        /// `pulling`, `removing`...
        operation: &'static str,
    },
    /// The image name is not a valid reference.
    #[error("pulling an image")]
    Reference(#[from] ReferenceError),
    /// The handler is not configured.
    #[error("pulling {image}: unknown runtime handler {name:?}; {}", accepted(.known))]
    Handler {
        /// The image.
        image: String,
        /// The requested handler.
        name: String,
        /// The configured handlers.
        known: Vec<String>,
    },
    /// The image does not exist, or not for this platform.
    #[error("pulling {image} for {handler}")]
    Choose {
        /// The image.
        image: String,
        /// The handler and platform.
        handler: String,
        /// The cause.
        source: Box<resolve::Error>,
    },
    /// A blob could not be downloaded or stored.
    #[error("pulling {image}")]
    Blob {
        /// The image.
        image: String,
        /// The cause.
        source: StoreError,
    },
    /// Its layers could not be unpacked.
    #[error("pulling {image}")]
    Unpack {
        /// The image.
        image: String,
        /// The cause.
        source: Box<disk::Error>,
    },
    /// The store would exceed its limit.
    #[error("pulling {image}: {source}")]
    QuotaExceeded {
        /// The image.
        image: String,
        /// Usage and limit.
        source: QuotaExceeded,
    },
    /// A file operation failed.
    #[error("{operation} {image}")]
    File {
        /// `pulling`, `removing`...
        operation: &'static str,
        /// The image.
        image: String,
        /// The cause.
        source: io::Error,
    },
    /// The user or platform in its config is too long.
    #[error("pulling {image}: names, user and platform have {bytes} bytes; the maximum is {most}")]
    Record {
        /// The image.
        image: String,
        /// The size found.
        bytes: usize,
        /// The maximum size.
        most: usize,
    },
    /// The pull was cancelled.
    #[error("pulling {image}: cancelled")]
    GivenUp {
        /// The image.
        image: String,
    },
}

fn accepted(known: &[String]) -> String {
    if known.is_empty() {
        "there is only the default one".to_owned()
    } else {
        format!("known are {}", known.join(", "))
    }
}

impl Error {
    /// The gRPC status for the kubelet.
    ///
    /// The kubelet only prints codes, with one exception: a message that begins with
    /// `RegistryUnavailable` becomes the waiting reason of a container if its code is `Unknown`.
    pub fn status(&self) -> Status {
        let code = self.code();
        let mut text = error_chain(self);
        // kubelet strips the code of `Unknown` errors only, and compares the beginning of what remains; with any
        // other code the text starts with `rpc error:` and the reason is lost.
        if code == Code::Unknown {
            text = format!("RegistryUnavailable: {text}");
        }
        Status::new(code, text)
    }

    fn code(&self) -> Code {
        match self {
            Self::Unnamed { .. } | Self::Reference(_) | Self::Handler { .. } => {
                // kubelet retries any code with the same backoff, so codes serve operators and `crictl`.
                // `InvalidArgument` says that the request has to change, `DataLoss` below that the image has to.
                Code::InvalidArgument
            }
            Self::Choose { source, .. } => match &**source {
                resolve::Error::Registry(error) => of_registry(error),
                resolve::Error::NoMatch { .. } => Code::NotFound,
                resolve::Error::Document { .. } | resolve::Error::Platform { .. } => Code::DataLoss,
            },
            Self::Blob { source, .. } => match source {
                StoreError::Registry(error) => of_registry(error),
                StoreError::Damaged { .. } | StoreError::Size { .. } => Code::DataLoss,
                error if error.is_full() => Code::ResourceExhausted,
                StoreError::File { .. } => Code::Internal,
            },
            Self::Unpack { source, .. } => match source.reason() {
                "NoSpace" => Code::ResourceExhausted,
                "WriteFailed" | "ReadFailed" if !is_refused(source) => Code::Internal,
                _ => Code::DataLoss,
            },
            Self::QuotaExceeded { .. } => Code::ResourceExhausted,
            Self::File { source, .. } => match source.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                    Code::ResourceExhausted
                }
                _ => Code::Internal,
            },
            Self::Record { .. } => Code::DataLoss,
            Self::GivenUp { .. } => Code::Aborted,
        }
    }
}

/// Whether an entry was rejected for its contents.
fn is_refused(error: &disk::Error) -> bool {
    matches!(error, disk::Error::Extract { source, .. } if source.kind() == io::ErrorKind::InvalidData)
}

fn of_registry(error: &oci::Error) -> Code {
    match &error.cause {
        Cause::NotFound { .. } => Code::NotFound,
        Cause::Unauthorized { .. } | Cause::Blocked(_) | Cause::Refused(_) => {
            Code::PermissionDenied
        }
        Cause::DigestMismatch { .. } | Cause::Invalid(_) | Cause::TooLarge { .. } => Code::DataLoss,
        Cause::File(_) => Code::Internal,
        // Transient failures.
        Cause::RateLimited { .. }
        | Cause::Unreachable(_)
        | Cause::Timeout { .. }
        | Cause::Truncated { .. }
        | Cause::Server { .. } => Code::Unknown,
    }
}
