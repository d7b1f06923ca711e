//! The state in memory: every key with its versions, and the log of events.
//!
//! ```text
//!  keys   /registry/pods/a/x -> [ (7, v1) (9, v2) ]          versions newer than the compaction,
//!         /registry/pods/a/y -> [ (8, v1) (12, deleted) ]    and the one version before it
//!  log    7 8 9 12 ...                                       all events after the compaction
//!  per collection: the same events of one resource only, and its wake-up channel
//! ```

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use tokio::sync::watch;

use super::{Entry, Event, StoreError};

/// The revision of an empty store. As in etcd it is not 0, because 0 has a special meaning as a
/// resourceVersion.
pub(super) const FIRST_REVISION: u64 = 1;

/// One page of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// The entries in key order.
    pub entries: Vec<Arc<Entry>>,
    /// The revision the list is consistent at.
    pub revision: u64,
    /// Whether entries follow after this page.
    pub more: bool,
    /// Number of entries after this page.
    pub remaining: usize,
}

/// A version of a key and the revision that wrote it; `None` is a deletion.
type Version = (u64, Option<Arc<Entry>>);

/// The versions of one key. Most keys have one, which therefore is stored inline, without an
/// allocation.
#[derive(Debug)]
struct Slot {
    newest: Version,
    /// The versions before it, oldest first.
    older: Vec<Version>,
}

impl Slot {
    fn new(newest: Version) -> Self {
        Self {
            newest,
            older: Vec::new(),
        }
    }

    fn push(&mut self, version: Version) {
        self.older
            .push(std::mem::replace(&mut self.newest, version));
    }

    fn current(&self) -> Option<&Arc<Entry>> {
        self.newest.1.as_ref()
    }

    fn at(&self, revision: u64) -> Option<&Arc<Entry>> {
        if self.newest.0 <= revision {
            return self.current();
        }
        let newer = self
            .older
            .partition_point(|(written, _)| *written <= revision);
        self.older.get(newer.checked_sub(1)?)?.1.as_ref()
    }

    /// Drops the versions that no list at `revision` or later can see; returns whether any
    /// version is left.
    fn trim(&mut self, revision: u64) -> bool {
        if self.newest.0 <= revision {
            self.older = Vec::new();
            return self.newest.1.is_some();
        }
        let newer = self
            .older
            .partition_point(|(written, _)| *written <= revision);
        // The last one before `revision` is what a list at it returns, unless that is a deletion.
        let seen = newer.checked_sub(1).and_then(|last| self.older.get(last));
        let useless = newer - usize::from(seen.is_some_and(|(_, entry)| entry.is_some()));
        self.older.drain(..useless);
        true
    }
}

/// The events of one resource.
#[derive(Debug)]
pub(super) struct Collection {
    log: VecDeque<Arc<Event>>,
    /// The newest event no longer in `log`: a reader with an older position has missed it.
    dropped: u64,
    wake: watch::Sender<u64>,
}

/// See the module documentation.
#[derive(Debug)]
pub(super) struct State {
    pub(super) revision: u64,
    pub(super) compacted: u64,
    pub(super) closed: bool,
    /// Number of records with unknown keys. They stay in the file.
    pub(super) lost: usize,
    keys: BTreeMap<Arc<str>, Slot>,
    log: VecDeque<Arc<Event>>,
    history_bytes: usize,
    collections: HashMap<Box<str>, Collection>,
}

impl State {
    pub(super) fn new() -> Self {
        Self {
            revision: FIRST_REVISION,
            compacted: 0,
            closed: false,
            lost: 0,
            keys: BTreeMap::new(),
            log: VecDeque::new(),
            history_bytes: 0,
            collections: HashMap::new(),
        }
    }

    pub(super) fn get(&self, key: &str) -> Option<&Arc<Entry>> {
        self.keys.get(key).and_then(Slot::current)
    }

    pub(super) fn count(&self, prefix: &str) -> usize {
        self.range(prefix, Bound::Unbounded)
            .filter(|slot| slot.current().is_some())
            .count()
    }

