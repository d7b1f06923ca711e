//! The expected pieces of an image, by their offset; and which clusters are parked.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

/// Upper bound of expected items. One takes some 36 bytes: this is 9 MiB, and as much for the next
/// pass. Lower in tests.
pub(super) const MAX_ITEMS: usize = if cfg!(test) { 1 << 11 } else { 1 << 18 };

/// Upper bound of clusters tracked as parked: 4 MiB of bits.
const MAX_PARKED_BITS: u64 = 1 << 25;

/// Marks keys that are not offsets on the disk.
const TABLE: u64 = 1 << 63;

/// A needed part of the image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Item {
    /// This many clusters, contiguous in the image and on the disk.
    Run(u32),
    /// One cluster of which the subclusters with a bit are needed.
    Parts(u32),
    /// One cluster, compressed to at most this many bytes.
    Compressed(u32),
    /// The L2 table of this entry of the L1 table.
    Table(u32),
    /// The refcount table: read to know which clusters need not be parked.
    Refcounts,
    /// Reference counts.
    Ignored,
}

/// An item and its offsets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Piece {
    /// The offset in the image.
    pub(super) host: u64,
    /// The offset on the disk; none for tables.
    pub(super) guest: u64,
    /// The item.
    pub(super) item: Item,
}

impl Piece {
    fn key(&self) -> (u64, u64) {
        let tag = match self.item {
            Item::Run(_) | Item::Parts(_) | Item::Compressed(_) => self.guest,
            Item::Table(index) => TABLE | u64::from(index),
            Item::Refcounts => TABLE | 1 << 62,
            Item::Ignored => TABLE | 1 << 61,
        };
        (self.host, tag)
    }
}

/// Items by their offset in the image.
#[derive(Debug, Default)]
pub(super) struct Plan {
    items: BTreeMap<(u64, u64), Item>,
}

impl Plan {
    /// How many more items fit.
    pub(super) fn room(&self) -> usize {
        MAX_ITEMS.saturating_sub(self.items.len())
    }

    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Returns false if it is full.
    pub(super) fn insert(&mut self, piece: Piece) -> bool {
        if self.room() == 0 {
            return false;
        }
        self.items.insert(piece.key(), piece.item);
        true
    }

    /// The offset of the next item.
    pub(super) fn next(&self) -> Option<u64> {
        self.items.first_key_value().map(|((host, _), _)| *host)
    }

    /// Takes the next one if it begins before `end`.
    pub(super) fn take_before(&mut self, end: u64) -> Option<Piece> {
        let entry = self.items.first_entry()?;
        let (host, tag) = *entry.key();
        if host >= end {
            return None;
        }
        let item = entry.remove();
        Some(Piece {
            host,
            guest: tag,
            item,
        })
    }

    /// All of them, in order.
    pub(super) fn pieces(&self) -> impl Iterator<Item = Piece> {
        self.items.iter().map(|((host, guest), item)| Piece {
            host: *host,
            guest: *guest,
            item: *item,
        })
    }
}

impl FromIterator<Piece> for Plan {
    fn from_iter<I: IntoIterator<Item = Piece>>(pieces: I) -> Self {
        let mut plan = Self::default();
        for piece in pieces {
            plan.insert(piece);
        }
        plan
    }
}

/// Which clusters of the image are parked in the tail of the target.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub(super) struct Parked {
    bits: Vec<u64>,
}

impl Parked {
    /// Records a cluster. Those with too high numbers are not recorded: they count as dropped, and
    /// another pass reads them.
    pub(super) fn add(&mut self, cluster: u64) {
        let Some(word) = Self::word(cluster) else {
            return;
        };
        if self.bits.len() <= word {
            self.bits.resize(word + 1, 0);
        }
        if let Some(bits) = self.bits.get_mut(word) {
            *bits |= 1 << (cluster % 64);
        }
    }

    /// Whether it is recorded as parked.
    pub(super) fn has(&self, cluster: u64) -> bool {
        Self::word(cluster)
            .and_then(|word| self.bits.get(word))
            .is_some_and(|bits| bits & (1 << (cluster % 64)) != 0)
    }

    fn word(cluster: u64) -> Option<usize> {
        (cluster < MAX_PARKED_BITS)
            .then(|| usize::try_from(cluster / 64).ok())
            .flatten()
    }
}

/// Upper bound of bytes kept of clusters that could not be parked.
const LATEST: usize = 4 << 20;

/// The latest unclaimed clusters, for targets without a tail.
///
/// Where compressed data of one L2 table ends, that of the next begins in the same cluster, and only
/// then comes the table: a few clusters save most images another pass.
#[derive(Debug, Default)]
pub(super) struct Latest {
    clusters: VecDeque<(u64, Vec<u8>)>,
    bytes: usize,
}

impl Latest {
    /// Adds a cluster, and drops the oldest.
    pub(super) fn add(&mut self, host: u64, data: &[u8]) {
        self.bytes += data.len();
        self.clusters.push_back((host, data.to_vec()));
        while self.bytes > LATEST
            && let Some((_, old)) = self.clusters.pop_front()
        {
            self.bytes -= old.len();
        }
    }

    /// A cluster that is still kept.
    pub(super) fn get(&self, host: u64) -> Option<&[u8]> {
        self.clusters
            .binary_search_by_key(&host, |(host, _)| *host)
            .ok()
            .and_then(|at| self.clusters.get(at))
            .map(|(_, data)| data.as_slice())
    }
}
