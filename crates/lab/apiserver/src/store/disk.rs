//! The durable log: one redb file.
//!
//! ```text
//!  table "log"   revision -> kind, create revision, key, value     one record per write, see `record`
//!  table "meta"  "format" -> 2, "compacted" -> revision
//! ```
//!
//! The current state is not stored separately: as in etcd, it is the newest record of every key,
//! and compaction removes only records that are not the newest of their key. So a write costs one
//! appended record. The record of the newest revision is never removed, even when it is a deletion,
//! because it also records which revisions have been used.

mod salvage;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use redb::{
    Builder, Database, DatabaseError, ReadableDatabase, StorageError, TableDefinition, TableError,
    WriteTransaction,
};

use super::options::Opener;
use super::record::{self, Record};
use super::{Event, StoreError};
use crate::private;

const LOG: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("log");
const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
const FORMAT_KEY: &str = "format";
const COMPACTED_KEY: &str = "compacted";
/// Records have checksums. The previous format without them is read and upgraded; older servers
/// reject this one by its number rather than at its first record.
const FORMAT: u64 = 2;
const UNCHECKED_FORMAT: u64 = 1;

/// Path and settings of a store file, which is reopened after failures.
pub(super) struct Disk {
    path: PathBuf,
    opener: Opener,
    cache_bytes: usize,
}

/// The content of one transaction.
#[derive(Debug, Default)]
pub(super) struct Batch<'a> {
    pub(super) events: &'a [Arc<Event>],
    /// Records to remove.
    pub(super) garbage: &'a [u64],
    /// The compaction, when it moved since the last commit.
    pub(super) compacted: Option<u64>,
}

/// A record read back.
pub(super) enum ReadRecord {
    /// A record, marked if it is damaged.
    Record(Record),
    /// A record so damaged that its key is unknown.
    Lost(u64),
}

impl Disk {
    pub(super) fn new(path: &Path, opener: Opener, cache_bytes: usize) -> Self {
        Self {
            path: path.to_owned(),
            opener,
            cache_bytes,
        }
    }

    /// Opens the file, creating it if necessary.
    pub(super) fn open(&self) -> Result<Database, StoreError> {
        // Not `exists`, which follows links: a planted link must not redirect the file.
        if self.path.symlink_metadata().is_err() {
            self.make()?;
        }
        // The file holds all Secrets, unencrypted. An existing one is narrowed on every start,
        // because a copy or a restored backup has the mode of its umask.
        private::narrow(&self.path).map_err(|error| self.cannot_open(redb::Error::Io(error)))?;
        let db = self.reopen()?;
        self.prepare(&db)?;
        Ok(db)
    }

    /// Creates the file under another name first and renames it when it is complete, so that a
    /// crash leaves no file that cannot be opened.
    fn make(&self) -> Result<(), StoreError> {
        self.replace(|db| self.prepare(db), false)
    }

    /// Fills a new file and renames it, either replacing this one or only if there is none.
    fn replace(
        &self,
        fill: impl FnOnce(&Database) -> Result<(), StoreError>,
        in_place: bool,
    ) -> Result<(), StoreError> {
        let io = |error| self.cannot_open(redb::Error::Io(error));
        let unfinished = private::beside(&self.path).map_err(io)?;
        let db = Self {
            path: unfinished.path().to_owned(),
            opener: Arc::clone(&self.opener),
            cache_bytes: self.cache_bytes,
        }
        .reopen()?;
        fill(&db)?;
        // Closed before the rename: the database marks a clean shutdown when it is dropped. Renamed
        // earlier, a crash would leave a new file that needs a repair at its first start.
        drop(db);
        let named = if in_place {
            unfinished.persist(&self.path)
        } else {
            unfinished.persist_noclobber(&self.path)
        };
        match named {
            // Another process created it first; opening fails if it is in use.
            Err(error) if error.error.kind() == std::io::ErrorKind::AlreadyExists => {}
            other => drop(other.map_err(|error| io(error.error))?),
        }
        // The rename is durable only after the folder is synced.
        std::fs::File::open(private::folder_of(&self.path))
            .and_then(|folder| folder.sync_all())
            .map_err(io)
    }

    /// Reopens the file after a failure, repairing it where needed.
    pub(super) fn reopen(&self) -> Result<Database, StoreError> {
        let mut builder = Builder::new();
        builder.set_cache_size(self.cache_bytes);
        (self.opener)(&self.path, &builder).map_err(|error| match error {
            DatabaseError::DatabaseAlreadyOpen => StoreError::InUse {
                path: self.path.clone(),
            },
            other => self.cannot_open(other.into()),
        })
    }