    pub(super) fn list(
        &self,
        prefix: &str,
        start: Bound<&str>,
        limit: usize,
        at: Option<u64>,
    ) -> Result<Page, StoreError> {
        let revision = at.unwrap_or(self.revision);
        if revision > self.revision {
            return Err(StoreError::FutureRevision {
                requested: revision,
                current: self.revision,
            });
        }
        if revision < self.compacted {
            return Err(StoreError::Compacted {
                requested: revision,
                compacted: self.compacted,
            });
        }
        let limit = if limit == 0 { usize::MAX } else { limit };
        let mut entries = Vec::new();
        let mut remaining = 0;
        for entry in self
            .range(prefix, start)
            .filter_map(|slot| slot.at(revision))
        {
            if entries.len() < limit {
                entries.push(Arc::clone(entry));
            } else {
                remaining += 1;
            }
        }
        Ok(Page {
            entries,
            revision,
            more: remaining > 0,
            remaining,
        })
    }

    fn range<'a>(&'a self, prefix: &'a str, start: Bound<&str>) -> impl Iterator<Item = &'a Slot> {
        let start = match start {
            Bound::Included(key) | Bound::Excluded(key) if key >= prefix => start,
            _ => Bound::Included(prefix),
        };
        self.keys
            .range::<str, _>((start, Bound::Unbounded))
            .take_while(move |(key, _)| key.starts_with(prefix))
            .map(|(_, slot)| slot)
    }

    /// Loads a version from before the compaction; events are loaded by [`Self::apply`]. Returns
    /// the revision of a record that the new one makes obsolete.
    pub(super) fn load(&mut self, entry: Entry, delete: bool) -> Option<u64> {
        self.revision = self.revision.max(entry.mod_revision);
        let key = Arc::clone(&entry.key);
        let superseded = if delete {
            self.keys.remove(&key)
        } else {
            self.keys
                .insert(key, Slot::new((entry.mod_revision, Some(Arc::new(entry)))))
        };
        superseded.and_then(|slot| slot.current().map(|entry| entry.mod_revision))
    }

    /// Skips a record with an unknown key; its revision is used all the same.
    pub(super) fn skip(&mut self, revision: u64) {
        self.revision = self.revision.max(revision);
        self.lost += 1;
    }

    /// The current versions that are known to be damaged.
    pub(super) fn damaged(&self) -> Vec<Arc<Entry>> {
        self.keys
            .values()
            .filter_map(Slot::current)
            .filter(|entry| entry.known_damage().is_some())
            .cloned()
            .collect()
    }

    /// Makes an event visible to readers. Watchers are woken by [`Self::wake`] afterwards.
    pub(super) fn apply(&mut self, event: &Arc<Event>) {
        let version = (event.revision, event.after().cloned());
        match self.keys.get_mut(&event.entry.key) {
            Some(slot) => slot.push(version),
            None => {
                self.keys
                    .insert(Arc::clone(&event.entry.key), Slot::new(version));
            }
        }
        self.revision = event.revision;
        self.history_bytes += event.history_bytes();
        // Each event is in two logs, as two pointers: one for watches across resources and
        // compaction, one for the watches of a resource, which then do not scan the events of all
        // others.
        self.log.push_back(Arc::clone(event));
        self.collection(collection_of(&event.entry.key))
            .log
            .push_back(Arc::clone(event));
    }

    fn collection(&mut self, name: &str) -> &mut Collection {
        let compacted = self.compacted;
        self.collections
            .entry(name.into())
            .or_insert_with(|| Collection {
                log: VecDeque::new(),
                // Not 0: events of this resource may have been compacted together with a former
                // collection of that name, and a watch from before must end with an error rather
                // than miss them.
                dropped: compacted,
                wake: watch::Sender::new(0),
            })
    }

    /// Wakes the watchers of the collections that `events` touch.
    pub(super) fn wake(&self, events: &[Arc<Event>]) {
        let mut last = "";
        for event in events {
            let name = collection_of(&event.entry.key);
            // Most batches touch one or two collections; waking one twice is harmless.
            if name != last
                && let Some(collection) = self.collections.get(name)
            {
                collection.wake.send_replace(self.revision);
            }
            last = name;
        }
    }

    /// Wakes all watchers, when the store closes.
    pub(super) fn wake_all(&self) {
        for collection in self.collections.values() {
            collection.wake.send_replace(self.revision);
        }
    }

    /// A receiver of the wake-ups of a collection.
    pub(super) fn subscribe(&self, name: &str) -> Option<watch::Receiver<u64>> {
        self.collections
            .get(name)
            .map(|collection| collection.wake.subscribe())
    }

    /// As [`Self::subscribe`], for a collection that may have no events yet.
    pub(super) fn subscribe_new(&mut self, name: &str) -> watch::Receiver<u64> {
        self.collection(name).wake.subscribe()
    }

