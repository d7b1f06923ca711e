//! Which objects a layer looks after, and which of them are to be looked at now.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;
use runtime::{Change, Key, Queue};

/// The objects of one kind; clones share them.
#[derive(Clone, Default)]
pub(super) struct Agenda {
    queue: Queue<Key>,
    known: Arc<Mutex<BTreeSet<Key>>>,
}

impl Agenda {
    /// What is to be looked at.
    pub(super) fn queue(&self) -> &Queue<Key> {
        &self.queue
    }

    /// An object is new, different or gone.
    pub(super) fn changed<K>(&self, key: &Key, change: &Change<K>) {
        let mut known = self.known.lock();
        if change.new.is_some() {
            known.insert(key.clone());
        } else {
            known.remove(key);
        }
        self.queue.add(key.clone());
    }

    /// Something is different that all of them depend on.
    pub(super) fn all(&self) {
        for key in &*self.known.lock() {
            self.queue.add(key.clone());
        }
    }
}
