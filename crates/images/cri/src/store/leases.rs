//! Leases: content that is not part of an image yet and must not be collected.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use parking_lot::Mutex;
use platform::Digest;

use super::Store;

/// The number of leases per digest.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    held: Mutex<HashMap<Digest, usize>>,
}

impl Leases {
    /// Runs `work` unless the content is leased; no lease is granted meanwhile.
    pub(super) fn unless_leased(&self, digest: &Digest, work: impl FnOnce()) {
        let held = self.held.lock();
        if !held.contains_key(digest) {
            work();
        }
    }
}

/// Protects content while it exists.
#[derive(Debug)]
pub(crate) struct Lease {
    store: Arc<Store>,
    digests: BTreeSet<Digest>,
}

impl Lease {
    pub(super) fn new(store: &Arc<Store>, digests: BTreeSet<Digest>) -> Self {
        let mut held = store.leases().held.lock();
        for digest in &digests {
            *held.entry(digest.clone()).or_default() += 1;
        }
        Self {
            store: Arc::clone(store),
            digests,
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut held = self.store.leases().held.lock();
        for digest in &self.digests {
            if let Some(count) = held.get_mut(digest) {
                *count -= 1;
                if *count == 0 {
                    held.remove(digest);
                }
            }
        }
    }
}