    /// Copies events after `position` to `out`, checking at most `limit`; returns the position up
    /// to which all have been checked.
    pub(super) fn events(
        &self,
        collection: Option<&str>,
        prefix: &str,
        position: u64,
        limit: usize,
        out: &mut VecDeque<Arc<Event>>,
    ) -> Result<u64, StoreError> {
        let (log, dropped) = match collection {
            None => (&self.log, self.compacted),
            Some(name) => match self.collections.get(name) {
                Some(collection) => (&collection.log, collection.dropped),
                // Only collections without watchers are dropped.
                None => return Ok(self.revision),
            },
        };
        if position < dropped {
            return Err(StoreError::Compacted {
                requested: position,
                compacted: self.compacted,
            });
        }
        let from = log.partition_point(|event| event.revision <= position);
        let mut seen = position;
        for event in log.range(from..).take(limit) {
            seen = event.revision;
            if event.entry.key.starts_with(prefix) {
                out.push_back(Arc::clone(event));
            }
        }
        // Having read to the end of its log, a watch of an idle resource is up to date with the
        // whole store: its bookmark may carry a revision that other resources have written.
        // Otherwise its position would age until it is compacted.
        Ok(if log.len() - from <= limit {
            self.revision
        } else {
            seen
        })
    }

    /// The revision to compact to when history exceeds its limits. A twentieth more than needed is
    /// dropped at once, so that this is rare.
    pub(super) fn excess(&self, max_events: usize, max_bytes: usize) -> Option<u64> {
        let mut drop = 0;
        if self.log.len() > max_events {
            drop = self.log.len() - (max_events - max_events / 20);
        }
        if self.history_bytes > max_bytes {
            let mut bytes = self.history_bytes;
            let target = max_bytes - max_bytes / 20;
            let needed = self
                .log
                .iter()
                .take_while(|event| {
                    let over = bytes > target;
                    bytes -= event.history_bytes();
                    over
                })
                .count();
            drop = drop.max(needed);
        }
        drop.checked_sub(1)
            .and_then(|index| self.log.get(index))
            .map(|event| event.revision)
    }

    /// Compacts history up to and including `revision`. Returns the revisions of the records that
    /// are obsolete.
    pub(super) fn compact(&mut self, revision: u64) -> Vec<u64> {
        let mut garbage = Vec::new();
        if revision <= self.compacted {
            return garbage;
        }
        self.compacted = revision;
        while let Some(event) = self.log.pop_front_if(|event| event.revision <= revision) {
            self.history_bytes -= event.history_bytes();
            // A version is garbage once the event that replaced it is compacted, not when it is
            // replaced: until then lists at older revisions return it.
            if let Some(previous) = &event.previous {
                garbage.push(previous.mod_revision);
            }
            if event.is_delete() {
                garbage.push(event.revision);
            }
            let key = &event.entry.key;
            if self
                .keys
                .get_mut(key)
                .is_some_and(|slot| !slot.trim(revision))
            {
                self.keys.remove(key);
            }
            let name = collection_of(key);
            let Some(collection) = self.collections.get_mut(name) else {
                continue;
            };
            collection.dropped = event.revision;
            collection.log.pop_front();
            // With receivers it stays, although it is empty: a new collection would have another
            // channel, and the existing watches would sleep forever.
            if collection.log.is_empty() && collection.wake.receiver_count() == 0 {
                self.collections.remove(name);
            }
        }
        garbage
    }
}

/// The part of a key that names its resource: `/registry/pods/`, or with a group
/// `/registry/example.com/widgets/` (the group of a custom resource always has a dot, the plural
/// name of a resource never has). Keys of another shape share the empty collection.
pub(super) fn collection_of(key: &str) -> &str {
    resource_prefix(key).unwrap_or_default()
}

/// As [`collection_of`], for a prefix of keys; `None` when the keys may be in several collections.
pub(super) fn resource_prefix(prefix: &str) -> Option<&str> {
    let mut slashes = prefix.match_indices('/').map(|(at, _)| at);
    let _root = slashes.next().filter(|at| *at == 0)?;
    let first = slashes.next()?;
    let second = slashes.next()?;
    if !prefix[first..second].contains('.') {
        return Some(&prefix[..=second]);
    }
    slashes.next().map(|third| &prefix[..=third])
}
