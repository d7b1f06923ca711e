//! Errors of an import, as types: callers turn them into conditions.

use std::io;

use crate::overlay::OverlayError;
use crate::qcow2::Qcow2Error;
use crate::tar::TarError;
use crate::unpack::UnpackError;

/// Why an import failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The bytes of a layer could not be read.
    #[error("reading layer {layer} at byte {offset} failed")]
    Read {
        /// The digest of the layer.
        layer: String,
        /// The compressed bytes read before.
        offset: u64,
        /// The source's error.
        source: io::Error,
    },
    /// Writing to or reading from the target failed.
    #[error("{operation} {length} bytes at {offset} of the target failed")]
    Target {
        /// `writing`, `reading`, `zeroing` or `finishing`.
        operation: &'static str,
        /// The offset on the target.
        offset: u64,
        /// The number of bytes.
        length: u64,
        /// The target's error.
        source: io::Error,
    },
    /// An entry of a layer could not be extracted.
    #[error("unpacking {path:?} of layer {layer}")]
    Extract {
        /// The entry.
        path: String,
        /// The digest of the layer.
        layer: String,
        /// The cause.
        source: io::Error,
    },
    /// The disk does not fit.
    #[error(
        "virtual image size {need} is larger than the reported available storage {have}; a larger target is required"
    )]
    TooSmall {
        /// The size of the disk, or a lower bound.
        need: u64,
        /// The capacity of the target.
        have: u64,
    },
    /// A blob does not match its digest.
    #[error("{what} of layer {layer} is {found}, not {expected}")]
    DigestMismatch {
        /// `digest` of the compressed bytes or `diff-id` of the uncompressed ones.
        what: &'static str,
        /// The digest of the layer.
        layer: String,
        /// The computed digest.
        found: String,
        /// The expected digest.
        expected: String,
    },
    /// A blob is longer or shorter than its descriptor states.
    #[error("layer {layer} has {found} bytes, its descriptor says {expected}")]
    SizeMismatch {
        /// The digest of the layer.
        layer: String,
        /// The bytes received; for a longer one, those examined.
        found: u64,
        /// The expected size.
        expected: u64,
    },
    /// The disk has an unsupported format.
    #[error("format {format} of {path:?} is not supported; raw and qcow2 are")]
    UnsupportedFormat {
        /// `vmdk`, `vhdx`...
        format: &'static str,
        /// The file in the layer.
        path: String,
    },
    /// The parts of the image are in an order that one pass cannot follow, and another pass was not
    /// possible.
    #[error(
        "the image maps {missing} pieces after they went by, and the target has no room to park them; {advice}"
    )]
    AnotherPass {
        /// The number of missing pieces.
        missing: u64,
        /// What would help.
        advice: &'static str,
    },
    /// A checkpoint belongs to another import.
    #[error("the checkpoint is for {found}, not for {expected}")]
    Checkpoint {
        /// What the checkpoint is for.
        found: String,
        /// What is being imported.
        expected: String,
    },
    /// The caller cancelled the import.
    #[error("the import was cancelled")]
    Cancelled,
    /// The archive is invalid.
    #[error(transparent)]
    Tar(#[from] TarError),
    /// The image has no usable disk.
    #[error(transparent)]
    Overlay(#[from] OverlayError),
    /// A stream cannot be unpacked.
    #[error(transparent)]
    Unpack(#[from] UnpackError),
    /// The qcow2 image is invalid.
    #[error(transparent)]
    Qcow2(#[from] Qcow2Error),
}

impl Error {
    /// The reason for metrics and conditions, from a fixed set.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Read { .. } => "ReadFailed",
            Self::Target { source, .. } | Self::Extract { source, .. } => match source.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "NoSpace",
                _ => "WriteFailed",
            },
            Self::TooSmall { .. } => "TooSmall",
            Self::DigestMismatch { .. } | Self::SizeMismatch { .. } => "DigestMismatch",
            Self::UnsupportedFormat { .. } => "UnsupportedFormat",
            Self::AnotherPass { .. } => "AnotherPassNeeded",
            Self::Checkpoint { .. } => "CheckpointMismatch",
            Self::Cancelled => "Cancelled",
            Self::Tar(_) => "BadLayer",
            Self::Overlay(error) => error.reason(),
            Self::Unpack(error) => error.reason(),
            Self::Qcow2(error) => error.reason(),
        }
    }

    /// Whether the same bytes would fail in the same way, so that a retry does not help.
    pub fn is_final(&self) -> bool {
        !matches!(
            self,
            Self::Read { .. } | Self::Target { .. } | Self::Extract { .. } | Self::Cancelled
        )
    }
}
