//! Durations of simulated operations.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Start times of operations, shared by clones. They are not persisted: after a restart operations
/// start over.
#[derive(Clone)]
pub(crate) struct Pace {
    speed: f64,
    begun: Arc<Mutex<HashMap<String, Instant>>>,
}

impl Pace {
    pub(crate) fn new(speed: f64) -> Self {
        Self {
            speed,
            begun: Arc::default(),
        }
    }

    /// The remaining time of an operation; `None` when it is done. The first call starts it.
    pub(crate) fn left(&self, operation: &str, takes: Duration) -> Option<Duration> {
        let now = Instant::now();
        let takes = Duration::try_from_secs_f64(takes.as_secs_f64() / self.speed);
        let takes = takes.unwrap_or(Duration::MAX);
        let mut begun = self.begun.lock();
        let since = now - *begun.entry(operation.to_owned()).or_insert(now);
        let left = takes.saturating_sub(since);
        if left.is_zero() {
            // Done operations are forgotten: the same name may start again, and the map stays as
            // small as the work in progress.
            begun.remove(operation);
            return None;
        }
        Some(left)
    }

    /// Resets an operation.
    pub(crate) fn forget(&self, operation: &str) {
        self.begun.lock().remove(operation);
    }
}
