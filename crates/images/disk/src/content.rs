//! The content hash of a disk, independent of its image format.
//!
//! Two imports of the same disk have the same hash, be it raw or qcow2, in any order of clusters. A
//! plain SHA-256 of the disk would require writing in order or reading everything back, holes included;
//! for a mostly empty disk that costs more than the import. So this is a tree:
//!
//! * a *block* is 4096 bytes, the last one may be shorter. Blocks of zeros do not count.
//! * a *leaf* is the smallest power of two of at least 1 MiB of which 65,536 cover the disk. Its
//!   hash is the SHA-256 over every counting block: its number within the leaf (u32, big endian),
//!   its length (u32), its bytes.
//! * the *root* is the SHA-256 over `medley disk 1\n`, the size of the disk and of a leaf (u64), and for
//!   every leaf with a counting block its number (u64) and hash.
//!
//! Blocks of a leaf that come in ascending order are hashed as they come; a leaf where they do not
//! is read back in the end. A hasher is kept for each leaf: 65,536 of them at most, 8 MiB.

use std::collections::BTreeMap;
use std::fmt;

use platform::{Algorithm, Hasher};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// The block size.
pub(crate) const BLOCK: usize = 4096;

/// The minimum size of a leaf.
const MIN_LEAF_BYTES: u64 = 1 << 20;

/// The maximum number of leaves.
// A disk of 64 GiB has leaves of 1 MiB; beyond, leaves grow instead of their number, and with them only the amount
// that is read back after an out-of-order write.
const MAX_LEAVES: u64 = 1 << 16;

/// The content hash of a disk.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ContentHash(String);

impl ContentHash {
    /// `tree-sha256:` and 64 hexadecimal digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A leaf being hashed.
#[derive(Debug, Clone)]
struct Leaf {
    hash: Sha256,
    /// The lowest block that may still follow in order.
    next: u32,
    /// Blocks came out of order: the hash so far is useless.
    torn: bool,
}

impl Leaf {
    fn new() -> Self {
        Self {
            hash: Sha256::new(),
            next: 0,
            torn: false,
        }
    }

    fn add(&mut self, number: u32, data: &[u8]) {
        // SHA-256 cannot insert: once a block came late, the leaf is worthless and is read back. Sorting in memory
        // would need the whole leaf.
        if self.torn || number < self.next {
            self.torn = true;
            return;
        }
        self.next = number.saturating_add(1);
        self.hash.update(number.to_be_bytes());
        // A block has no more than 4096 bytes.
        let length = u32::try_from(data.len()).unwrap_or(u32::MAX);
        self.hash.update(length.to_be_bytes());
        self.hash.update(data);
    }
}

/// The hash of a disk being written.
#[derive(Debug)]
pub(crate) struct Tree {
    size: u64,
    leaf: u64,
    leaves: BTreeMap<u64, Leaf>,
}

impl Tree {
    /// For a disk of this many bytes.
    pub(crate) fn new(size: u64) -> Self {
        let leaf = size
            .div_ceil(MAX_LEAVES)
            .checked_next_power_of_two()
            .unwrap_or(1 << 63)
            .max(MIN_LEAF_BYTES);
        Self {
            size,
            leaf,
            leaves: BTreeMap::new(),
        }
    }

    /// The size it was created for.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Adds a whole block with non-zero content. Other writes have to be reported with [`Tree::tear`].
    pub(crate) fn add(&mut self, offset: u64, block: &[u8]) {
        let (leaf, number) = self.place(offset);
        self.leaves
            .entry(leaf)
            .or_insert_with(Leaf::new)
            .add(number, block);
    }

    /// A write to the leaf of this byte was not a whole block, or a repetition: the leaf has to be read
    /// back.
    pub(crate) fn tear(&mut self, offset: u64) {
        let (leaf, _) = self.place(offset);
        self.leaves.entry(leaf).or_insert_with(Leaf::new).torn = true;
    }

    /// Every non-empty leaf has to be read back: the earlier hashes are not known.
    pub(crate) fn tear_all(&mut self) {
        for leaf in 0..self.size.div_ceil(self.leaf) {
            self.tear(leaf * self.leaf);
        }
    }

    fn place(&self, offset: u64) -> (u64, u32) {
        let number = offset % self.leaf / BLOCK as u64;
        // A leaf has at most 2^64 / 2^16 bytes, which are 2^36 blocks; real disks are smaller, and two
        // blocks with one number only mark the leaf as torn.
        (offset / self.leaf, u32::try_from(number).unwrap_or(0))
    }

    /// The content hash. `read` reads the disk at an offset; it is called for leaves that did not come
    /// in order.
    pub(crate) fn finish<E>(
        mut self,
        mut read: impl FnMut(u64, &mut [u8]) -> Result<(), E>,
    ) -> Result<ContentHash, E> {
        let mut root = Hasher::new(Algorithm::Sha256);
        // A version, so that a later scheme never produces a hash that an older
        // import already recorded for other content.
        root.update(b"medley disk 1\n");
        root.update(&self.size.to_be_bytes());
        root.update(&self.leaf.to_be_bytes());
        let mut buffer = vec![0; 1 << 20];
        for (index, mut leaf) in std::mem::take(&mut self.leaves) {
            if leaf.torn {
                leaf = self.again(index, &mut buffer, &mut read)?;
            }
            if leaf.next > 0 {
                root.update(&index.to_be_bytes());
                root.update(&leaf.hash.finalize());
            }
        }
        Ok(ContentHash(format!("tree-{}", root.finish())))
    }

    fn again<E>(
        &self,
        index: u64,
        buffer: &mut [u8],
        read: &mut impl FnMut(u64, &mut [u8]) -> Result<(), E>,
    ) -> Result<Leaf, E> {
        let mut leaf = Leaf::new();
        let start = index * self.leaf;
        let end = start.saturating_add(self.leaf).min(self.size);
        let mut at = start;
        while at < end {
            let take = usize::try_from(end - at)
                .unwrap_or(usize::MAX)
                .min(buffer.len());
            let Some(part) = buffer.get_mut(..take) else {
                break;
            };
            read(at, part)?;
            for (block, data) in part.chunks(BLOCK).enumerate() {
                if !is_zero(data) {
                    let (_, number) = self.place(at + (block * BLOCK) as u64);
                    leaf.add(number, data);
                }
            }
            at += take as u64;
        }
        Ok(leaf)
    }
}

/// Whether all bytes are zero.
pub(crate) fn is_zero(data: &[u8]) -> bool {
    // The compiler vectorizes the inner loop; the outer one ends it early.
    data.chunks(256)
        .all(|chunk| chunk.iter().fold(0, |sum, byte| sum | byte) == 0)
}

#[cfg(test)]
mod tests;
