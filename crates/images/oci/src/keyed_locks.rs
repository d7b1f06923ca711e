//! Keyed locks: work on equal keys is serialized.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::OwnedMutexGuard;

/// Locks by key.
#[derive(Debug)]
pub struct KeyedLocks<K> {
    busy: Mutex<HashMap<K, Weak<tokio::sync::Mutex<()>>>>,
}

impl<K> Default for KeyedLocks<K> {
    fn default() -> Self {
        Self {
            busy: Mutex::new(HashMap::new()),
        }
    }
}

impl<K: Hash + Eq + Clone> KeyedLocks<K> {
    /// Acquires the lock of a key; it is released when the guard is dropped.
    pub async fn lock(&self, key: &K) -> OwnedMutexGuard<()> {
        let lock = {
            let mut busy = self.busy.lock();
            let found = busy.get(key).and_then(Weak::upgrade);
            found.unwrap_or_else(|| {
                busy.retain(|_, lock| lock.strong_count() > 0);
                let lock = Arc::default();
                busy.insert(key.clone(), Arc::downgrade(&lock));
                lock
            })
        };
        lock.lock_owned().await
    }
}
