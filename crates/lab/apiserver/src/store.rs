//! The store of the API server: every object under a key, with one global revision, history and
//! watches, as etcd keeps them for kube-apiserver.
//!
//! ```text
//!  callers --> queue --> writer thread --> redb file (one sync per batch)
//!                             |
//!                             v publishes after the sync
//!  readers, lists <------- state in memory (versions + event log) ------> watches
//! ```
//!
//! * Every write has its own revision; revisions only grow and are never reused, not even after a
//!   crash or a failed write.
//! * No write is visible before it is on disk. Reads never touch the disk.
//! * Watches are cursors into one shared log: no gaps, no duplicates, no copies.

mod ages;
mod disk;
mod durable;
mod entry;
mod error;
mod options;
mod queue;
mod quiet;
mod record;
mod state;
#[cfg(test)]
mod tests;
mod watch;
mod write;
mod writer;

use std::fmt;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use tokio::sync::oneshot;

pub use self::entry::{Entry, Event, EventKind};
pub use self::error::StoreError;
pub use self::options::{Clock, Opener, Options};
pub use self::state::Page;
pub use self::watch::Watch;
pub use self::write::{Content, Expect, Op, Write};

use self::disk::Disk;
use self::durable::Durable;
use self::queue::Queue;
use self::state::State;
use self::write::Request;
use self::writer::Writer;

/// A handle on a store; clones share it. Dropping the last one waits for the writer, so that the
/// file is free afterwards.
#[derive(Debug, Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

/// State shared by readers, watchers and the writer.
#[derive(Debug)]
struct Shared {
    state: RwLock<State>,
    /// The current revision, for callers that wait for one.
    revision: tokio::sync::watch::Sender<u64>,
}

impl Shared {
    fn new(state: State) -> Self {
        let revision = tokio::sync::watch::Sender::new(state.revision);
        Self {
            state: RwLock::new(state),
            revision,
        }
    }

    /// Ends all watches.
    fn close(&self) {
        // The flag first, then the wake-ups: a watch that wakes and finds the store open would
        // sleep again, and nothing would wake it a second time.
        self.state.write().closed = true;
        let state = self.state.read();
        state.wake_all();
        self.revision.send_replace(state.revision);
    }
}

#[derive(Debug)]
struct Inner {
    shared: Arc<Shared>,
    engine: Engine,
}

enum Engine {
    /// Callers write themselves.
    Memory(Box<Mutex<Writer>>),
    /// A thread that may block on the disk.
    Thread {
        queue: Arc<Queue<Request>>,
        thread: Mutex<Option<JoinHandle<()>>>,
    },
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Memory(_) => "Memory",
            Self::Thread { .. } => "Thread",
        })
    }
}

impl Store {
    /// A store that exists as long as the process.
    pub fn memory() -> Self {
        Self::memory_with(Options::default())
    }

    /// As [`Self::memory`], with these limits.
    pub fn memory_with(options: Options) -> Self {
        let shared = Arc::new(Shared::new(State::new()));
        let writer = Writer::new(Arc::clone(&shared), options, None);
        let engine = Engine::Memory(Box::new(Mutex::new(writer)));
        Self {
            inner: Arc::new(Inner { shared, engine }),
        }
    }

