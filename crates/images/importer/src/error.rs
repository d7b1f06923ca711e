//! What can go wrong with an import, and what the pipeline calls it.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use oci::Cause;
use platform::choose::PlatformMismatch;
use platform::{DocumentError, NoMatch};

pub use golden_images::cdi::failure::Reason;

/// Why there is no disk.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The image could not be read.
    #[error(transparent)]
    Registry(#[from] oci::Error),
    /// A document of the image makes no sense.
    #[error("reading {what} of {image}")]
    Document {
        /// Which one: its digest.
        what: String,
        /// The image.
        image: String,
        /// Why not.
        source: DocumentError,
    },
    /// The image is not there for the architecture.
    #[error("importing {image}")]
    NoMatch {
        /// The image.
        image: String,
        /// What was asked for, and what is there.
        source: Box<NoMatch>,
    },
    /// The index says something else than the image.
    #[error("importing {image}")]
    Platform {
        /// The image.
        image: String,
        /// What they say.
        source: Box<PlatformMismatch>,
    },
    /// The image is to be installed first.
    #[error(
        "importing {image}: bootc image detected: {label}; a disk has to be made from it first, a container disk is expected"
    )]
    Bootable {
        /// The image.
        image: String,
        /// The label that says so.
        label: String,
    },
    /// The layers did not become a disk.
    #[error("importing {image}")]
    Disk {
        /// The image.
        image: String,
        /// Why not.
        source: Box<disk::Error>,
    },
    /// What is on the disk is for another architecture.
    #[error(
        "importing {image}: it is said to be for {wanted}, but the disk boots on {found}: {why}; the check can be left out"
    )]
    Architecture {
        /// The image.
        image: String,
        /// What was asked for.
        wanted: String,
        /// What the disk boots on.
        found: String,
        /// From what that follows.
        why: String,
    },
    /// There is something already.
    #[error("writing {}: it exists already, and overwriting was not asked for", path.display())]
    Exists {
        /// The target.
        path: PathBuf,
    },
    /// The target can hold no disk.
    #[error("writing {}: it is {found}; a regular file, a new name or a block device is expected", path.display())]
    Target {
        /// The target.
        path: PathBuf,
        /// What it is.
        found: &'static str,
    },
    /// Somebody else is writing it.
    #[error("writing {}: another import is at it", path.display())]
    Busy {
        /// The unfinished file.
        path: PathBuf,
    },
    /// A file could not be opened, renamed or removed.
    #[error("{operation} {}", path.display())]
    File {
        /// What was done: `opening`, `renaming`...
        operation: &'static str,
        /// With what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The thread that imports could not be started, or ended without a word.
    #[error("importing {image}: {why}")]
    Thread {
        /// The image.
        image: String,
        /// What happened.
        why: String,
    },
    /// Nobody wants it any more.
    #[error("importing {image}: cancelled")]
    Cancelled {
        /// The image.
        image: String,
    },
}

impl Error {
    /// What the pipeline calls it, for conditions and metrics.
    pub fn reason(&self) -> Reason {
        match self {
            Self::Registry(error) => of_registry(error),
            Self::NoMatch { source, .. } => match &**source {
                NoMatch::Empty { .. } | NoMatch::NotFound { .. } => Reason::ArchitectureNotFound,
                NoMatch::NotAnIndex { .. } => Reason::NotAnIndex,
                NoMatch::NotAnImage { .. } => Reason::NoDisk,
                NoMatch::Unavailable { .. } => Reason::ImageNotFound,
                NoMatch::TooMuch { .. } => Reason::ImportFailed,
            },
            Self::Platform { .. } | Self::Architecture { .. } => Reason::ArchitectureMismatch,
            Self::Bootable { .. } => Reason::BootableContainer,
            Self::Disk { source, .. } => of_disk(source),
            Self::File { source, .. } if is_full(source) => Reason::TooSmall,
            Self::Document { .. }
            | Self::Exists { .. }
            | Self::Target { .. }
            | Self::Busy { .. }
            | Self::File { .. }
            | Self::Thread { .. }
            | Self::Cancelled { .. } => Reason::ImportFailed,
        }
    }

    /// What a registry said, if this comes from one.
    fn registry(&self) -> Option<&oci::Error> {
        match self {
            Self::Registry(error) => Some(error),
            Self::Disk { source, .. } => match &**source {
                disk::Error::Read { source, .. } => oci::Error::of_io(source),
                _ => None,
            },
            _ => None,
        }
    }

    /// Whether the same may pass if it is tried again soon.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Disk { source, .. } => match &**source {
                disk::Error::Read { source, .. } => {
                    oci::Error::of_io(source).is_none_or(oci::Error::is_transient)
                }
                _ => false,
            },
            Self::Busy { .. } => true,
            _ => self.registry().is_some_and(oci::Error::is_transient),
        }
    }

    /// How long the registry wants to be left alone.
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
