//! Configuration of a store and its history.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use redb::{Builder, Database, DatabaseError};

use crate::private;

/// The clock by which history expires.
pub type Clock = Arc<dyn Fn() -> Instant + Send + Sync>;

/// Opens (or creates) the database at a path with the settings of the builder. Replaced by tests
/// that put a failing [`redb::StorageBackend`] below the database.
pub type Opener = Arc<dyn Fn(&Path, &Builder) -> Result<Database, DatabaseError> + Send + Sync>;

/// Settings of a store. History is dropped, oldest first, as soon as any of its limits is passed.
#[derive(Clone)]
pub struct Options {
    /// Number of events kept for watches and lists at past revisions.
    pub max_events: usize,
    /// Bytes of old versions and deleted objects kept in memory.
    pub max_history_bytes: usize,
    /// Maximum age of events (kube-apiserver compacts etcd every five minutes).
    pub max_age: Duration,
    /// Capacity of the write queue; further writers wait outside of it.
    pub queue: usize,
    /// Page cache of the database. All reads are served from memory and the cache only helps
    /// commits, so it is small.
    pub cache_bytes: usize,
    /// The clock for `max_age`.
    pub clock: Clock,
    /// How the database is opened.
    pub opener: Opener,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            // About the upper bound of a watch cache in kube-apiserver (`defaultUpperBoundCapacity`
            // in `apiserver/pkg/storage/cacher`, 100 * 1024), which has one per resource; here it
            // is one log for all.
            max_events: 100_000,
            max_history_bytes: 256 << 20,
            // `DefaultCompactInterval` in `apiserver/pkg/storage/storagebackend/config.go`.
            // Shorter, and a client that pauses between two pages of a list gets 410 more often
            // than on a real cluster.
            max_age: Duration::from_mins(5),
            queue: 1024,
            cache_bytes: 8 << 20,
            clock: Arc::new(Instant::now),
            opener: Arc::new(|path, builder| builder.create_file(private::open(path)?)),
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("max_events", &self.max_events)
            .field("max_history_bytes", &self.max_history_bytes)
            .field("max_age", &self.max_age)
            .field("queue", &self.queue)
            .field("cache_bytes", &self.cache_bytes)
            .finish_non_exhaustive()
    }
}
