//! A queue of names to look at: each at most once in it, each in the hands of at most one worker.
//!
//! The rules are those of client-go's work queues: what is added while a worker has it comes again
//! when the worker is done; what fails comes back later and later.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet, VecDeque};
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

/// The first wait after a failure; it doubles with each further one (client-go's 5 ms).
const FIRST_RETRY: Duration = Duration::from_millis(5);
/// The longest wait between tries. client-go waits up to 1000 s, which nobody at a laptop does.
const LAST_RETRY: Duration = Duration::from_secs(30);

/// A queue; clones share it.
pub struct Queue<T> {
    shared: Arc<Shared<T>>,
}

struct Shared<T> {
    state: Mutex<State<T>>,
    changed: Notify,
}

struct State<T> {
    ready: VecDeque<T>,
    /// In `ready`, or to be put there when the worker that has it is done.
    waiting: HashSet<T>,
    working: HashSet<T>,
    later: BinaryHeap<Reverse<Later<T>>>,
    /// When each entry of `later` that still counts is due; of several, the earliest counts.
    due: HashMap<T, Instant>,
    failures: HashMap<T, u32>,
    order: u64,
}

/// Ordered by time alone; what is due may have no order.
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

    /// Adds something to look at now.
    pub fn add(&self, what: T) {
        self.shared.state.lock().add(what);
        self.shared.changed.notify_one();
    }

    /// Adds something to look at after a while. If it is to come sooner anyway, it comes sooner.
    pub fn add_after(&self, what: T, wait: Duration) {
        if wait.is_zero() {
            return self.add(what);
        }
        let at = Instant::now() + wait;
        let mut state = self.shared.state.lock();
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

    /// Adds something that failed, after a wait that grows with every failure in a row.
    pub fn add_failed(&self, what: T) {
        let failures = {
            let mut state = self.shared.state.lock();
            let failures = state.failures.entry(what.clone()).or_insert(0);
            *failures += 1;
            *failures
        };
        self.add_after(what, retry_after(failures));
    }

    /// Forgets failures: it went well.
    pub fn forget(&self, what: &T) {
        self.shared.state.lock().failures.remove(what);
    }

    /// The next to look at. Whoever takes it says [`Queue::done`] afterwards.
    pub async fn next(&self) -> T {
        loop {
            let changed = self.shared.changed.notified();
            let (taken, due, more) = {
                let mut state = self.shared.state.lock();
                state.promote(Instant::now());
                let taken = state.take();
                let more = !state.ready.is_empty();
                (taken, state.later.peek().map(|later| later.0.at), more)
            };
            if let Some(what) = taken {
                // Notifications do not add up: one worker tells the next.
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

    /// Says that a worker is done with what it took.
    pub fn done(&self, what: &T) {
        let mut state = self.shared.state.lock();
        state.working.remove(what);
        if state.waiting.contains(what) {
            state.ready.push_back(what.clone());
            drop(state);
            self.shared.changed.notify_one();
        }
    }

    /// Whether there is nothing to look at, now or later, and nobody looks at anything.
    pub fn is_idle(&self) -> bool {
        let state = self.shared.state.lock();
        state.waiting.is_empty() && state.working.is_empty() && state.due.is_empty()
    }

    /// How many there are to look at now.
    pub fn len(&self) -> usize {
        self.shared.state.lock().waiting.len()
    }

    /// Whether there is nothing to look at now.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// How long to wait after so many failures in a row.
fn retry_after(failures: u32) -> Duration {
    FIRST_RETRY
        .saturating_mul(1 << failures.saturating_sub(1).min(16))
        .min(LAST_RETRY)
}

impl<T: Hash + Eq + Clone> State<T> {
    fn add(&mut self, what: T) {
        if !self.waiting.insert(what.clone()) {
            return;
        }
        if !self.working.contains(&what) {
            self.ready.push_back(what);
        }
    }

    /// Moves what is due to what is ready.
    fn promote(&mut self, now: Instant) {
        while self.later.peek().is_some_and(|later| later.0.at <= now) {
            let Some(Reverse(later)) = self.later.pop() else {
                return;
            };
            // An entry that does not count any more: an earlier one took its place.
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
