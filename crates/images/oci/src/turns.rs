//! One at a time: whoever wants to work at the same thing waits for its turn.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::OwnedMutexGuard;

/// Who is at what.
#[derive(Debug)]
pub struct Turns<K> {
    busy: Mutex<HashMap<K, Weak<tokio::sync::Mutex<()>>>>,
}

impl<K> Default for Turns<K> {
    fn default() -> Self {
        Self {
            busy: Mutex::new(HashMap::new()),
        }
    }
}

impl<K: Hash + Eq + Clone> Turns<K> {
    /// Waits until nobody else is at it. The turn ends when what this gives is dropped.
    pub async fn wait(&self, key: &K) -> OwnedMutexGuard<()> {
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
