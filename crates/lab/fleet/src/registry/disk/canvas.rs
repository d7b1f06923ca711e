//! A sparse disk.

use std::collections::BTreeMap;

/// Allocation unit in bytes; also the cluster size of the qcow2 image.
pub(in crate::registry) const CLUSTER: usize = 64 << 10;

/// The bytes of a disk. Unwritten clusters are zero and use no memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::registry) struct Canvas {
    size: u64,
    clusters: BTreeMap<u64, Vec<u8>>,
}

impl Canvas {
    /// An empty disk of this size.
    pub(in crate::registry) fn new(size: u64) -> Self {
        Self {
            size,
            clusters: BTreeMap::new(),
        }
    }

    /// Size in bytes.
    pub(in crate::registry) fn size(&self) -> u64 {
        self.size
    }

    /// The written clusters, by their number.
    pub(in crate::registry) fn clusters(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.clusters
            .iter()
            .map(|(at, bytes)| (*at, bytes.as_slice()))
    }

    /// Writes bytes at an offset. Those beyond the end of the disk are dropped.
    pub(in crate::registry) fn write(&mut self, mut at: u64, mut bytes: &[u8]) {
        let space = usize::try_from(self.size.saturating_sub(at)).unwrap_or(usize::MAX);
        bytes = bytes.get(..space).unwrap_or(bytes);
        let cluster = CLUSTER as u64;
        while !bytes.is_empty() {
            // Less than a cluster, so it fits in usize.
            let from = usize::try_from(at % cluster).unwrap_or(0);
            let (now, later) = bytes.split_at(bytes.len().min(CLUSTER - from));
            let into = self
                .clusters
                .entry(at / cluster)
                .or_insert_with(|| vec![0; CLUSTER]);
            into[from..from + now.len()].copy_from_slice(now);
            at += now.len() as u64;
            bytes = later;
        }
    }

    /// All bytes.
    #[cfg(test)]
    pub(in crate::registry) fn raw(&self) -> Vec<u8> {
        let mut raw = vec![0; usize::try_from(self.size).unwrap()];
        for (number, bytes) in self.clusters() {
            let at = usize::try_from(number).unwrap() * CLUSTER;
            let space = (raw.len() - at).min(CLUSTER);
            raw[at..at + space].copy_from_slice(&bytes[..space]);
        }
        raw
    }
}
