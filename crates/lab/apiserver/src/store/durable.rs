//! The file of a store, its health, and the records to remove from it.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::RwLock;
use redb::Database;

use super::disk::{Batch, Disk, ReadRecord};
use super::state::{FIRST_REVISION, State};
use super::{Event, StoreError, quiet};

/// Obsolete records removed with a batch of writes: more than a batch produces, so that they never
/// accumulate, but few enough to be hidden by the sync.
const GARBAGE_WITH_WRITES: usize = 64;
/// Obsolete records removed at once when the store is idle.
const GARBAGE_WHEN_IDLE: usize = 512;

/// Damaged objects that are logged one by one when the file is opened.
// A file with a damaged region may have thousands; the metric `medley_apiserver_damaged_objects`
// has their number.
const MAX_LOGGED: usize = 20;

// Between two attempts writes fail at once, instead of queueing behind a disk that hangs. The upper
// bound keeps the server from staying read-only long after the disk is back.
const FIRST_BACKOFF: Duration = Duration::from_millis(20);
const LAST_BACKOFF: Duration = Duration::from_secs(2);

/// See the module documentation.
pub(super) struct Durable {
    disk: Disk,
    health: Health,
    garbage: VecDeque<u64>,
    /// The compaction as the file has it.
    compacted: u64,
}

enum Health {
    Open(Database),
    /// redb rejects everything after an I/O error, so the handle is dropped.
    Failed {
        error: StoreError,
        retry_at: Instant,
        backoff: Duration,
    },
}

impl Durable {
    /// Opens and reads the file. A file that the database cannot read as a whole is replaced by one
    /// with the readable records, and kept next to it.
    pub(super) fn open(disk: Disk) -> Result<(Self, State), StoreError> {
        // Salvage is tried once: if the file it has written is corrupt too, the disk is failing,
        // and a loop would rewrite it until it is full.
        let (db, state, garbage) = match guarded(&disk, || read(&disk)) {
            Err(error) if error.is_corruption() => {
                disk.salvage(error)?;
                guarded(&disk, || read(&disk))?
            }
            other => other?,
        };
        report(&disk, &state);
        let compacted = state.compacted;
        Ok((
            Self {
                disk,
                health: Health::Open(db),
                garbage,
                compacted,
            },
            state,
        ))
    }

    /// After a failure, reopens the file once its backoff has passed. Returns the events of a batch
    /// that was reported as failed but reached the disk: they have happened.
    pub(super) fn recover(&mut self, state: &RwLock<State>) -> Result<Vec<Arc<Event>>, StoreError> {
        let Health::Failed {
            error,
            retry_at,
            backoff,
        } = &self.health
        else {
            return Ok(Vec::new());
        };
        // Reads continue from memory meanwhile; only writes fail.
        if Instant::now() < *retry_at {
            return Err(error.clone());
        }
        let backoff = *backoff;
        match self.reopen(state) {
            Ok((db, events)) => {
                tracing::info!(
                    path = %self.disk.path().display(),
                    adopted = events.len(),
                    "the store file is writable again"
                );
                self.health = Health::Open(db);
                Ok(events)
            }
            Err(error) => {
                self.fail(error.clone(), (backoff * 2).min(LAST_BACKOFF));
                Err(error)
            }
        }
    }

    fn reopen(&self, state: &RwLock<State>) -> Result<(Database, Vec<Arc<Event>>), StoreError> {
        let db = self.disk.reopen().map_err(|error| match error {
            // The file was open before, so this is a failure of the disk and not of the
            // configuration.
            StoreError::Open { path, source } => StoreError::Io { path, source },
            other => other,
        })?;
        // Only the writer changes the state, so it is stable without the lock, which is not held
        // during I/O.
        let revision = state.read().revision;
        // The record of the newest published revision has to be there. Without it the file is
        // another one, restored or replaced under a running server, and continuing would hand out
        // revisions a second time.
        let mut known = revision == FIRST_REVISION;
        let mut newest = HashMap::new();
        let mut events = Vec::new();
        self.disk.records(&db, revision, |found| {
            let record = match found {
                ReadRecord::Record(record) => record,
                ReadRecord::Lost(lost) => {
                    known |= lost == revision;
                    return;
                }
            };
            let key = Arc::clone(&record.entry.key);
            if record.entry.mod_revision == revision {
                known = true;
                return;
            }
            let previous = match newest.get(&key) {
                Some(entry) => Option::clone(entry),
                None => state.read().get(&key).cloned(),
            };
            let event = Arc::new(Event::new(record.entry, record.delete, previous));
            newest.insert(key, event.after().cloned());
            events.push(event);
        })?;
        if !known {
            return Err(StoreError::Format {
                path: self.disk.path().to_owned(),
                reason: format!("it has lost revision {revision}, has it been replaced?"),
            });
        }
        if !events.is_empty() {
            // The data read may be in the page cache only: after a failed sync the kernel considers
            // the pages clean and never writes them. So they are rewritten before they are relied
            // on.
            self.disk.commit(
                &db,
                &Batch {
                    events: &events,
                    ..Batch::default()
                },
            )?;
        }
        Ok((db, events))
    }

