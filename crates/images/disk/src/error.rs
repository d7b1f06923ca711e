//! What can go wrong with an import, as types: callers turn them into conditions.

use std::io;

use crate::overlay::OverlayError;
use crate::qcow2::Qcow2Error;
use crate::tar::TarError;
use crate::unpack::UnpackError;

/// Why there is no disk.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The bytes of a layer could not be had.
    #[error("reading layer {layer} at byte {offset} failed")]
    Read {
        /// The digest of the layer.
        layer: String,
        /// How many compressed bytes came before.
        offset: u64,
        /// What the source said.
        source: io::Error,
    },
    /// The target did not take what was written, or did not give it back.
    #[error("{operation} {length} bytes at {offset} of the target failed")]
    Target {
        /// `writing`, `reading`, `zeroing` or `finishing`.
        operation: &'static str,
        /// Where.
        offset: u64,
        /// How much.
        length: u64,
        /// What the target said.
        source: io::Error,
    },
    /// An entry of a layer did not become a file.
    #[error("unpacking {path:?} of layer {layer}")]
    Extract {
        /// The entry.
        path: String,
        /// The digest of the layer.
        layer: String,
        /// Why not.
        source: io::Error,
    },
    /// The disk does not fit.
    #[error(
        "virtual image size {need} is larger than the reported available storage {have}; a larger target is required"
    )]
    TooSmall {
        /// Bytes that the disk has, or is known to have at least.
        need: u64,
        /// Bytes that the target takes.
        have: u64,
    },
    /// A blob is not what its digest says.
    #[error("{what} of layer {layer} is {found}, not {expected}")]
    DigestMismatch {
        /// `digest` of the compressed bytes or `diff-id` of what is in them.
        what: &'static str,
        /// The digest of the layer.
        layer: String,
        /// What was computed.
        found: String,
        /// What it had to be.
        expected: String,
    },
    /// A blob is longer or shorter than its descriptor says.
    #[error("layer {layer} has {found} bytes, its descriptor says {expected}")]
    SizeMismatch {
        /// The digest of the layer.
        layer: String,
        /// Bytes that came; for a longer one, those that were looked at.
        found: u64,
        /// Bytes that had to come.
        expected: u64,
    },
    /// The disk is in a format that is not read.
    #[error("format {format} of {path:?} is not supported; raw and qcow2 are")]
    UnsupportedFormat {
        /// `vmdk`, `vhdx`...
        format: &'static str,
        /// The file in the layer.
        path: String,
    },
    /// The parts of the image are in an order that one pass cannot follow, and another pass was
    /// not possible.
    #[error(
        "the image maps {missing} pieces after they went by, and the target has no room to park them; {advice}"
    )]
    AnotherPass {
        /// Pieces that are still to be written.
        missing: u64,
        /// What would help.
        advice: &'static str,
    },
    /// A checkpoint that belongs to something else.
    #[error("the checkpoint is for {found}, not for {expected}")]
    Checkpoint {
        /// What it says.
        found: String,
        /// What is imported.
        expected: String,
    },
    /// The caller does not want it any more.
    #[error("the import was cancelled")]
    Cancelled,
    /// See there.
    #[error(transparent)]
    Tar(#[from] TarError),
    /// See there.
    #[error(transparent)]
    Overlay(#[from] OverlayError),
    /// See there.
    #[error(transparent)]
    Unpack(#[from] UnpackError),
    /// See there.
    #[error(transparent)]
    Qcow2(#[from] Qcow2Error),
}

impl Error {
    /// One word of few, for metrics and conditions.
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

    /// Whether the same bytes would fail the same way: trying again helps only with others.
    pub fn is_final(&self) -> bool {
        !matches!(
            self,
            Self::Read { .. } | Self::Target { .. } | Self::Extract { .. } | Self::Cancelled
        )
    }
}
