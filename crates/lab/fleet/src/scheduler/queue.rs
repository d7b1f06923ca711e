//! The scheduling queue: by priority; unschedulable pods are retried when a relevant change occurs.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use runtime::Key;
use tokio::time::Instant;

use super::pod::PodInfo;
use super::reason::{ChangeKind, UnschedulableReason};

/// First backoff after a failed attempt (upstream's 1 s, doubling to 10 s).
const FIRST_BACKOFF: Duration = Duration::from_secs(1);
const LAST_BACKOFF: Duration = Duration::from_secs(10);
/// Unschedulable pods are retried after this time in any case (upstream's 5 min).
const UNSCHEDULABLE_TIMEOUT: Duration = Duration::from_mins(5);

/// The waiting pods.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    entries: HashMap<Key, Entry>,
    active: BTreeSet<(Reverse<i32>, u64, Key)>,
    timed: BTreeSet<(Instant, Key)>,
    /// Pods without a feasible node.
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
        why: UnschedulableReason,
    },
    /// Popped, being scheduled.
    Out,
}

impl Waiting {
    /// Adds a pod, or replaces it: a changed pod is tried again.
    pub(crate) fn add(&mut self, pod: Arc<PodInfo>) {
        let key = pod.key.clone();
        // A changed pod keeps its attempts: a controller that updates labels in a loop must not
        // escape the backoff.
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

    /// Removes this pod, but not a new one of the same name, which may have been added before the result of a binding
    /// arrives.
    pub(crate) fn remove_pod(&mut self, pod: &PodInfo) {
        let entry = self.entries.get(&pod.key);
        if entry.is_some_and(|entry| entry.pod.uid == pod.uid) {
            self.remove(&pod.key);
        }
    }

    /// The ready pod with the highest priority; among equals the first to arrive.
    pub(crate) fn pop(&mut self) -> Option<Arc<PodInfo>> {
        let (_, _, key) = self.active.pop_first()?;
        let entry = self.entries.get_mut(&key)?;
        entry.place = Place::Out;
        entry.attempts += 1;
        Some(Arc::clone(&entry.pod))
    }

    /// Records that a pod has no feasible node.
    pub(crate) fn unschedulable(&mut self, key: &Key, why: UnschedulableReason, now: Instant) {
        let Some(entry) = self.entries.get_mut(key) else {
            return;
        };
        // Remembered, not waited for: while no relevant change occurs the pod rests for five
        // minutes, and one that does occur still respects the backoff.
        entry.not_before = Some(now + backoff(entry.attempts));
        let until = now + UNSCHEDULABLE_TIMEOUT;
        entry.place = Place::Unschedulable { until, why };
        self.timed.insert((until, key.clone()));
        self.unschedulable.insert(key.clone());
    }

    /// Requeues a pod after an error, with backoff.
    pub(crate) fn failed(&mut self, key: &Key, now: Instant) {
        let Some(entry) = self.entries.get_mut(key) else {
            return;
        };
        let at = now + backoff(entry.attempts);
        entry.place = Place::Backoff(at);
        self.timed.insert((at, key.clone()));
    }

    /// Requeues the pods that a change may make schedulable, respecting their backoff.
    pub(crate) fn changed(&mut self, what: ChangeKind, now: Instant) {
        let hopes = |key: &&Key| {
            let place = self.entries.get(*key).map(|entry| &entry.place);
            matches!(place, Some(Place::Unschedulable { why, .. }) if why.is_resolved_by(what))
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

    /// Makes pods ready whose backoff has ended; returns when the next one ends.
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

    /// Removes a pod from its queue.
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
