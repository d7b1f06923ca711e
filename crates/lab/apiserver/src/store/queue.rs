//! The bounded queue between many asynchronous callers and the one blocking writer.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use tokio::sync::Semaphore;

/// See the module documentation.
#[derive(Debug)]
pub(super) struct Queue<T> {
    // A semaphore and a condition variable rather than a tokio channel: callers wait
    // asynchronously, while the writer blocks on the disk and has no runtime.
    capacity: Semaphore,
    inner: Mutex<Inner<T>>,
    filled: Condvar,
}

#[derive(Debug)]
struct Inner<T> {
    items: VecDeque<T>,
    closed: bool,
}

/// The result of a take.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// Items were taken.
    Items,
    /// The deadline passed first.
    Timeout,
    /// The queue is closed and empty.
    Closed,
}

impl<T> Queue<T> {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            capacity: Semaphore::new(capacity.clamp(1, Semaphore::MAX_PERMITS)),
            inner: Mutex::new(Inner {
                items: VecDeque::new(),
                closed: false,
            }),
            filled: Condvar::new(),
        }
    }

    /// Adds an item, waiting for capacity; returns it when the queue is closed.
    pub(super) async fn push(&self, item: T) -> Result<(), T> {
        let Ok(permit) = self.capacity.acquire().await else {
            return Err(item);
        };
        let mut inner = self.inner.lock();
        // Checked again under the lock: `close` may have run since the permit was acquired, and the
        // writer may have taken its last batch.
        if inner.closed {
            return Err(item);
        }
        inner.items.push_back(item);
        // Returned by `take`.
        permit.forget();
        drop(inner);
        self.filled.notify_one();
        Ok(())
    }

    /// Rejects new items; queued ones are still taken.
    pub(super) fn close(&self) {
        // The flag before the semaphore: a caller that already holds a permit finds it when it gets
        // the lock, and callers still waiting for a permit get an error.
        self.inner.lock().closed = true;
        self.capacity.close();
        self.filled.notify_all();
    }

    /// Moves up to `limit` items to `out`, waiting for the first one until `deadline`.
    pub(super) fn take(&self, out: &mut Vec<T>, limit: usize, deadline: Option<Instant>) -> Taken {
        let mut inner = self.inner.lock();
        while inner.items.is_empty() {
            if inner.closed {
                return Taken::Closed;
            }
            match deadline {
                None => self.filled.wait(&mut inner),
                Some(deadline) => {
                    // A timeout and a push can coincide; items win, or the push would wait for the
                    // next wake-up.
                    let timed_out = self.filled.wait_until(&mut inner, deadline).timed_out();
                    if timed_out && inner.items.is_empty() && !inner.closed {
                        return Taken::Timeout;
                    }
                }
            }
        }
        let count = inner.items.len().min(limit);
        out.extend(inner.items.drain(..count));
        drop(inner);
        // After the lock is released, so that a woken caller does not run straight into it.
        self.capacity.add_permits(count);
        Taken::Items
    }

    /// Waits until `count` items are queued, but not longer than `timeout`.
    pub(super) fn gather(&self, count: usize, timeout: Duration) {
        let deadline = Instant::now() + timeout;
        let mut inner = self.inner.lock();
        while inner.items.len() < count && !inner.closed {
            if self.filled.wait_until(&mut inner, deadline).timed_out() {
                return;
            }
        }
    }
}
