//! qcow2 images, decoded as a stream.
//!
//! The tables of a qcow2 image map each cluster of the disk to an offset in the image. Which cluster of
//! the disk a part of the image belongs to is only known once its table was read. `qemu-img` writes
//! tables before the data they map; an image that was resized, or used by a VM, has some tables after
//! their data. The stream is never rewound, so:
//!
//! * Data mapped by a table that was read goes straight to its place ([`Stream`] keeps the expected
//!   pieces, sorted by image offset; adjacent ones are one item).
//! * Data not mapped yet is *parked*: written to the target's tail, above the end of the disk, at its
//!   own offset. When its table comes, it is read from there and moved to its place. In the end the tail
//!   is cut off. This needs no scratch space, and the target never holds more than the disk and the
//!   image.
//! * A block device has no tail. There, unmapped data is dropped, missing pieces are recorded, and the
//!   image is streamed again ([`Ended::Again`]). The same happens where a cluster is mapped twice and
//!   passed between the two, or where the file system has no space for the tail.
//!
//! Memory is bounded for any disk size: at most [`plan::MAX_ITEMS`] items are expected, and a table
//! that would exceed that is parked with everything it maps, until the end; without a tail, until the
//! next pass. At most [`stream::MAX_PASSES`] are made; an image that would need more is rejected as too
//! fragmented after the first.
//!
//! Parsing is as strict as QEMU's, and stricter in one respect: a table or cluster beyond the end of
//! the file is an error and not zeros, because that is what a truncated image looks like.

mod entry;
mod header;
mod inflate;
mod plan;
mod stream;
#[cfg(test)]
pub(crate) mod tests;

pub use header::{Compression, Header};
pub(crate) use header::{HEADER, MAGIC};
pub(crate) use stream::{Ended, State, Stream};

