//! Rate limit of failed sign-ins.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Failures allowed within a window.
// Tokens cannot be guessed at any rate; the limit keeps the console from being used to flood the
// API server with reviews.
const MAX_FAILURES: u32 = 10;
const WINDOW: Duration = Duration::from_mins(1);
/// Limit of remembered addresses; beyond it, an address without a recorded failure cannot sign in
/// until some expire.
const MAX_ADDRESSES: usize = 10_000;

/// Failures of the last minute.
#[derive(Default)]
pub(crate) struct Attempts {
    failures: Mutex<HashMap<IpAddr, (Instant, u32)>>,
}

impl Attempts {
    /// Whether this address may try; otherwise how long to wait.
    pub(crate) fn check(&self, from: IpAddr, now: Instant) -> Result<(), Duration> {
        let mut failures = self.failures.lock();
        failures.retain(|_, (began, _)| now.duration_since(*began) < WINDOW);
        let left = |began: Instant| WINDOW.saturating_sub(now.duration_since(began));
        match failures.get(&from) {
            Some((began, count)) if *count >= MAX_FAILURES => Err(left(*began)),
            None if failures.len() >= MAX_ADDRESSES => Err(WINDOW),
            _ => Ok(()),
        }
    }

    /// Records a failure.
    pub(crate) fn failed(&self, from: IpAddr, now: Instant) {
        let mut failures = self.failures.lock();
        failures.entry(from).or_insert((now, 0)).1 += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_failures_block_only_their_address() {
        let attempts = Attempts::default();
        let (one, other): (IpAddr, IpAddr) = ([192, 0, 2, 1].into(), [192, 0, 2, 2].into());
        let start = Instant::now();
        for _ in 0..MAX_FAILURES {
            assert_eq!(attempts.check(one, start), Ok(()));
            attempts.failed(one, start);
        }
        let later = start + Duration::from_secs(20);
        assert_eq!(attempts.check(one, later), Err(Duration::from_secs(40)));
        assert_eq!(attempts.check(other, later), Ok(()));
        assert_eq!(attempts.check(one, start + WINDOW), Ok(()));
    }
}