    /// Opens the store in a file, or creates it.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Self, StoreError> {
        let disk = Disk::new(
            path.as_ref(),
            Arc::clone(&options.opener),
            options.cache_bytes,
        );
        // Before the thread exists: the caller gets the error of an unreadable or locked file from
        // this call, and not from its first write.
        let (durable, state) = Durable::open(disk)?;
        let shared = Arc::new(Shared::new(state));
        let queue = Arc::new(Queue::new(options.queue));
        let writer = Writer::new(Arc::clone(&shared), options, Some(durable));
        let last = CloseOnDrop {
            queue: Arc::clone(&queue),
            shared: Arc::clone(&shared),
        };
        let thread = std::thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || {
                let last = last;
                writer.run(&last.queue);
            })
            .map_err(|source| StoreError::Thread {
                source: Arc::new(source),
            })?;
        let engine = Engine::Thread {
            queue,
            thread: Mutex::new(Some(thread)),
        };
        Ok(Self {
            inner: Arc::new(Inner { shared, engine }),
        })
    }

    /// Finishes the queued writes, rejects new ones, ends all watches and closes the file. Reads
    /// keep working.
    pub async fn close(&self) {
        // Subscribed before the writer is stopped: it may end, and send its only notification,
        // before this function waits for one.
        let mut ended = self.inner.shared.revision.subscribe();
        self.inner.stop();
        while !self.inner.shared.state.read().closed {
            if ended.changed().await.is_err() {
                return;
            }
        }
        self.inner.join();
    }

    /// The current version of a key.
    pub fn get(&self, key: &str) -> Option<Arc<Entry>> {
        self.inner.shared.state.read().get(key).cloned()
    }

    /// The newest revision.
    pub fn revision(&self) -> u64 {
        self.inner.shared.state.read().revision
    }

    /// The revision up to which history is compacted: lists at it are still possible, and watches
    /// after it.
    pub fn compacted_revision(&self) -> u64 {
        self.inner.shared.state.read().compacted
    }

    /// The objects known to be damaged: they can be deleted, but not read.
    pub fn damaged(&self) -> Vec<Arc<Entry>> {
        self.inner.shared.state.read().damaged()
    }

    /// Number of records so damaged that their keys are unknown.
    pub fn lost_records(&self) -> usize {
        self.inner.shared.state.read().lost
    }

    /// Number of keys with a prefix.
    pub fn count(&self, prefix: &str) -> usize {
        self.inner.shared.state.read().count(prefix)
    }

    /// The entries with a prefix in key order, from `start` on, at most `limit` of them (0: all),
    /// at revision `at` or the current one.
    pub fn list(
        &self,
        prefix: &str,
        start: Bound<&str>,
        limit: usize,
        at: Option<u64>,
    ) -> Result<Page, StoreError> {
        self.inner
            .shared
            .state
            .read()
            .list(prefix, start, limit, at)
    }

    /// Watches all keys with a prefix, beginning with the first event after `from`.
    pub fn watch(&self, prefix: &str, from: u64) -> Result<Watch, StoreError> {
        Watch::new(Arc::clone(&self.inner.shared), prefix, from)
    }

    /// Executes one write. If the future is dropped, the write may happen all the same.
    pub async fn write(&self, write: Write) -> Result<Arc<Event>, StoreError> {
        self.transact(vec![write])
            .await?
            .pop()
            .ok_or(StoreError::Closed)
    }

    /// Executes all writes or none; each has its own revision, in the order given. Every key may
    /// occur once.
    pub async fn transact(&self, writes: Vec<Write>) -> Result<Vec<Arc<Event>>, StoreError> {
        let (answer, answered) = oneshot::channel();
        self.inner.send(Request::Write { writes, answer }).await?;
        answered.await.unwrap_or(Err(StoreError::Closed))
    }

    /// Compacts the history up to and including a revision.
    pub async fn compact(&self, revision: u64) -> Result<(), StoreError> {
        let (answer, answered) = oneshot::channel();
        self.inner
            .send(Request::Compact { revision, answer })
            .await?;
        answered.await.unwrap_or(Err(StoreError::Closed))
    }

    /// Waits until the store has reached a revision; returns the current one.
    pub async fn wait_for_revision(
        &self,
        requested: u64,
        timeout: Duration,
    ) -> Result<u64, StoreError> {
        let mut revisions = self.inner.shared.revision.subscribe();
        // `wait_for` tests the current value first, so a revision that is reached between the
        // caller's check and this subscription is not missed.
        let reached = revisions.wait_for(|revision| *revision >= requested);
        match tokio::time::timeout(timeout, reached).await {
            Ok(Ok(revision)) => Ok(*revision),
            Ok(Err(_)) => Err(StoreError::Closed),
            Err(_) => Err(StoreError::Timeout {
                requested,
                current: self.revision(),
            }),
        }
    }
}

impl Inner {
    async fn send(&self, request: Request) -> Result<(), StoreError> {
        match &self.engine {
            Engine::Memory(writer) => {
                let mut writer = writer.lock();
                // Checked under the writer's lock, which `stop` takes as well: a write cannot be
                // published after the watches have ended.
                if self.shared.state.read().closed {
                    return Err(StoreError::Closed);
                }
                writer.process([request]);
                Ok(())
            }
            Engine::Thread { queue, .. } => {
                queue.push(request).await.map_err(|_| StoreError::Closed)
            }
        }
    }

    fn stop(&self) {
        match &self.engine {
            Engine::Memory(writer) => {
                // Not in the middle of a write.
                let _writer = writer.lock();
                self.shared.close();
            }
            Engine::Thread { queue, .. } => queue.close(),
        }
    }

    fn join(&self) {
        let Engine::Thread { thread, .. } = &self.engine else {
            return;
        };
        let Some(thread) = thread.lock().take() else {
            return;
        };
        // A write's content may hold the last handle, which is then dropped on the writer thread
        // itself.
        if thread.thread().id() != std::thread::current().id() {
            // The panic hook has reported a panic already.
            let _ = thread.join();
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.stop();
        self.join();
    }
}

/// Closes the store when the writer ends for any reason: callers must not wait forever.
struct CloseOnDrop {
    queue: Arc<Queue<Request>>,
    shared: Arc<Shared>,
}

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.queue.close();
        let mut left = Vec::new();
        self.queue.take(&mut left, usize::MAX, None);
        for request in left {
            request.refuse(StoreError::Closed);
        }
        self.shared.close();
    }
}
