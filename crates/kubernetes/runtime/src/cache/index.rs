//! An index: objects of a cache by a term derived from them.

use std::sync::Arc;

use super::{Cache, Kind};

/// Finds the objects of a cache by a term; client-go's `Indexer`.
pub struct Index<K> {
    cache: Cache<K>,
    slot: usize,
}

impl<K> Clone for Index<K> {
    fn clone(&self) -> Self {
        Self {
            cache: self.cache.clone(),
            slot: self.slot,
        }
    }
}

impl<K: Kind> Index<K> {
    pub(super) fn new(cache: Cache<K>, slot: usize) -> Self {
        Self { cache, slot }
    }

    /// Objects with this term, ordered by namespace and name.
    pub fn find(&self, term: &str) -> Vec<Arc<K>> {
        self.cache.shared.state.read().indexed(self.slot, term)
    }
}
