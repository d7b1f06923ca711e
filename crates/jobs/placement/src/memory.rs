//! Cache of image fits.
//!
//! Workloads create many pods with the same images, and thousands of images share a few platforms: the fit is computed
//! once for all of them, and again when nodes change.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::fit::Fit;
use crate::images::Platforms;

/// Maximum number of entries. Users choose the platforms of their images, so the number of keys is unbounded.
const MAX_ENTRIES: usize = 1_000;

/// Cache key: the platforms of each image, and the operating system.
pub(crate) type FitKey = (Vec<Platforms>, String);

/// Fits for the current nodes. It is derived state: all caches compare equal, and a clone starts empty.
#[derive(Default)]
pub(crate) struct Memory(Mutex<HashMap<FitKey, Arc<Fit>>>);

impl Memory {
    /// The cached fit, computed by `find` if missing.
    pub(crate) fn get_or_compute(&self, key: FitKey, find: impl FnOnce() -> Fit) -> Arc<Fit> {
        if let Some(known) = self.0.lock().get(&key) {
            return Arc::clone(known);
        }
        // The lock is not held while computing; at worst two callers compute the same fit.
        let found = Arc::new(find());
        let mut known = self.0.lock();
        if known.len() >= MAX_ENTRIES {
            known.clear();
        }
        known.insert(key, Arc::clone(&found));
        found
    }

    /// Clears the cache after a node change.
    pub(crate) fn clear(&mut self) {
        self.0.get_mut().clear();
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.0.lock().len()
    }
}

impl Clone for Memory {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl PartialEq for Memory {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use platform::Platform;

    use super::*;

    fn key(architecture: &str) -> FitKey {
        let platforms = Platforms::from_iter([Platform::new("linux", architecture)]);
        (vec![platforms], "linux".to_owned())
    }

    #[test]
    fn fit_is_cached_until_nodes_change() {
        let mut memory = Memory::default();
        memory.get_or_compute(key("arm64"), Fit::default);
        memory.get_or_compute(key("arm64"), || panic!("it is known"));
        memory.clear();
        let mut found = false;
        memory.get_or_compute(key("arm64"), || {
            found = true;
            Fit::default()
        });
        assert!(found, "nodes have changed");
    }

    #[test]
    fn cache_size_is_bounded() {
        let memory = Memory::default();
        for n in 0..3 * MAX_ENTRIES {
            memory.get_or_compute(key(&n.to_string()), Fit::default);
        }
        assert!(memory.len() <= MAX_ENTRIES);
    }
}