    /// Writes events to the disk. `compacted` is the compaction in memory, `revision` the newest
    /// revision on the disk so far.
    pub(super) fn commit(
        &mut self,
        events: &[Arc<Event>],
        compacted: u64,
        revision: u64,
    ) -> Result<(), StoreError> {
        self.write(
            events,
            compacted,
            revision,
            // A write makes at most two records obsolete: the version it replaces, and itself if it
            // is a deletion. The constant on top lets a backlog shrink even without idle time.
            GARBAGE_WITH_WRITES + 2 * events.len(),
        )
    }

    /// Removes some obsolete records. Failures surface at the next write.
    pub(super) fn clean(&mut self, compacted: u64, revision: u64) {
        let _ = self.write(&[], compacted, revision, GARBAGE_WHEN_IDLE);
    }

    /// Whether [`Self::clean`] has records to remove.
    pub(super) fn has_garbage(&self, revision: u64) -> bool {
        matches!(self.health, Health::Open(_))
            && self
                .garbage
                .iter()
                // Only one record can be the newest one, which is kept; a second record settles the
                // question without searching the queue.
                .take(2)
                .any(|useless| *useless != revision)
    }

    pub(super) fn add_garbage(&mut self, revisions: Vec<u64>) {
        self.garbage.extend(revisions);
    }

    fn write(
        &mut self,
        events: &[Arc<Event>],
        compacted: u64,
        revision: u64,
        garbage: usize,
    ) -> Result<(), StoreError> {
        let db = match &self.health {
            Health::Open(db) => db,
            Health::Failed { error, .. } => return Err(error.clone()),
        };
        let count = garbage.min(self.garbage.len());
        let mut removed: Vec<_> = self.garbage.drain(..count).collect();
        // A commit with events brings a newer record, and then the old one may go in the same
        // transaction.
        if events.is_empty()
            && let Some(at) = removed.iter().position(|useless| *useless == revision)
        {
            // The newest record stays: it records which revisions are used.
            self.garbage.push_back(removed.swap_remove(at));
        }
        let batch = Batch {
            events,
            garbage: &removed,
            compacted: (compacted > self.compacted).then_some(compacted),
        };
        match self.disk.commit(db, &batch) {
            Ok(()) => {
                self.compacted = self.compacted.max(compacted);
                Ok(())
            }
            Err(error) => {
                // Whether the removals happened is unknown; removing again is harmless.
                self.garbage.extend(removed);
                self.fail(error.clone(), FIRST_BACKOFF);
                Err(error)
            }
        }
    }

    fn fail(&mut self, error: StoreError, backoff: Duration) {
        tracing::error!(
            path = %self.disk.path().display(),
            error = &error as &dyn std::error::Error,
            "the store file cannot be written"
        );
        self.health = Health::Failed {
            error,
            retry_at: Instant::now() + backoff,
            backoff,
        };
    }
}

/// Reads the content of a file.
fn read(disk: &Disk) -> Result<(Database, State, VecDeque<u64>), StoreError> {
    let db = disk.open()?;
    let mut state = State::new();
    let mut garbage = VecDeque::new();
    let compacted = disk.compacted(&db)?;
    state.compacted = compacted;
    disk.records(&db, 0, |found| {
        let record = match found {
            ReadRecord::Record(record) => record,
            ReadRecord::Lost(revision) => return state.skip(revision),
        };
        let revision = record.entry.mod_revision;
        if revision <= compacted {
            garbage.extend(state.load(record.entry, record.delete));
            if record.delete {
                garbage.push_back(revision);
            }
        } else {
            let previous = state.get(&record.entry.key).cloned();
            state.apply(&Arc::new(Event::new(record.entry, record.delete, previous)));
        }
    })?;
    Ok((db, state, garbage))
}

/// Reads a possibly damaged file: the database panics on some pages that it did not write.
fn guarded<T>(disk: &Disk, read: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
    quiet::catch(read).unwrap_or_else(|| {
        Err(StoreError::Corrupt {
            path: disk.path().to_owned(),
            reason: "it has pages that the database did not write".to_owned(),
        })
    })
}

/// Logs damage. Keys are named, up to a limit.
fn report(disk: &Disk, state: &State) {
    let path = disk.path().display();
    let damaged = state.damaged();
    for entry in damaged.iter().take(MAX_LOGGED) {
        tracing::error!(
            %path,
            key = &*entry.key,
            revision = entry.mod_revision,
            reason = entry.damage().unwrap_or_default(),
            "a stored object is damaged: it is left out of lists, and can be deleted"
        );
    }
    if damaged.len() > MAX_LOGGED || state.lost > 0 {
        tracing::error!(
            %path,
            damaged = damaged.len(),
            lost = state.lost,
            "the store file has damaged records; those that are lost have no key any more and are ignored"
        );
    }
}
