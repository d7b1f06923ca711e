//! Pods that wait for a node: the most important first, and those that found none again when
//! something changed that they hope for.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use runtime::Key;
use tokio::time::Instant;

use super::pod::PodInfo;
use super::reason::{Hope, Unfit};

/// Waits after attempts that found no node (upstream's 1 s, doubling to 10 s).
const FIRST_BACKOFF: Duration = Duration::from_secs(1);
const LAST_BACKOFF: Duration = Duration::from_secs(10);
/// A pod is tried again after so long whatever happens (upstream's 5 min).
const FORGOTTEN: Duration = Duration::from_mins(5);

/// The waiting pods.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    entries: HashMap<Key, Entry>,
    active: BTreeSet<(Reverse<i32>, u64, Key)>,
    timed: BTreeSet<(Instant, Key)>,
    /// Those that found no node.
    unschedulable: BTreeSet<Key>,
    order: u64,
}

#[derive(Debug)]
struct Entry {
    pod: Arc<PodInfo>,
    attempts: u32,
    not_before: Option<Instant>,
    place: Place,
}

#[derive(Debug)]
enum Place {
    Active(u64),
    Backoff(Instant),
    Unschedulable {
        until: Instant,
        why: Unfit,
    },
    /// Taken out, and being looked at.
    Out,
}

impl Waiting {
    /// Adds a pod, or puts it back in as it is now: a changed pod is worth another try.
    pub(crate) fn add(&mut self, pod: Arc<PodInfo>) {
        let key = pod.key.clone();
        let attempts = self.entries.get(&key).map_or(0, |entry| entry.attempts);
        self.remove(&key);
        let entry = Entry {
            pod,
            attempts,
            not_before: None,
            place: Place::Out,
        };
        self.entries.insert(key.clone(), entry);
        self.activate(&key);
    }

    pub(crate) fn remove(&mut self, key: &Key) {
        self.take_out(key);
        self.entries.remove(key);
    }

    /// The most important pod that is ready to be looked at; of equals, the first to come.
    pub(crate) fn pop(&mut self) -> Option<Arc<PodInfo>> {
        let (_, _, key) = self.active.pop_first()?;
        let entry = self.entries.get_mut(&key)?;
        entry.place = Place::Out;
        entry.attempts += 1;
        Some(Arc::clone(&entry.pod))
    }

    /// A pod found no node.
    pub(crate) fn unschedulable(&mut self, key: &Key, why: Unfit, now: Instant) {
        let Some(entry) = self.entries.get_mut(key) else {
            return;
        };
        entry.not_before = Some(now + backoff(entry.attempts));
        let until = now + FORGOTTEN;
        entry.place = Place::Unschedulable { until, why };
        self.timed.insert((until, key.clone()));
        self.unschedulable.insert(key.clone());
    }

    /// Something went wrong with a pod: it is tried again after a while.
    pub(crate) fn failed(&mut self, key: &Key, now: Instant) {
        let Some(entry) = self.entries.get_mut(key) else {
            return;
        };
        let at = now + backoff(entry.attempts);
        entry.place = Place::Backoff(at);
        self.timed.insert((at, key.clone()));
    }

    /// Something changed: pods that hope for it are tried again, not before their time.
    pub(crate) fn changed(&mut self, what: Hope, now: Instant) {
        let hopes = |key: &&Key| {
            let place = self.entries.get(*key).map(|entry| &entry.place);
            matches!(place, Some(Place::Unschedulable { why, .. }) if why.hopes_for(what))
        };
        let hopeful: Vec<Key> = self.unschedulable.iter().filter(hopes).cloned().collect();
        for key in hopeful {
            self.take_out(&key);
            let Some(entry) = self.entries.get_mut(&key) else {
                continue;
            };
            match entry.not_before.filter(|at| *at > now) {
                Some(at) => {
                    entry.place = Place::Backoff(at);
                    self.timed.insert((at, key));
                }
                None => self.activate(&key),
            }
        }
    }

    /// Makes ready what has waited long enough; says when the next will have.
    pub(crate) fn flush(&mut self, now: Instant) -> Option<Instant> {
        while let Some((at, key)) = self.timed.first().cloned() {
            if at > now {
                return Some(at);
            }
            self.take_out(&key);
            self.activate(&key);
        }
        None
    }

    fn activate(&mut self, key: &Key) {
        self.order += 1;
        let order = self.order;
        if let Some(entry) = self.entries.get_mut(key) {
            entry.place = Place::Active(order);
            self.active
                .insert((Reverse(entry.pod.priority), order, key.clone()));
        }
    }

    /// Takes a pod out of wherever it waits.
    fn take_out(&mut self, key: &Key) {
        let Some(entry) = self.entries.get_mut(key) else {
            return;
        };
        match std::mem::replace(&mut entry.place, Place::Out) {
            Place::Active(order) => {
                self.active
                    .remove(&(Reverse(entry.pod.priority), order, key.clone()));
            }
            Place::Backoff(at) | Place::Unschedulable { until: at, .. } => {
                self.timed.remove(&(at, key.clone()));
                self.unschedulable.remove(key);
            }
            Place::Out => {}
        }
    }
}

fn backoff(attempts: u32) -> Duration {
    let doubled = FIRST_BACKOFF.saturating_mul(1 << attempts.saturating_sub(1).min(8));
    doubled.min(LAST_BACKOFF)
}
