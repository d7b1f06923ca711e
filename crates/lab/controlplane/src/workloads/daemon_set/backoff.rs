//! How long to wait before a pod that fails again and again is replaced.

use std::collections::HashMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// The first wait and the longest, as kube-controller-manager has them.
const FIRST: SignedDuration = SignedDuration::from_secs(1);
const LONGEST: SignedDuration = SignedDuration::from_mins(15);

/// What the waits are counted for: a set, the form of it, a node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Place {
    pub(super) uid: String,
    pub(super) generation: i64,
    pub(super) node: String,
}

/// Waits that have begun.
#[derive(Debug, Default)]
pub(super) struct Backoff(HashMap<Place, Wait>);

#[derive(Debug, Clone, Copy)]
struct Wait {
    since: Timestamp,
    length: SignedDuration,
}

impl Wait {
    /// Whether all went well for so long that it does not count any more.
    fn is_over_and_done(&self, now: Timestamp) -> bool {
        now.duration_since(self.since) > LONGEST * 2
    }
}

impl Backoff {
    /// How long to wait still, if at all.
    pub(super) fn left(&self, place: &Place, now: Timestamp) -> Option<Duration> {
        let wait = self.0.get(place)?;
        let left = wait.length - now.duration_since(wait.since);
        (!wait.is_over_and_done(now) && left > SignedDuration::ZERO).then(|| left.unsigned_abs())
    }

    /// A pod is replaced now; the next one has to wait twice as long as this one had.
    pub(super) fn note(&mut self, place: Place, now: Timestamp) {
        self.0.retain(|_, wait| !wait.is_over_and_done(now));
        let before = self.0.get(&place).map(|wait| wait.length);
        let length = before.map_or(FIRST, |before| (before * 2).min(LONGEST));
        self.0.insert(place, Wait { since: now, length });
    }
}
