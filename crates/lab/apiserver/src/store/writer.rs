//! The writer: checks preconditions, assigns revisions, commits batches, publishes.
//!
//! ```text
//!  queue --> stage: precondition, revision, content --> commit (one sync) --> publish --> answer
//! ```
//!
//! Nothing of a batch is visible before the commit: not to readers, not to watchers, and not as the
//! cause of a conflict either.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::RwLockWriteGuard;
use tokio::sync::oneshot;

use super::ages::Ages;
use super::durable::Durable;
use super::options::Options;
use super::queue::{Queue, Taken};
use super::write::{Op, Request, Write, Written};
use super::{Entry, Event, Shared, StoreError};

/// Requests taken from the queue at once.
// The default capacity of the queue: one commit can serve every caller that is waiting.
const MAX_BATCH: usize = 1024;
/// Bytes of content committed at once.
// Bounds the memory of a transaction and how long its callers wait; two objects of the maximum size
// fit. A transaction of one caller is never split, so a batch may exceed this by one request.
const MAX_BATCH_BYTES: usize = 4 << 20;
/// How long the queue must be idle before obsolete records are removed.
const IDLE_DELAY: Duration = Duration::from_millis(20);
/// Maximum time that a batch waits to become as large as the previous one.
const MAX_BATCH_WAIT: Duration = Duration::from_millis(1);

/// See the module documentation.
pub(super) struct Writer {
    shared: Arc<Shared>,
    options: Options,
    /// The next revision. Never goes back, not even after a failed commit.
    next: u64,
    ages: Ages,
    durable: Option<Durable>,
}

/// Decided writes that are not on disk yet.
#[derive(Default)]
struct Staged {
    events: Vec<Arc<Event>>,
    newest: HashMap<Arc<str>, Option<Arc<Entry>>>,
    bytes: usize,
    answers: Vec<(oneshot::Sender<Written>, Outcome)>,
}

enum Outcome {
    /// These events, once they are on disk.
    Written(Range<usize>),
    /// An error independent of the commit.
    Refused(StoreError),
    /// A conflict with a write of the same batch.
    Tentative(StoreError),
}

impl Writer {
    pub(super) fn new(shared: Arc<Shared>, options: Options, durable: Option<Durable>) -> Self {
        let revision = shared.state.read().revision;
        let mut ages = Ages::default();
        // Events in the file get the start time of this process, as their own is unknown.
        ages.note(revision, (options.clock)(), options.max_age);
        Self {
            shared,
            options,
            next: revision + 1,
            ages,
            durable,
        }
    }

    /// Serves the queue until it is closed.
    pub(super) fn run(mut self, queue: &Queue<Request>) {
        let mut batch = Vec::new();
        loop {
            match queue.take(&mut batch, MAX_BATCH, self.deadline()) {
                Taken::Items => {
                    let started = Instant::now();
                    let size = batch.len();
                    self.process(batch.drain(..));
                    // Callers that were served in one batch come back at the same time. Without
                    // waiting for them, the first one back would have a sync for itself and the
                    // others would wait for it.
                    // A single caller does not wait: there is no second one that the delay could
                    // help.
                    if size > 1 {
                        queue.gather(size, (started.elapsed() / 4).min(MAX_BATCH_WAIT));
                    }
                }
                Taken::Timeout => self.idle(),
                Taken::Closed => return,
            }
        }
    }

    /// The time of the next maintenance without a request.
    fn deadline(&self) -> Option<Instant> {
        let revision = self.shared.state.read().revision;
        if self
            .durable
            .as_ref()
            .is_some_and(|durable| durable.has_garbage(revision))
        {
            return Some(Instant::now() + IDLE_DELAY);
        }
        let expiry = self
            .ages
            .next_expiry((self.options.clock)(), self.options.max_age)?;
        Instant::now().checked_add(expiry.max(IDLE_DELAY))
    }

    fn idle(&mut self) {
        self.expire();
        if let Some(durable) = &mut self.durable {
            let (compacted, revision) = {
                let state = self.shared.state.read();
                (state.compacted, state.revision)
            };
            if durable.has_garbage(revision) {
                durable.clean(compacted, revision);
            }
        }
    }

    /// Processes a batch of requests.
    pub(super) fn process(&mut self, requests: impl IntoIterator<Item = Request>) {
        // Before anything is staged: recovery may publish events of a batch that was reported as
        // failed, and preconditions have to be checked against them.
        let mut failure = self.recover().err();
        let mut staged = Staged::default();
        let mut compactions = Vec::new();
        for request in requests {
            if let Some(error) = &failure {
                request.refuse(error.clone());
                continue;
            }
            match request {
                Request::Write { writes, answer } => {
                    let outcome = self.stage(writes, &mut staged);
                    staged.answers.push((answer, outcome));
                }
                Request::Compact { revision, answer } => compactions.push((revision, answer)),
            }
            // After a failed commit the remaining requests are refused: the file is reopened at the
            // start of a later batch, when its backoff has passed.
            if staged.bytes > MAX_BATCH_BYTES {
                failure = self.flush(std::mem::take(&mut staged)).err();
            }
        }
        if failure.is_none() {
            failure = self.flush(staged).err();
        }
        for (revision, answer) in compactions {
            let done = match &failure {
                Some(error) => Err(error.clone()),
                None => self.compact(revision),
            };
            let _ = answer.send(done);
        }
        self.expire();
    }