/// Why an image is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Qcow2Error {
    /// It is not a qcow2 image.
    #[error("the image does not have the qcow2 magic")]
    NotQcow2,
    /// The header is truncated.
    #[error("the qcow2 header is cut off")]
    ShortHeader,
    /// Neither 2 nor 3.
    #[error("qcow2 version {version} is not supported; 2 and 3 are")]
    Version {
        /// The value found.
        version: u32,
    },
    /// QEMU: "Cluster size must be between 512 and 2M".
    #[error("clusters of 2^{bits} bytes are not supported; 2^9 (512) to 2^21 (2 MiB) are")]
    ClusterSize {
        /// The value found.
        bits: u32,
    },
    /// Extended L2 entries need larger clusters.
    #[error("extended L2 entries need clusters of at least 16384 bytes, these have {size}")]
    ExtendedClusters {
        /// Bytes of a cluster.
        size: u64,
    },
    /// It has a backing file, which is not available.
    #[error("the image needs the backing file {name:?}; only self-contained images are imported")]
    BackingFile {
        /// The name of the backing file, if it could be read.
        name: String,
    },
    /// The data is in an external file.
    #[error("the image keeps its data in another file; only self-contained images are imported")]
    ExternalData,
    /// It is encrypted, and there is no key.
    #[error("the image is encrypted (method {method}); only plain images are imported")]
    Encrypted {
        /// 1 is AES, 2 is LUKS.
        method: u32,
    },
    /// Incompatible feature bits are set.
    #[error("the image uses unknown incompatible features (bits {bits:#x})")]
    Features {
        /// The unknown bits.
        bits: u64,
    },
    /// Neither zlib nor zstd, or its feature bit contradicts it.
    #[error(
        "compression type {kind} with its feature bit {} is not valid; 0 without and 1 with it are",
        if *flag { "set" } else { "clear" }
    )]
    CompressionType {
        /// The value found.
        kind: u8,
        /// Whether the bit is set.
        flag: bool,
    },
    /// The header length is invalid.
    #[error("a header of {length} bytes is not valid; 104 to the size of a cluster are")]
    HeaderLength {
        /// The value found.
        length: u32,
    },
    /// QEMU: "Reference count entry width too large".
    #[error("reference counts of 2^{order} bits are not valid; up to 2^6 are")]
    RefcountOrder {
        /// The value found.
        order: u32,
    },
    /// The L1 table is larger than supported.
    #[error("an L1 table of {entries} entries is too large; the maximum is {most}")]
    L1TooLarge {
        /// The number of entries found or required.
        entries: u64,
        /// The maximum number of entries.
        most: u64,
    },
    /// The L1 table does not map the whole disk.
    #[error("an L1 table of {entries} entries is too small for the disk, which needs {needed}")]
    L1TooSmall {
        /// The value found.
        entries: u64,
        /// The number of entries required by the disk size.
        needed: u64,
    },
    /// Tables and clusters have to be aligned to the cluster size.
    #[error("the offset {offset:#x} of a {what} is not that of a cluster")]
    Unaligned {
        /// `L1 table`, `L2 table` or `data cluster`.
        what: &'static str,
        /// The value found.
        offset: u64,
    },
    /// Version 2 has no zero clusters.
    #[error("the cluster at {guest} of the disk is a zero cluster, which version 2 does not have")]
    ZeroInV2 {
        /// The offset on the disk.
        guest: u64,
    },
    /// A subcluster is both allocated and zero.
    #[error(
        "the parts of the cluster at {guest} of the disk contradict each other ({bitmap:#018x})"
    )]
    Parts {
        /// The offset on the disk.
        guest: u64,
        /// The value found.
        bitmap: u64,
    },
    /// Compressed data is invalid.
    #[error("the compressed cluster at {guest} of the disk cannot be decompressed: {why}")]
    Cluster {
        /// The offset on the disk.
        guest: u64,
        /// The decoder's error.
        why: String,
    },
    /// A mapped table or cluster is beyond the end of the file.
    #[error("the image ends at {end}, but {what} is at {offset} of it")]
    Truncated {
        /// `a table` or `data`.
        what: &'static str,
        /// Its offset.
        offset: u64,
        /// The size of the image.
        end: u64,
    },
    /// The maximum number of passes is not sufficient.
    #[error(
        "the image is too fragmented for a target without room above the disk: {missing} pieces are missing after {passes} passes"
    )]
    Fragmented {
        /// Pieces that are still to be written.
        missing: u64,
        /// Passes that were made.
        passes: u32,
    },
    /// More of the disk is mapped to one place of the image than any known program writes.
    #[error(
        "more than {most} runs or compressed clusters overlap before byte {offset} of the image"
    )]
    Overlapping {
        /// Where in the image.
        offset: u64,
        /// The limit.
        most: usize,
    },
    /// The decompression threads have ended.
    #[error("the threads that decompress clusters could not be started or have ended")]
    Threads,
}

impl Qcow2Error {
    /// The reason, from a fixed set.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::BackingFile { .. } => "BackingFile",
            Self::ExternalData => "ExternalDataFile",
            Self::Encrypted { .. } => "Encrypted",
            Self::Version { .. } | Self::Features { .. } => "UnsupportedFormat",
            Self::Fragmented { .. } => "TooFragmented",
            Self::Truncated { .. } | Self::ShortHeader => "ImageTruncated",
            _ => "BadImage",
        }
    }
}

/// Numbers in bytes, most significant first.
pub(crate) trait Bytes {
    fn be32(&self, at: usize) -> Option<u32>;
    fn be64(&self, at: usize) -> Option<u64>;
}

impl Bytes for [u8] {
    fn be32(&self, at: usize) -> Option<u32> {
        self.get(at..)?
            .first_chunk()
            .copied()
            .map(u32::from_be_bytes)
    }

    fn be64(&self, at: usize) -> Option<u64> {
        self.get(at..)?
            .first_chunk()
            .copied()
            .map(u64::from_be_bytes)
    }
}