    /// Checks the format of the file, or writes it to a new one.
    fn prepare(&self, db: &Database) -> Result<(), StoreError> {
        let found = format_of(db).map_err(|error| self.unusable(error))?;
        match found {
            Some(FORMAT) => Ok(()),
            // An unknown format is refused, not migrated: it was written by a newer version, which
            // knows records that this one would drop.
            Some(other) if other != UNCHECKED_FORMAT => Err(StoreError::Format {
                path: self.path.clone(),
                reason: format!("it has format {other}, this version reads format {FORMAT}"),
            }),
            _ => {
                let write = |db: &Database| -> Result<(), redb::Error> {
                    let transaction = db.begin_write()?;
                    transaction.open_table(LOG)?;
                    transaction.open_table(META)?.insert(FORMAT_KEY, FORMAT)?;
                    Ok(transaction.commit()?)
                };
                write(db).map_err(|error| self.io(error))
            }
        }
    }

    /// The revision up to which the file is compacted.
    pub(super) fn compacted(&self, db: &Database) -> Result<u64, StoreError> {
        let read = || -> Result<u64, redb::Error> {
            let table = db.begin_read()?.open_table(META)?;
            Ok(table.get(COMPACTED_KEY)?.map_or(0, |value| value.value()))
        };
        read().map_err(|error| self.unusable(error))
    }

    /// Reads the records from revision `from` on, in order.
    pub(super) fn records(
        &self,
        db: &Database,
        from: u64,
        mut each: impl FnMut(ReadRecord),
    ) -> Result<(), StoreError> {
        let mut read = || -> Result<(), redb::Error> {
            let table = db.begin_read()?.open_table(LOG)?;
            for item in table.range(from..)? {
                let (revision, bytes) = item?;
                let revision = revision.value();
                each(match record::decode(revision, bytes.value()) {
                    Some(record) => ReadRecord::Record(record),
                    None => ReadRecord::Lost(revision),
                });
            }
            Ok(())
        };
        read().map_err(|error| self.unusable(error))
    }

    /// Writes a batch; it is on the disk when this returns.
    pub(super) fn commit(&self, db: &Database, batch: &Batch<'_>) -> Result<(), StoreError> {
        let write = || -> Result<(), redb::Error> {
            let transaction = db.begin_write()?;
            fill(&transaction, batch)?;
            Ok(transaction.commit()?)
        };
        write().map_err(|error| self.io(error))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    fn cannot_open(&self, error: redb::Error) -> StoreError {
        StoreError::Open {
            path: self.path.clone(),
            source: Arc::new(error),
        }
    }

    fn io(&self, error: redb::Error) -> StoreError {
        StoreError::Io {
            path: self.path.clone(),
            source: Arc::new(error),
        }
    }

    /// Read errors: of the disk, or because of the file's content.
    fn unusable(&self, error: redb::Error) -> StoreError {
        match error {
            redb::Error::Io(_) | redb::Error::PreviousIo => self.io(error),
            redb::Error::Corrupted(reason) => StoreError::Corrupt {
                path: self.path.clone(),
                reason,
            },
            other => StoreError::Format {
                path: self.path.clone(),
                reason: other.to_string(),
            },
        }
    }
}

fn format_of(db: &Database) -> Result<Option<u64>, redb::Error> {
    let transaction = db.begin_read()?;
    match transaction.open_table(META) {
        Ok(table) => Ok(table.get(FORMAT_KEY)?.map(|value| value.value())),
        Err(TableError::TableDoesNotExist(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn fill(transaction: &WriteTransaction, batch: &Batch<'_>) -> Result<(), redb::Error> {
    let mut log = transaction.open_table(LOG)?;
    for event in batch.events {
        let length = record::length(event)
            .ok_or_else(|| StorageError::ValueTooLarge(event.entry.key.len()))?;
        let mut space = log.insert_reserve(event.revision, length)?;
        record::encode(event, space.as_mut());
    }
    // In the same transaction as the writes: removal costs no sync of its own, and a crash leaves
    // either both or neither.
    for revision in batch.garbage {
        log.remove(revision)?;
    }
    if let Some(compacted) = batch.compacted {
        transaction
            .open_table(META)?
            .insert(COMPACTED_KEY, compacted)?;
    }
    Ok(())
}