    fn recover(&mut self) -> Result<(), StoreError> {
        let Some(durable) = &mut self.durable else {
            return Ok(());
        };
        let adopted = durable.recover(&self.shared.state)?;
        self.publish(&adopted);
        Ok(())
    }

    fn stage(&mut self, writes: Vec<Write>, staged: &mut Staged) -> Outcome {
        let mut keys = HashSet::new();
        let mut planned = Vec::with_capacity(writes.len());
        for write in &writes {
            if writes.len() > 1 && !keys.insert(&write.key) {
                let key = Arc::clone(&write.key);
                return Outcome::Refused(StoreError::DuplicateKey { key });
            }
            let in_batch = staged.newest.get(&write.key);
            let current = match in_batch {
                Some(entry) => entry.clone(),
                None => self.shared.state.read().get(&write.key).cloned(),
            };
            if !write.allowed(current.as_deref()) {
                let conflict = StoreError::Conflict {
                    key: Arc::clone(&write.key),
                    current,
                };
                // If the commit fails, the write it conflicts with has not happened; the caller
                // then gets the error of the commit and may try again.
                return match in_batch {
                    Some(_) => Outcome::Tentative(conflict),
                    None => Outcome::Refused(conflict),
                };
            }
            planned.push(current);
        }

        // All preconditions hold; only now is content created. `self.next` advances once all of it
        // is there, so that a panic in a content function uses up no revision.
        let mut events = Vec::with_capacity(writes.len());
        for ((write, current), revision) in writes.into_iter().zip(planned).zip(self.next..) {
            let (content, delete) = match write.op {
                Op::Put(content) => (content, false),
                Op::Delete(content) => (content, true),
            };
            // Content is created by callers; a bug there must not take the store down.
            let Ok(value) = catch_unwind(AssertUnwindSafe(|| content(revision))) else {
                return Outcome::Refused(StoreError::Content { key: write.key });
            };
            let (key, created) = match &current {
                // The key of the previous version is shared: an object that is updated for hours
                // keeps one allocation for it.
                Some(entry) => (Arc::clone(&entry.key), entry.create_revision),
                None => (write.key, revision),
            };
            let entry = Entry::new(key, value, created, revision, write.form);
            let entry = if write.encoded { entry.sound() } else { entry };
            events.push(Arc::new(Event::new(entry, delete, current)));
        }

        let from = staged.events.len();
        for event in events {
            self.next = event.revision + 1;
            staged.bytes += event.entry.key.len() + event.entry.value.len();
            staged
                .newest
                .insert(Arc::clone(&event.entry.key), event.after().cloned());
            staged.events.push(event);
        }
        Outcome::Written(from..staged.events.len())
    }

    /// Commits, publishes and responds.
    fn flush(&mut self, staged: Staged) -> Result<(), StoreError> {
        let committed = self.commit(&staged.events);
        if committed.is_ok() {
            self.publish(&staged.events);
        }
        for (answer, outcome) in staged.answers {
            let result = match (outcome, &committed) {
                (Outcome::Refused(error), _) | (Outcome::Tentative(error), Ok(())) => Err(error),
                (Outcome::Written(range), Ok(())) => {
                    Ok(staged.events.get(range).unwrap_or_default().to_vec())
                }
                (_, Err(error)) => Err(error.clone()),
            };
            // The caller may be gone; the write has happened all the same.
            let _ = answer.send(result);
        }
        committed
    }

    fn commit(&mut self, events: &[Arc<Event>]) -> Result<(), StoreError> {
        let Some(durable) = self.durable.as_mut().filter(|_| !events.is_empty()) else {
            return Ok(());
        };
        let (compacted, revision) = {
            let state = self.shared.state.read();
            (state.compacted, state.revision)
        };
        durable.commit(events, compacted, revision)
    }

    fn publish(&mut self, events: &[Arc<Event>]) {
        let Some(last) = events.last() else { return };
        let mut state = self.shared.state.write();
        for event in events {
            state.apply(event);
        }
        // Downgraded before the wake-ups: watchers read as soon as they wake, and the write lock
        // would make each of them block.
        let state = RwLockWriteGuard::downgrade(state);
        state.wake(events);
        drop(state);
        self.shared.revision.send_replace(last.revision);
        // Adopted events have revisions that this process had assigned and given up.
        self.next = self.next.max(last.revision + 1);
        self.ages
            .note(last.revision, (self.options.clock)(), self.options.max_age);
    }

    /// Compacts history on request; on disk first, so that it is durable.
    fn compact(&mut self, requested: u64) -> Result<(), StoreError> {
        let current = self.shared.state.read().revision;
        if requested > current {
            return Err(StoreError::FutureRevision { requested, current });
        }
        if let Some(durable) = &mut self.durable {
            // In the other order a crash would bring back history that clients were already
            // refused: a list at an old revision would fail with 410 and then succeed.
            durable.commit(&[], requested, current)?;
        }
        self.forget(requested);
        Ok(())
    }

    /// Compacts history that exceeds the limits. The file follows with the next commit.
    fn expire(&mut self) {
        let options = &self.options;
        let expired = self.ages.expired((options.clock)(), options.max_age);
        let excess = self
            .shared
            .state
            .read()
            .excess(options.max_events, options.max_history_bytes);
        if let Some(revision) = expired.max(excess) {
            self.forget(revision);
        }
    }

    fn forget(&mut self, revision: u64) {
        let garbage = self.shared.state.write().compact(revision);
        if let Some(durable) = &mut self.durable {
            durable.add_garbage(garbage);
        }
    }
}
