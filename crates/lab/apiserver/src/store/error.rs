//! Errors of the store.

use std::path::PathBuf;
use std::sync::Arc;

use super::Entry;

/// An error of the store.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// The precondition of a write does not hold. Nothing was written, no revision was used.
    #[error(
        "precondition of {key:?} failed: {}",
        current.as_ref().map_or_else(
            || "the key does not exist".to_owned(),
            |entry| format!("the key is at revision {}", entry.mod_revision),
        )
    )]
    Conflict {
        /// The key whose precondition failed.
        key: Arc<str>,
        /// The version the key has now.
        current: Option<Arc<Entry>>,
    },
    /// The requested revision is older than the history.
    #[error("revision {requested} has been compacted, the oldest one kept is {compacted}")]
    Compacted {
        /// The requested revision.
        requested: u64,
        /// The newest compacted revision.
        compacted: u64,
    },
    /// The requested revision is in the future.
    #[error("revision {requested} is in the future, the current one is {current}")]
    FutureRevision {
        /// The requested revision.
        requested: u64,
        /// The revision of the store.
        current: u64,
    },
    /// A transaction has a key twice.
    #[error("a transaction writes {key:?} twice, every key may be named once")]
    DuplicateKey {
        /// The key.
        key: Arc<str>,
    },
    /// The function that creates the content of a write panicked.
    #[error("making the content of {key:?} failed")]
    Content {
        /// The key.
        key: Arc<str>,
    },
    /// The content of an entry is not JSON.
    #[error("the content of {key:?} is not valid JSON")]
    Decode {
        /// The key.
        key: Arc<str>,
        /// The parser's error.
        #[source]
        source: Arc<serde_json::Error>,
    },
    /// The record of an entry is damaged.
    #[error("the record {key:?} is damaged: {reason}")]
    Damaged {
        /// The key.
        key: Arc<str>,
        /// The damage.
        reason: String,
    },
    /// The file is in use by another process (or by another store of this one).
    #[error("the store file {} is already in use by another server", path.display())]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// The file cannot be opened as a store.
    #[error("cannot open the store file {}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// The database's error.
        #[source]
        source: Arc<redb::Error>,
    },
    /// The file is a database, but not one this version can read.
    #[error("the store file {} is not usable: {reason}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The structure of the file is damaged, not only a record in it.
    #[error("the store file {} is damaged: {reason}", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// The database's error.
        reason: String,
    },
    /// Writing failed: the disk is full or broken. Reads keep working; the next writes retry.
    #[error("cannot write to the store file {}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The database's error.
        #[source]
        source: Arc<redb::Error>,
    },
    /// The writer thread cannot be started.
    #[error("cannot start the writer of the store")]
    Thread {
        /// The I/O error.
        #[source]
        source: Arc<std::io::Error>,
    },
    /// The awaited revision was not reached in time.
    #[error("revision {requested} was not reached in time, the current one is {current}")]
    Timeout {
        /// The awaited revision.
        requested: u64,
        /// The revision of the store.
        current: u64,
    },
    /// The store has been closed.
    #[error("the store is closed")]
    Closed,
}

impl StoreError {
    /// Whether the content of the file is at fault, not the disk, the permissions or another
    /// process.
    pub fn is_corruption(&self) -> bool {
        match self {
            Self::Corrupt { .. } => true,
            Self::Open { source, .. } => match &**source {
                redb::Error::Corrupted(_) => true,
                // The database's error for a file without its magic bytes.
                redb::Error::Io(error) => matches!(
                    error.kind(),
                    std::io::ErrorKind::InvalidData | std::io::ErrorKind::UnexpectedEof
                ),
                _ => false,
            },
            _ => false,
        }
    }
}
