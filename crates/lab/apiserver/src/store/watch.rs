//! Watches: cursors into the shared log.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::watch;

use super::state::resource_prefix;
use super::{Event, Shared, StoreError};

/// Events taken from the log under one lock.
// Bounds the time that a far behind watcher holds the read lock, for which the writer waits.
const CHUNK: usize = 256;

/// A watch of all keys with a prefix: every event exactly once, in revision order.
///
/// It holds a position in the log and a few events, never a queue of its own, so a slow watcher
/// costs nothing. When compaction overtakes it, it ends with [`StoreError::Compacted`].
#[derive(Debug)]
pub struct Watch {
    shared: Arc<Shared>,
    prefix: Box<str>,
    /// The resource of the prefix, if it is in one: other resources do not wake the watch.
    collection: Option<Box<str>>,
    wake: watch::Receiver<u64>,
    /// Everything up to here has been taken from the log.
    position: u64,
    pending: VecDeque<Arc<Event>>,
}

impl Watch {
    pub(super) fn new(shared: Arc<Shared>, prefix: &str, from: u64) -> Result<Self, StoreError> {
        let collection = resource_prefix(prefix);
        // First, so that the events after `from` can still be found or their loss is detected.
        let wake = match collection {
            Some(name) => subscribe(&shared, name),
            None => shared.revision.subscribe(),
        };
        let compacted = shared.state.read().compacted;
        // Equal is allowed: the watch starts after `from`, and everything after the compaction is
        // in the log.
        if from < compacted {
            return Err(StoreError::Compacted {
                requested: from,
                compacted,
            });
        }
        Ok(Self {
            prefix: prefix.into(),
            collection: collection.map(Into::into),
            shared,
            wake,
            position: from,
            pending: VecDeque::new(),
        })
    }

    /// The next event. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Result<Arc<Event>, StoreError> {
        loop {
            // Before reading: a write after the read must wake us.
            self.wake.mark_unchanged();
            if let Some(event) = self.try_next()? {
                return Ok(event);
            }
            if self.shared.state.read().closed || self.wake.changed().await.is_err() {
                return Err(StoreError::Closed);
            }
        }
    }

    /// The next event, if it has already happened.
    pub fn try_next(&mut self) -> Result<Option<Arc<Event>>, StoreError> {
        loop {
            if let Some(event) = self.pending.pop_front() {
                return Ok(Some(event));
            }
            if !self.refill()? {
                return Ok(None);
            }
        }
    }

    /// Whether there may be new events; takes no lock. An answered write is never missed.
    pub fn may_have_news(&self) -> bool {
        !self.pending.is_empty() || self.wake.has_changed().unwrap_or(true)
    }

    /// All events that have happened and were not taken yet.
    pub fn take_all(&mut self) -> Result<Vec<Arc<Event>>, StoreError> {
        // Before reading: a write after the read must be visible as new.
        self.wake.mark_unchanged();
        let mut events = Vec::new();
        while let Some(event) = self.try_next()? {
            events.push(event);
        }
        Ok(events)
    }

    /// A revision up to which this watch has delivered all events: the value for a bookmark.
    pub fn progress(&mut self) -> u64 {
        // A watch of an idle resource sleeps while the store advances. If it has been overtaken,
        // the next call of `next` returns the error.
        while self.pending.is_empty() && self.refill().unwrap_or(false) {}
        self.pending
            .front()
            .map_or(self.position, |event| event.revision - 1)
    }

    /// Takes more events from the log; false when there were none.
    fn refill(&mut self) -> Result<bool, StoreError> {
        let state = self.shared.state.read();
        let position = state.events(
            self.collection.as_deref(),
            &self.prefix,
            self.position,
            CHUNK,
            &mut self.pending,
        )?;
        let moved = position > self.position;
        self.position = self.position.max(position);
        Ok(moved)
    }
}

fn subscribe(shared: &Shared, collection: &str) -> watch::Receiver<u64> {
    // The write lock is for the first watch of a resource only.
    let existing = shared.state.read().subscribe(collection);
    existing.unwrap_or_else(|| shared.state.write().subscribe_new(collection))
}
