//! The durable log: one redb file.
//!
//! ```text
//!  table "log"   revision -> kind, create revision, key, value     one record per write
//!  table "meta"  "format" -> 1, "compacted" -> revision
//! ```
//!
//! The current state is not stored apart: as in etcd, it is the newest record of every key, and
//! compaction removes only records that are not the newest of their key. So a write costs one
//! appended record. The record of the newest revision is never removed, even when it is a
//! deletion, because it is also the memory of which revisions have been used.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use redb::{
    Builder, Database, DatabaseError, ReadableDatabase, StorageError, TableDefinition, TableError,
    WriteTransaction,
};

use super::options::Opener;
use super::{Entry, Event, StoreError};

const LOG: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("log");
const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
const FORMAT_KEY: &str = "format";
const COMPACTED_KEY: &str = "compacted";
const FORMAT: u64 = 1;

const KIND_PUT: u8 = 0;
const KIND_DELETE: u8 = 1;
/// Kind, create revision and length of the key.
const HEADER: usize = 1 + 8 + 4;

/// How a store file is found and opened, again and again after failures.
pub(super) struct Disk {
    path: PathBuf,
    opener: Opener,
    cache_bytes: usize,
}

/// What one transaction writes.
#[derive(Debug, Default)]
pub(super) struct Batch<'a> {
    pub(super) events: &'a [Arc<Event>],
    /// Records to remove.
    pub(super) garbage: &'a [u64],
    /// The compaction, when it moved since the last commit.
    pub(super) compacted: Option<u64>,
}

/// A record read back: the version and whether it is a deletion.
pub(super) struct Record {
    pub(super) entry: Entry,
    pub(super) delete: bool,
}

impl Disk {
    pub(super) fn new(path: &Path, opener: Opener, cache_bytes: usize) -> Self {
        Self {
            path: path.to_owned(),
            opener,
            cache_bytes,
        }
    }

    /// Opens the file, making it first if it does not exist.
    pub(super) fn open(&self) -> Result<Database, StoreError> {
        if !self.path.exists() {
            self.make()?;
        }
        let db = self.reopen()?;
        self.prepare(&db)?;
        Ok(db)
    }

    /// Makes the file under another name first: it has its own name only when it is whole, so that
    /// who is killed meanwhile leaves nothing that cannot be opened.
    fn make(&self) -> Result<(), StoreError> {
        let mut name = self.path.as_os_str().to_owned();
        name.push(format!(".{}.new", std::process::id()));
        let unfinished = Self {
            path: PathBuf::from(name),
            opener: Arc::clone(&self.opener),
            cache_bytes: self.cache_bytes,
        };
        // Of an earlier process with this id; usually there is none.
        let _ = std::fs::remove_file(&unfinished.path);
        let db = unfinished.reopen()?;
        unfinished.prepare(&db)?;
        drop(db);
        let named = std::fs::hard_link(&unfinished.path, &self.path);
        let _ = std::fs::remove_file(&unfinished.path);
        match named {
            // Somebody else was faster; opening says whether they still have it.
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            other => other.map_err(|error| self.io(redb::Error::Io(error)))?,
        }
        // The name of a new file is durable only when its folder is.
        let folder = self
            .path
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty());
        std::fs::File::open(folder.unwrap_or_else(|| Path::new(".")))
            .and_then(|folder| folder.sync_all())
            .map_err(|error| self.io(redb::Error::Io(error)))
    }

    /// Opens the file again after a failure, repairing it where needed.
    pub(super) fn reopen(&self) -> Result<Database, StoreError> {
        let mut builder = Builder::new();
        builder.set_cache_size(self.cache_bytes);
        (self.opener)(&self.path, &builder).map_err(|error| match error {
            DatabaseError::DatabaseAlreadyOpen => StoreError::InUse {
                path: self.path.clone(),
            },
            other => StoreError::Open {
                path: self.path.clone(),
                source: Arc::new(other.into()),
            },
        })
    }

    /// Checks the format of the file, or writes it to a new one.
    fn prepare(&self, db: &Database) -> Result<(), StoreError> {
        let found = format_of(db).map_err(|error| self.unusable(error))?;
        match found {
            Some(FORMAT) => Ok(()),
            Some(other) => Err(StoreError::Format {
                path: self.path.clone(),
                reason: format!("it has format {other}, this version reads format {FORMAT}"),
            }),
            None => {
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
        mut each: impl FnMut(Record),
    ) -> Result<(), StoreError> {
        let mut read = || -> Result<Option<u64>, redb::Error> {
            let table = db.begin_read()?.open_table(LOG)?;
            for item in table.range(from..)? {
                let (revision, bytes) = item?;
                match decode(revision.value(), bytes.value()) {
                    Some(record) => each(record),
                    None => return Ok(Some(revision.value())),
                }
            }
            Ok(None)
        };
        match read().map_err(|error| self.unusable(error))? {
            None => Ok(()),
            Some(revision) => Err(StoreError::Format {
                path: self.path.clone(),
                reason: format!("the record of revision {revision} is damaged"),
            }),
        }
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

    fn io(&self, error: redb::Error) -> StoreError {
        StoreError::Io {
            path: self.path.clone(),
            source: Arc::new(error),
        }
    }

    /// Failures to read: of the disk, or because something else is in the file.
    fn unusable(&self, error: redb::Error) -> StoreError {
        match error {
            redb::Error::Io(_) | redb::Error::PreviousIo => self.io(error),
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
        let entry = &event.entry;
        let (key, value) = (entry.key.as_bytes(), &entry.value);
        let key_length = u32::try_from(key.len())
            .map_err(|_| StorageError::ValueTooLarge(key.len()))?
            .to_le_bytes();
        // Written straight into the page, which spares a copy of every value.
        let mut space = log.insert_reserve(event.revision, HEADER + key.len() + value.len())?;
        let space = space.as_mut();
        space[0] = if event.is_delete() {
            KIND_DELETE
        } else {
            KIND_PUT
        };
        space[1..9].copy_from_slice(&entry.create_revision.to_le_bytes());
        space[9..HEADER].copy_from_slice(&key_length);
        space[HEADER..HEADER + key.len()].copy_from_slice(key);
        space[HEADER + key.len()..].copy_from_slice(value);
    }
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

fn decode(revision: u64, bytes: &[u8]) -> Option<Record> {
    let (kind, rest) = bytes.split_first()?;
    let (create, rest) = rest.split_first_chunk::<8>()?;
    let (key_length, rest) = rest.split_first_chunk::<4>()?;
    let key_length = usize::try_from(u32::from_le_bytes(*key_length)).ok()?;
    let (key, value) = rest.split_at_checked(key_length)?;
    let key = Arc::from(std::str::from_utf8(key).ok()?);
    let delete = match *kind {
        KIND_PUT => false,
        KIND_DELETE => true,
        _ => return None,
    };
    let create = u64::from_le_bytes(*create);
    Some(Record {
        entry: Entry::new(key, Bytes::copy_from_slice(value), create, revision, None),
        delete,
    })
}
