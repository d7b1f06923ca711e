//! A work queue of object keys: each key is queued at most once and processed by at most one worker.
//!
//! The rules are those of client-go's `util/workqueue`: a key added while a worker processes it is
//! queued again when that worker is done; a failed key is requeued with exponential backoff.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet, VecDeque};
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::{Cache, Change, Key, Kind};

/// How long a failed key waits: `base` after the first failure, twice as long after each further one,
/// never longer than `max`.
#[derive(Debug, Clone, Copy)]
pub struct Backoff {
    base: Duration,
    max: Duration,
}

impl Backoff {
    /// For clusters. The base is client-go's. client-go's longest backoff is 1000 s, with which an object
    /// may stay broken for a quarter of an hour after its cause is gone; five minutes bound the load that
    /// a thousand failing objects cause to about three requests a second.
    pub const CLUSTER: Self = Self {
        base: Duration::from_millis(5),
        max: Duration::from_mins(5),
    };
    /// For the lab and for tests, where a developer watches a fix take effect.
    pub const LAB: Self = Self {
        max: Duration::from_secs(5),
        ..Self::CLUSTER
    };

    /// The wait after this many consecutive failures, shortened by a share of up to a fifth: objects that
    /// failed together, because a webhook was down for example, are not retried together.
    fn wait(self, failures: u32, share: f64) -> Duration {
        self.base
            // 2^16 times 5 ms exceeds five minutes, so a larger exponent changes
            // nothing, and the shift cannot overflow.
            .saturating_mul(1 << failures.saturating_sub(1).min(16))
            .min(self.max)
            .mul_f64(1.0 - share / 5.0)
    }
}

/// A work queue; clones share it.
pub struct Queue<T> {
    shared: Arc<Shared<T>>,
}

struct Shared<T> {
    state: Mutex<State<T>>,
    changed: Notify,
}

struct State<T> {
    ready: VecDeque<T>,
    /// Keys in `ready`, and keys to be put there when the worker that processes them is done.
    waiting: HashSet<T>,
    working: HashSet<T>,
    later: BinaryHeap<Reverse<Later<T>>>,
    /// The due time of each key that has a valid entry in `later`: the earliest one added.
    due: HashMap<T, Instant>,
    failures: HashMap<T, u32>,
    order: u64,
}

/// Ordered by time alone, as keys need not be `Ord`; `order` breaks ties.
struct Later<T> {
    at: Instant,
    order: u64,
    what: T,
}

impl<T> PartialEq for Later<T> {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.order) == (other.at, other.order)
    }
}
impl<T> Eq for Later<T> {}
impl<T> PartialOrd for Later<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<T> Ord for Later<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

impl<T> Clone for Queue<T> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<T: Hash + Eq + Clone> Default for Queue<T> {
    fn default() -> Self {
        Self {
            shared: Arc::new(Shared {
                state: Mutex::new(State {
                    ready: VecDeque::new(),
                    waiting: HashSet::new(),
                    working: HashSet::new(),
                    later: BinaryHeap::new(),
                    due: HashMap::new(),
                    failures: HashMap::new(),
                    order: 0,
                }),
                changed: Notify::new(),
            }),
        }
    }
}

impl<T: Hash + Eq + Clone> Queue<T> {
    /// An empty queue.
    pub fn new() -> Self {
        Self::default()
    }

    /// Queues a key now.
    pub fn add(&self, what: T) {
        self.shared.state.lock().add(what);
        self.shared.changed.notify_one();
    }

    /// Queues a key after a delay. If it is due earlier already, the earlier time stays.
    pub fn add_after(&self, what: T, wait: Duration) {
        if wait.is_zero() {
            return self.add(what);
        }
        let at = Instant::now() + wait;
        let mut state = self.shared.state.lock();
        // As in client-go's delaying queue: an object that asks to be reconciled in ten minutes must not postpone the
        // retry that is due in a second.
        if state.due.get(&what).is_some_and(|due| *due <= at) {
            return;
        }
        state.due.insert(what.clone(), at);
        state.order += 1;
        let order = state.order;
        state.later.push(Reverse(Later { at, order, what }));
        drop(state);
        self.shared.changed.notify_one();
    }

    /// Requeues a failed key with a backoff that grows with every consecutive failure.
    pub fn add_failed(&self, what: T, backoff: Backoff) {
        let failures = {
            let mut state = self.shared.state.lock();
            let failures = state.failures.entry(what.clone()).or_insert(0);
            *failures += 1;
            *failures
        };
        self.add_after(what, backoff.wait(failures, fastrand::f64()));
    }

