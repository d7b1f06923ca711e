//! Backoff before a pod that fails repeatedly is replaced.

use std::collections::HashMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// The first and the longest delay, as in kube-controller-manager.
const INITIAL_BACKOFF: SignedDuration = SignedDuration::from_secs(1);
const MAX_BACKOFF: SignedDuration = SignedDuration::from_mins(15);

/// Backoff key: a set, its generation, a node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct BackoffKey {
    pub(super) uid: String,
    // A new template starts without a backoff, because it may be the fix.
    pub(super) generation: i64,
    pub(super) node: String,
}

/// Backoffs in progress.
#[derive(Debug, Default)]
pub(super) struct Backoff(HashMap<BackoffKey, Wait>);

#[derive(Debug, Clone, Copy)]
struct Wait {
    since: Timestamp,
    length: SignedDuration,
}

impl Wait {
    /// Whether the last failure is so long ago that the backoff is reset.
    fn is_over_and_done(&self, now: Timestamp) -> bool {
        now.duration_since(self.since) > MAX_BACKOFF * 2
    }
}

impl Backoff {
    /// The remaining delay, if any.
    pub(super) fn left(&self, place: &BackoffKey, now: Timestamp) -> Option<Duration> {
        let wait = self.0.get(place)?;
        let left = wait.length - now.duration_since(wait.since);
        (!wait.is_over_and_done(now) && left > SignedDuration::ZERO).then(|| left.unsigned_abs())
    }

    /// Records that a pod is replaced now; the next delay doubles.
    pub(super) fn note(&mut self, place: BackoffKey, now: Timestamp) {
        self.0.retain(|_, wait| !wait.is_over_and_done(now));
        let before = self.0.get(&place).map(|wait| wait.length);
        let length = before.map_or(INITIAL_BACKOFF, |before| (before * 2).min(MAX_BACKOFF));
        self.0.insert(place, Wait { since: now, length });
    }
}
