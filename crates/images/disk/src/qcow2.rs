//! qcow2 images, decoded as they stream by.
//!
//! The tables of a qcow2 image say for each cluster of the disk where in the image it is. Which
//! cluster of the disk some bytes of the image are is only known once the table that maps them was
//! seen. `qemu-img` writes tables before what they map; an image that was resized, or that a
//! machine ran on, has some of them behind it. The stream is never sought back, so:
//!
//! * What is mapped by a table that went by goes straight to its place ([`Stream`] keeps, sorted by
//!   the place in the image, what it waits for; neighbours are one item).
//! * What is not mapped yet is *parked*: written to the target's tail, above the end of the disk, at its
//!   own offset. When its table comes, it is read from there and put where it belongs. In the
//!   end the tail is cut off. Nothing but the target is needed, and the target never holds more than
//!   the disk and the image.
//! * A block device has no tail. There, what was not mapped is let go, what is missing is noted,
//!   and the image is streamed again ([`Ended::Again`]). The same happens where a cluster is mapped
//!   twice and went by between the two, or where the file system had no room for the tail.
//!
//! Memory is bounded at any size of disk: at most [`plan::MOST`] items are waited for, and a table
//! that would make it more is parked with all it maps, until the end; without a tail, until the
//! next pass. At most [`stream::MOST_PASSES`] are made; an image that would need more is refused as too
//! fragmented after the first.
//!
//! Reading is as strict as QEMU's, and stricter in one thing: a table or cluster that lies behind the
//! end of the file is an error and not zeros, because it is what a truncated image looks like.

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

/// Why an image is not read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Qcow2Error {
    /// Something else.
    #[error("the image does not begin as a qcow2 image does")]
    NotQcow2,
    /// It ends too early.
    #[error("the qcow2 header is cut off")]
    ShortHeader,
    /// Neither 2 nor 3.
    #[error("qcow2 version {version} is not supported; 2 and 3 are")]
    Version {
        /// As it stands there.
        version: u32,
    },
    /// QEMU: "Cluster size must be between 512 and 2M".
    #[error("clusters of 2^{bits} bytes are not supported; 2^9 (512) to 2^21 (2 MiB) are")]
    ClusterSize {
        /// As it stands there.
        bits: u32,
    },
    /// Extended entries need clusters that can be divided.
    #[error("extended L2 entries need clusters of at least 16384 bytes, these have {size}")]
    ExtendedClusters {
        /// Bytes of a cluster.
        size: u64,
    },
    /// It is only what differs from another file.
    #[error("the image needs the backing file {name:?}; only images that are whole are imported")]
    BackingFile {
        /// Its name, if it was to be had.
        name: String,
    },
    /// The data is elsewhere.
    #[error("the image keeps its data in another file; only images that are whole are imported")]
    ExternalData,
    /// Nobody gave a key.
    #[error("the image is encrypted (method {method}); only plain images are imported")]
    Encrypted {
        /// 1 is AES, 2 is LUKS.
        method: u32,
    },
    /// Bits that change how the image has to be read.
    #[error("the image uses unknown incompatible features (bits {bits:#x})")]
    Features {
        /// Those that are not known.
        bits: u64,
    },
    /// Neither zlib nor zstd, or its feature bit contradicts it.
    #[error(
        "compression type {kind} with its feature bit {} is not valid; 0 without and 1 with it are",
        if *flag { "set" } else { "clear" }
    )]
    CompressionType {
        /// As it stands there.
        kind: u8,
        /// Whether the bit is set.
        flag: bool,
    },
    /// It is no possible length.
    #[error("a header of {length} bytes is not valid; 104 to the size of a cluster are")]
    HeaderLength {
        /// As it stands there.
        length: u32,
    },
    /// QEMU: "Reference count entry width too large".
    #[error("reference counts of 2^{order} bits are not valid; up to 2^6 are")]
    RefcountOrder {
        /// As it stands there.
        order: u32,
    },
    /// More than QEMU reads.
    #[error("an L1 table of {entries} entries is too large; {most} are the most")]
    L1TooLarge {
        /// As it stands there, or as the size needs it.
        entries: u64,
        /// Those that are accepted.
        most: u64,
    },
    /// It does not map the whole disk.
    #[error("an L1 table of {entries} entries is too small for the disk, which needs {needed}")]
    L1TooSmall {
        /// As it stands there.
        entries: u64,
        /// As the size needs it.
        needed: u64,
    },
    /// Tables and clusters are at multiples of the cluster size.
    #[error("the offset {offset:#x} of a {what} is not that of a cluster")]
    Unaligned {
        /// `L1 table`, `L2 table` or `data cluster`.
        what: &'static str,
        /// As it stands there.
        offset: u64,
    },
    /// Version 2 has no zero clusters.
    #[error("the cluster at {guest} of the disk is a zero cluster, which version 2 does not have")]
    ZeroInV2 {
        /// Where on the disk.
        guest: u64,
    },
    /// A part that is there and zeros at once.
    #[error(
        "the parts of the cluster at {guest} of the disk contradict each other ({bitmap:#018x})"
    )]
    Parts {
        /// Where on the disk.
        guest: u64,
        /// As it stands there.
        bitmap: u64,
    },
    /// Compressed data that is none.
    #[error("the compressed cluster at {guest} of the disk cannot be decompressed: {why}")]
    Cluster {
        /// Where on the disk.
        guest: u64,
        /// What the decoder said.
        why: String,
    },
    /// Something is mapped that is not there.
    #[error("the image ends at {end}, but {what} is at {offset} of it")]
    Truncated {
        /// `a table` or `data`.
        what: &'static str,
        /// Where it had to be.
        offset: u64,
        /// Bytes of the image.
        end: u64,
    },
    /// More passes would be needed than are made.
    #[error(
        "the image is too fragmented for a target without room above the disk: {missing} pieces are missing after {passes} passes"
    )]
    Fragmented {
        /// Pieces that are still to be written.
        missing: u64,
        /// Passes that were made.
        passes: u32,
    },
    /// More of the disk is mapped to one place of the image than any program writes.
    #[error(
        "more than {most} runs or compressed clusters overlap before byte {offset} of the image"
    )]
    Overlapping {
        /// Where in the image.
        offset: u64,
        /// What is accepted.
        most: usize,
    },
    /// The threads that decompress are gone.
    #[error("the threads that decompress clusters could not be started or have ended")]
    Threads,
}

impl Qcow2Error {
    /// One word of few.
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