    /// Resets the backoff of a key after a success.
    pub fn forget(&self, what: &T) {
        self.shared.state.lock().failures.remove(what);
    }

    /// Takes the next key. The caller calls [`Queue::done`] when it has processed it.
    pub async fn next(&self) -> T {
        loop {
            // Created before the state is read: a `notify_one` between reading and awaiting leaves a permit that this
            // future consumes, so no key waits for the next change.
            let changed = self.shared.changed.notified();
            let (taken, due, more) = {
                let mut state = self.shared.state.lock();
                state.promote(Instant::now());
                let taken = state.take();
                let more = !state.ready.is_empty();
                (taken, state.later.peek().map(|later| later.0.at), more)
            };
            if let Some(what) = taken {
                // `Notify` stores at most one permit: each worker wakes the next.
                if more || due.is_some() {
                    self.shared.changed.notify_one();
                }
                return what;
            }
            match due {
                Some(due) => tokio::select! {
                    () = changed => {}
                    () = tokio::time::sleep_until(due) => {}
                },
                None => changed.await,
            }
        }
    }

    /// Marks a key as processed by the worker that took it.
    pub fn done(&self, what: &T) {
        let mut state = self.shared.state.lock();
        state.working.remove(what);
        if state.waiting.contains(what) {
            state.ready.push_back(what.clone());
            drop(state);
            self.shared.changed.notify_one();
        }
    }

    /// Whether no key is queued, delayed or being processed.
    pub fn is_idle(&self) -> bool {
        let state = self.shared.state.lock();
        state.waiting.is_empty() && state.working.is_empty() && state.due.is_empty()
    }

    /// How many keys are queued, without delayed ones.
    pub fn len(&self) -> usize {
        self.shared.state.lock().waiting.len()
    }

    /// Whether no key is queued; delayed ones do not count.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T: Hash + Eq + Clone + Send + Sync + 'static> Queue<T> {
    /// Queues the keys that `map` returns for each change of a cache (controller-runtime's
    /// `EnqueueRequestsFromMapFunc`). The same rules as for [`Cache::on_change`] apply to it.
    pub fn enqueue_mapped<K, I>(
        &self,
        cache: &Cache<K>,
        map: impl Fn(&Change<K>) -> I + Send + Sync + 'static,
    ) where
        K: Kind,
        I: IntoIterator<Item = T>,
    {
        self.enqueue_mapped_after(Duration::ZERO, cache, map);
    }

    /// Like [`Queue::enqueue_mapped`]; changes within a window cause one reconcile.
    pub fn enqueue_mapped_after<K, I>(
        &self,
        window: Duration,
        cache: &Cache<K>,
        map: impl Fn(&Change<K>) -> I + Send + Sync + 'static,
    ) where
        K: Kind,
        I: IntoIterator<Item = T>,
    {
        let queue = self.clone();
        cache.on_change(move |change| {
            for what in map(change) {
                queue.add_after(what, window);
            }
        });
    }
}

impl Queue<Key> {
    /// Queues each object of a cache that is created, changed or deleted (controller-runtime's
    /// `EnqueueRequestForObject`).
    pub fn enqueue_objects<K: Kind>(&self, cache: &Cache<K>) {
        self.enqueue_mapped(cache, |change| {
            change.object().map(|object| Key::of(object.meta()))
        });
    }
}

impl<T: Hash + Eq + Clone> State<T> {
    fn add(&mut self, what: T) {
        if !self.waiting.insert(what.clone()) {
            return;
        }
        // A key in progress is only marked. Two workers on one object would each decide from the same state and write
        // twice; `done` queues it when the first has finished.
        if !self.working.contains(&what) {
            self.ready.push_back(what);
        }
    }

    /// Moves due keys to `ready`.
    fn promote(&mut self, now: Instant) {
        while self.later.peek().is_some_and(|later| later.0.at <= now) {
            let Some(Reverse(later)) = self.later.pop() else {
                return;
            };
            // Skip a stale entry: an earlier time replaced it.
            if self.due.get(&later.what) == Some(&later.at) {
                self.due.remove(&later.what);
                self.add(later.what);
            }
        }
    }

    fn take(&mut self) -> Option<T> {
        let what = self.ready.pop_front()?;
        self.waiting.remove(&what);
        self.working.insert(what.clone());
        Some(what)
    }
}

#[cfg(test)]
mod tests;
