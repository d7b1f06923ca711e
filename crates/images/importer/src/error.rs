//! Errors of an import, and their reasons in the pipeline.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use golden_images::cdi::failure::Failure;
use oci::{Cause, resolve};
use platform::NoMatch;

pub use golden_images::cdi::failure::Reason;

/// Why an import failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The image could not be resolved, or a file could not be requested.
    #[error(transparent)]
    Resolve(#[from] resolve::Error),
    /// The image is a bootc image, which has to be converted to a disk first.
    #[error(
        "importing {image}: bootc image detected: {label}; convert it to a disk first, a container disk is expected"
    )]
    Bootable {
        /// The image.
        image: String,
        /// The label that marks it as bootc image.
        label: String,
    },
    /// The layers could not be converted to a disk.
    #[error("importing {image}")]
    Disk {
        /// The image.
        image: String,
        /// The cause.
        source: Box<disk::Error>,
    },
    /// The disk boots on another architecture.
    #[error(
        "importing {image}: the image is for {wanted}, but the disk boots on {found}: {why}; disable the architecture check to import it"
    )]
    Architecture {
        /// The image.
        image: String,
        /// The requested architecture.
        wanted: String,
        /// The architecture the disk boots on.
        found: String,
        /// The evidence on the disk.
        why: String,
    },
    /// The target exists and overwriting is not enabled.
    #[error("writing {}: it exists already, and overwriting is not enabled", path.display())]
    Exists {
        /// The target.
        path: PathBuf,
    },
    /// The target cannot hold a disk.
    #[error("writing {}: it is {found}; expected a regular file, a new name or a block device", path.display())]
    Target {
        /// The target.
        path: PathBuf,
        /// The type of file it is.
        found: &'static str,
    },
    /// Another import holds the lock on the unfinished file.
    #[error("writing {}: another import is writing it", path.display())]
    Busy {
        /// The unfinished file.
        path: PathBuf,
    },
    /// A file could not be opened, renamed or removed.
    #[error("{operation} {}", path.display())]
    File {
        /// `opening`, `renaming`...
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The import thread could not be started, or ended without a result.
    #[error("importing {image}: {why}")]
    Thread {
        /// The image.
        image: String,
        /// What happened to it.
        why: String,
    },
    /// The import was cancelled.
    #[error("importing {image}: cancelled")]
    Cancelled {
        /// The image.
        image: String,
    },
}

impl From<oci::Error> for Error {
    fn from(error: oci::Error) -> Self {
        Self::Resolve(error.into())
    }
}

impl Error {
    /// The failure as reason and message for conditions.
    pub fn failure(&self) -> Failure {
        Failure::new(self.reason(), oci::error_chain(self))
    }

    /// The reason for conditions and metrics.
    pub fn reason(&self) -> Reason {
        match self {
            Self::Resolve(error) => of_resolution(error),
            Self::Architecture { .. } => Reason::ArchitectureMismatch,
            Self::Bootable { .. } => Reason::BootableContainer,
            Self::Disk { source, .. } => of_disk(source),
            Self::File { source, .. } if is_full(source) => Reason::TooSmall,
            Self::Exists { .. }
            | Self::Target { .. }
            | Self::Busy { .. }
            | Self::File { .. }
            | Self::Thread { .. }
            | Self::Cancelled { .. } => Reason::ImportFailed,
        }
    }

    /// The registry error behind this one, if any.
    fn registry(&self) -> Option<&oci::Error> {
        match self {
            Self::Resolve(error) => error.registry(),
            Self::Disk { source, .. } => match &**source {
                disk::Error::Read { source, .. } => oci::Error::of_io(source),
                _ => None,
            },
            _ => None,
        }
    }

    /// Whether a retry may succeed soon.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Disk { source, .. } => match &**source {
                disk::Error::Read { source, .. } => {
                    // An I/O error without a registry error is a local one, of a mounted image for example: worth a
                    // retry, as nothing says that it is final.
                    oci::Error::of_io(source).is_none_or(oci::Error::is_transient)
                }
                _ => false,
            },
            Self::Busy { .. } => true,
            _ => self.registry().is_some_and(oci::Error::is_transient),
        }
    }

    /// The registry's `Retry-After`.
    pub fn retry_after(&self) -> Option<Duration> {
        self.registry().and_then(oci::Error::retry_after)
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
    )
}

fn of_resolution(error: &resolve::Error) -> Reason {
    match error {
        resolve::Error::Registry(error) => of_registry(error),
        resolve::Error::NoMatch { source, .. } => match &**source {
            NoMatch::Empty { .. } | NoMatch::NotFound { .. } => Reason::ArchitectureNotFound,
            NoMatch::NotAnIndex { .. } => Reason::NotAnIndex,
            NoMatch::NotAnImage { .. } => Reason::NoDisk,
            // The index lists the platform, but a sparse mirror does not hold its manifest: for the user that is a
            // missing image, not a missing architecture.
            NoMatch::Unavailable { .. } => Reason::ImageNotFound,
            NoMatch::TooMuch { .. } => Reason::ImportFailed,
        },
        resolve::Error::Platform { .. } => Reason::ArchitectureMismatch,
        resolve::Error::Document { .. } => Reason::ImportFailed,
    }
}

fn of_registry(error: &oci::Error) -> Reason {
    match &error.cause {
        Cause::NotFound { .. } => Reason::ImageNotFound,
        Cause::Unauthorized { .. } => Reason::PullUnauthorized,
        Cause::DigestMismatch { .. } => Reason::DigestMismatch,
        Cause::RateLimited { .. } => Reason::RateLimited,
        Cause::Truncated { .. }
        | Cause::Unreachable(_)
        | Cause::Timeout { .. }
        | Cause::Server { .. } => Reason::RegistryUnavailable,
        Cause::TooLarge { .. }
        | Cause::Invalid(_)
        | Cause::Refused(_)
        | Cause::Blocked(_)
        | Cause::File(_) => Reason::ImportFailed,
    }
}

fn of_disk(error: &disk::Error) -> Reason {
    use disk::Error as E;
    match error {
        E::Read { source, .. } => {
            oci::Error::of_io(source).map_or(Reason::RegistryUnavailable, of_registry)
        }
        E::Target { source, .. } if is_full(source) => Reason::TooSmall,
        E::TooSmall { .. } => Reason::TooSmall,
        E::DigestMismatch { .. } | E::SizeMismatch { .. } => Reason::DigestMismatch,
        E::Overlay(_) => Reason::NoDisk,
        E::UnsupportedFormat { .. } | E::Tar(_) | E::Unpack(_) | E::Qcow2(_) => Reason::InvalidDisk,
        E::Target { .. }
        | E::Extract { .. }
        | E::AnotherPass { .. }
        | E::Checkpoint { .. }
        | E::Cancelled => Reason::ImportFailed,
    }
}
