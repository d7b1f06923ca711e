//! Why an image is not pulled or removed, and what a kubelet is told.

use std::error::Error as _;
use std::io;

use oci::{Cause, StoreError};
use platform::ReferenceError;
use tonic::{Code, Status};

use crate::quota::NoRoom;

/// Why an image is not there.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The request names none.
    #[error("{operation} an image: the request names none")]
    Unnamed {
        /// `pulling`, `removing`...
        operation: &'static str,
    },
    /// It has no name that could be one.
    #[error("pulling an image")]
    Reference(#[from] ReferenceError),
    /// Nobody knows the handler.
    #[error("pulling {image}: unknown runtime handler {name:?}; {}", accepted(.known))]
    Handler {
        /// The image.
        image: String,
        /// What was asked for.
        name: String,
        /// What there is.
        known: Vec<String>,
    },
    /// The image could not be found, or not for this platform.
    #[error("pulling {image} for {handler}")]
    Choose {
        /// The image.
        image: String,
        /// For whom.
        handler: String,
        /// Why not.
        source: Box<importer::Error>,
    },
    /// A blob could not be had or kept.
    #[error("pulling {image}")]
    Blob {
        /// The image.
        image: String,
        /// Why not.
        source: StoreError,
    },
    /// Its layers did not become files.
    #[error("pulling {image}")]
    Unpack {
        /// The image.
        image: String,
        /// Why not.
        source: Box<disk::Error>,
    },
    /// The store is full.
    #[error("pulling {image}: {source}")]
    NoRoom {
        /// The image.
        image: String,
        /// How full.
        source: NoRoom,
    },
    /// A file or a folder did not do as it should.
    #[error("{operation} {image}")]
    File {
        /// `pulling`, `removing`...
        operation: &'static str,
        /// The image.
        image: String,
        /// Why.
        source: io::Error,
    },
    /// Its config has a user or a platform that nothing could use.
    #[error("pulling {image}: names, user and platform have {bytes} bytes; {most} are the most")]
    Record {
        /// The image.
        image: String,
        /// What there is.
        bytes: usize,
        /// What is accepted.
        most: usize,
    },
    /// It was given up.
    #[error("pulling {image}: it was given up")]
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
    /// What a kubelet is told.
    ///
    /// Codes are what it prints, but for one case: a message that begins with `RegistryUnavailable`
    /// becomes the reason why a container waits, if its code is `Unknown`.
    pub fn status(&self) -> Status {
        let code = self.code();
        let mut text = self.to_string();
        let mut source = self.source();
        while let Some(cause) = source {
            let cause_text = cause.to_string();
            // Some repeat what caused them.
            if !text.ends_with(&cause_text) {
                text = format!("{text}: {cause_text}");
            }
            source = cause.source();
        }
        if code == Code::Unknown {
            text = format!("RegistryUnavailable: {text}");
        }
        Status::new(code, text)
    }

    fn code(&self) -> Code {
        match self {
            Self::Unnamed { .. } | Self::Reference(_) | Self::Handler { .. } => {
                Code::InvalidArgument
            }
            Self::Choose { source, .. } => match &**source {
                importer::Error::Registry(error) => of_registry(error),
                importer::Error::NoMatch { .. } => Code::NotFound,
                importer::Error::Document { .. } | importer::Error::Platform { .. } => {
                    Code::DataLoss
                }
                _ => Code::Internal,
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
            Self::NoRoom { .. } => Code::ResourceExhausted,
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

/// Whether an entry was refused for what it is.
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
        // What may pass if it is tried again.
        Cause::RateLimited { .. }
        | Cause::Unreachable(_)
        | Cause::Timeout { .. }
        | Cause::Truncated { .. }
        | Cause::Server { .. } => Code::Unknown,
    }
}
