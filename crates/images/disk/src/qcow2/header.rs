//! The first bytes of a qcow2 image (QEMU `docs/interop/qcow2.txt`).

use serde::{Deserialize, Serialize};

use super::{Bytes as _, Qcow2Error};

/// `QFI` and 0xfb.
pub(crate) const MAGIC: [u8; 4] = [b'Q', b'F', b'I', 0xfb];

/// Bytes that are enough to read a header, if the image has that many.
pub(crate) const HEADER: usize = 112;

/// A table of 4 MiB maps 256 TiB in clusters of 64 KiB. QEMU accepts up to 32 MiB (`QCOW_MAX_L1_SIZE`),
/// which would be half of an import's memory budget.
const MAX_L1_BYTES: u64 = 4 << 20;

const DIRTY: u64 = 1;
const CORRUPT: u64 = 1 << 1;
const EXTERNAL: u64 = 1 << 2;
const COMPRESSION: u64 = 1 << 3;
const EXTENDED: u64 = 1 << 4;

/// How compressed clusters are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Compression {
    /// Raw deflate.
    Zlib,
    /// Zstandard frames.
    Zstd,
}

/// The parsed header.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// 2 or 3.
    pub version: u32,
    /// Bytes of the disk: a multiple of 512, as QEMU rounds it down.
    pub size: u64,
    /// Two to the power of this are the bytes of a cluster: 9 to 21.
    pub cluster_bits: u32,
    /// How clusters are compressed.
    pub compression: Compression,
    /// Clusters have 32 parts, each of which can be missing.
    pub extended_l2: bool,
    /// It was not closed properly: reference counts may be wrong, the data is not.
    pub dirty: bool,
    /// QEMU marked it as corrupt and refuses to write to it.
    pub corrupt: bool,
    /// Snapshots inside; they are not imported.
    pub snapshots: u32,
    pub(crate) l1_offset: u64,
    pub(crate) l1_entries: u32,
    pub(crate) refcounts: u64,
    pub(crate) refcount_clusters: u32,
}

impl Header {
    /// Parses the beginning of an image: 112 bytes or all there are; more only improves error messages.
    pub fn parse(head: &[u8]) -> Result<Self, Qcow2Error> {
        if head.get(..4) != Some(&MAGIC) {
            return Err(Qcow2Error::NotQcow2);
        }
        let version = head.be32(4).ok_or(Qcow2Error::ShortHeader)?;
        if !matches!(version, 2 | 3) {
            return Err(Qcow2Error::Version { version });
        }
        let short = || Qcow2Error::ShortHeader;
        let backing = head.be64(8).ok_or_else(short)?;
        let backing_length = head.be32(16).ok_or_else(short)?;
        let cluster_bits = head.be32(20).ok_or_else(short)?;
        let size = head.be64(24).ok_or_else(short)?;
        let encryption = head.be32(32).ok_or_else(short)?;
        let l1_entries = head.be32(36).ok_or_else(short)?;
        let l1_offset = head.be64(40).ok_or_else(short)?;
        let refcounts = head.be64(48).ok_or_else(short)?;
        let refcount_clusters = head.be32(56).ok_or_else(short)?;
        let snapshots = head.be32(60).ok_or_else(short)?;
        head.be64(64).ok_or_else(short)?;

        if !(9..=21).contains(&cluster_bits) {
            return Err(Qcow2Error::ClusterSize { bits: cluster_bits });
        }
        let cluster = 1_u64 << cluster_bits;
        let features = if version == 3 {
            Features::parse(head, cluster)?
        } else {
            Features::default()
        };
        // Before encryption and sizes: a delta of a VM is the most likely wrong
        // image, and its other fields may be valid.
        if backing != 0 {
            let name = usize::try_from(backing)
                .ok()
                .and_then(|at| head.get(at..at.checked_add(backing_length.min(1023) as usize)?))
                .map_or_else(String::new, |name| {
                    String::from_utf8_lossy(name).into_owned()
                });
            return Err(Qcow2Error::BackingFile { name });
        }
        if encryption != 0 {
            return Err(Qcow2Error::Encrypted { method: encryption });
        }
        if features.extended_l2 && cluster_bits < 14 {
            return Err(Qcow2Error::ExtendedClusters { size: cluster });
        }
        let header = Self {
            version,
            // QEMU counts whole sectors.
            size: size & !511,
            cluster_bits,
            compression: features.compression,
            extended_l2: features.extended_l2,
            dirty: features.dirty,
            corrupt: features.corrupt,
            snapshots,
            l1_offset,
            l1_entries,
            refcounts,
            refcount_clusters,
        };
        header.check_l1()?;
        Ok(header)
    }

