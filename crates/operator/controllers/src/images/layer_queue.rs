//! Work queue of a layer that can enqueue all of its objects.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;
use runtime::{Change, Key, Queue};

/// Work queue and known objects of one kind; clones share them.
#[derive(Clone, Default)]
pub(super) struct LayerQueue {
    queue: Queue<Key>,
    known: Arc<Mutex<BTreeSet<Key>>>,
}

impl LayerQueue {
    pub(super) fn queue(&self) -> &Queue<Key> {
        &self.queue
    }

    /// Enqueues an object that was added, modified or deleted.
    pub(super) fn changed<K>(&self, key: &Key, change: &Change<K>) {
        let mut known = self.known.lock();
        if change.new.is_some() {
            known.insert(key.clone());
        } else {
            known.remove(key);
        }
        self.queue.add(key.clone());
    }

    /// Enqueues all objects, because a shared dependency changed.
    pub(super) fn add_all(&self) {
        for key in &*self.known.lock() {
            self.queue.add(key.clone());
        }
    }
}
