//! Coarse timestamps of revisions, to compact old ones.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Marks per maximal age: events are dropped in steps of this fraction of it.
// One mark per write would cost as much as the log itself; history may therefore live up to a
// twentieth longer than its limit.
const STEPS: u32 = 20;

/// Revisions with the time they were published, at most a few dozen marks.
#[derive(Debug, Default)]
pub(super) struct Ages {
    marks: VecDeque<Mark>,
}

#[derive(Debug)]
struct Mark {
    opened: Instant,
    newest: Instant,
    revision: u64,
}

impl Ages {
    /// Records that everything up to `revision` has been published.
    pub(super) fn note(&mut self, revision: u64, now: Instant, max_age: Duration) {
        match self.marks.back_mut() {
            // Measured from the opening, not from the last write: under constant load a mark would
            // otherwise never close, and its history never expire.
            Some(mark) if now.saturating_duration_since(mark.opened) < max_age / STEPS => {
                mark.newest = now;
                mark.revision = revision;
            }
            _ => self.marks.push_back(Mark {
                opened: now,
                newest: now,
                revision,
            }),
        }
    }

    /// The newest revision older than `max_age`.
    pub(super) fn expired(&mut self, now: Instant, max_age: Duration) -> Option<u64> {
        let mut expired = None;
        while let Some(mark) = self
            .marks
            .pop_front_if(|mark| now.saturating_duration_since(mark.newest) >= max_age)
        {
            expired = Some(mark.revision);
        }
        expired
    }

    /// Time until the next revisions expire.
    pub(super) fn next_expiry(&self, now: Instant, max_age: Duration) -> Option<Duration> {
        let oldest = self.marks.front()?;
        Some(max_age.saturating_sub(now.saturating_duration_since(oldest.newest)))
    }
}
