//! Entries of L2 tables: where a cluster of the disk is in the image.

use super::header::Header;
use super::{Bytes as _, Qcow2Error};

const COMPRESSED: u64 = 1 << 62;
const ZERO: u64 = 1;
/// Bits 9 to 55.
pub(super) const OFFSET: u64 = 0x00ff_ffff_ffff_fe00;

/// Parts of a cluster with extended entries.
pub(super) const PARTS: u32 = 32;

/// Where the data of a cluster is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Entry {
    /// Nowhere: it is zeros.
    Nothing,
    /// A cluster of the image as it is.
    Whole { host: u64 },
    /// Some parts of a cluster of the image; a bit for each.
    Parts { host: u64, present: u32 },
    /// Compressed, `length` bytes at most.
    Compressed { host: u64, length: u64 },
}

/// Reads the entry for the cluster at `guest` of the disk.
pub(super) fn read(
    header: &Header,
    table: &[u8],
    index: u64,
    guest: u64,
) -> Result<Entry, Qcow2Error> {
    let at = usize::try_from(index * header.entry()).unwrap_or(usize::MAX);
    // The table has a whole cluster, and the index is inside it.
    let entry = table.be64(at).unwrap_or(0);
    if entry & COMPRESSED != 0 {
        return Ok(compressed(header.cluster_bits, entry));
    }
    let host = entry & OFFSET;
    if host & (header.cluster() - 1) != 0 {
        return Err(Qcow2Error::Unaligned {
            what: "data cluster",
            offset: host,
        });
    }
    if !header.extended_l2 {
        if entry & ZERO != 0 {
            return if header.version < 3 {
                Err(Qcow2Error::ZeroInV2 { guest })
            } else {
                Ok(Entry::Nothing)
            };
        }
        return Ok(if host == 0 {
            Entry::Nothing
        } else {
            Entry::Whole { host }
        });
    }
    let bitmap = table.be64(at.saturating_add(8)).unwrap_or(0);
    let half = |bits: u64| u32::try_from(bits & u64::from(u32::MAX)).unwrap_or(0);
    let (present, zero) = (half(bitmap), half(bitmap >> 32));
    if host == 0 {
        return Ok(Entry::Nothing);
    }
    if present & zero != 0 {
        return Err(Qcow2Error::Parts { guest, bitmap });
    }
    Ok(match present {
        0 => Entry::Nothing,
        u32::MAX => Entry::Whole { host },
        present => Entry::Parts { host, present },
    })
}

/// The offset has 62 - (cluster_bits - 8) bits, the rest counts sectors after the first.
fn compressed(cluster_bits: u32, entry: u64) -> Entry {
    let shift = 62 - (cluster_bits - 8);
    let host = entry & ((1 << shift) - 1);
    let sectors = (entry & (COMPRESSED - 1)) >> shift;
    Entry::Compressed {
        host,
        // An upper bound, not the length: QEMU stores whole sectors, so the last one may hold
        // the beginning of the next compressed cluster.
        length: (sectors + 1) * 512 - (host & 511),
    }
}
