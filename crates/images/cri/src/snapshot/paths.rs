//! Sets of paths at eight bytes each.

#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::hash::{BuildHasher as _, RandomState};
use std::io;

use super::tree::refused;

/// Upper bound of paths a layer may create over the layers below: 16 MiB of fingerprints. The first
/// layer is not counted, as there is nothing below it to hide. Lower in tests.
const MAX_PATHS: usize = if cfg!(test) { 256 << 10 } else { 2 << 20 };

/// Fingerprints sorted at once. A hash table for all of them would take three times as much memory
/// while it grows.
const RUN_LENGTH: usize = 64 << 10;

/// A set of paths, stored as fingerprints with a random key that an image cannot know. Of a million
/// paths, two collide once in ten million layers; a whiteout would then leave a file of a lower layer.
#[derive(Debug, Default)]
pub(super) struct PathSet {
    key: RandomState,
    recent: HashSet<u64>,
    runs: Vec<Box<[u64]>>,
}

impl PathSet {
    /// Adds a path; `false` if it was present.
    pub(super) fn insert(&mut self, path: &[u8]) -> io::Result<bool> {
        let fingerprint = self.key.hash_one(path);
        if self.has(fingerprint) {
            return Ok(false);
        }
        if self.runs.len() * RUN_LENGTH + self.recent.len() >= MAX_PATHS {
            return Err(refused(format!(
                "the layer has more than {MAX_PATHS} files and folders over those of the layers below"
            )));
        }
        self.recent.insert(fingerprint);
        if self.recent.len() == RUN_LENGTH {
            let mut run: Box<[u64]> = self.recent.drain().collect();
            run.sort_unstable();
            self.runs.push(run);
        }
        Ok(true)
    }

    pub(super) fn contains(&self, path: &[u8]) -> bool {
        self.has(self.key.hash_one(path))
    }

    fn has(&self, fingerprint: u64) -> bool {
        self.recent.contains(&fingerprint)
            || self
                .runs
                .iter()
                .any(|run| run.binary_search(&fingerprint).is_ok())
    }

    /// Empties it and frees its memory.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}