    fn check_l1(&self) -> Result<(), Qcow2Error> {
        let needed = self.size.div_ceil(self.l2_reach());
        let entries = u64::from(self.l1_entries);
        if entries * 8 > MAX_L1_BYTES || needed * 8 > MAX_L1_BYTES {
            return Err(Qcow2Error::L1TooLarge {
                entries: entries.max(needed),
                most: MAX_L1_BYTES / 8,
            });
        }
        if entries < needed {
            return Err(Qcow2Error::L1TooSmall { entries, needed });
        }
        if !self.l1_offset.is_multiple_of(self.cluster()) || self.l1_offset >= 1 << 56 {
            return Err(Qcow2Error::Unaligned {
                what: "L1 table",
                offset: self.l1_offset,
            });
        }
        if self.l1_offset == 0 && needed > 0 {
            return Err(Qcow2Error::Unaligned {
                what: "L1 table",
                offset: 0,
            });
        }
        Ok(())
    }

    /// Bytes of a cluster.
    pub fn cluster(&self) -> u64 {
        1 << self.cluster_bits
    }

    /// Bytes of an entry of an L2 table.
    pub(crate) fn entry(&self) -> u64 {
        if self.extended_l2 { 16 } else { 8 }
    }

    /// Bytes of the disk that one L2 table maps.
    pub(crate) fn l2_reach(&self) -> u64 {
        self.cluster() / self.entry() * self.cluster()
    }

    /// The used entries of the L1 table; QEMU ignores others.
    pub(crate) fn l1_used(&self) -> u64 {
        self.size.div_ceil(self.l2_reach())
    }
}

/// What version 3 adds.
#[derive(Debug)]
struct Features {
    compression: Compression,
    extended_l2: bool,
    dirty: bool,
    corrupt: bool,
}

impl Default for Features {
    fn default() -> Self {
        Self {
            compression: Compression::Zlib,
            extended_l2: false,
            dirty: false,
            corrupt: false,
        }
    }
}

impl Features {
    fn parse(head: &[u8], cluster: u64) -> Result<Self, Qcow2Error> {
        let short = || Qcow2Error::ShortHeader;
        let incompatible = head.be64(72).ok_or_else(short)?;
        let refcount_order = head.be32(96).ok_or_else(short)?;
        let length = head.be32(100).ok_or_else(short)?;
        if length < 104 || u64::from(length) > cluster {
            return Err(Qcow2Error::HeaderLength { length });
        }
        if refcount_order > 6 {
            return Err(Qcow2Error::RefcountOrder {
                order: refcount_order,
            });
        }
        let unknown = incompatible & !(DIRTY | CORRUPT | EXTERNAL | COMPRESSION | EXTENDED);
        // QEMU's rule for incompatible bits: a program that does not know one must not open the
        // image, as the bit may change what tables mean.
        if unknown != 0 {
            return Err(Qcow2Error::Features { bits: unknown });
        }
        if incompatible & EXTERNAL != 0 {
            return Err(Qcow2Error::ExternalData);
        }
        let kind = if length > 104 {
            *head.get(104).ok_or_else(short)?
        } else {
            0
        };
        // The bit is there exactly if it is not zlib.
        let compression = match (kind, incompatible & COMPRESSION != 0) {
            (0, false) => Compression::Zlib,
            (1, true) => Compression::Zstd,
            (kind, flag) => return Err(Qcow2Error::CompressionType { kind, flag }),
        };
        Ok(Self {
            compression,
            extended_l2: incompatible & EXTENDED != 0,
            dirty: incompatible & DIRTY != 0,
            corrupt: incompatible & CORRUPT != 0,
        })
    }
}
