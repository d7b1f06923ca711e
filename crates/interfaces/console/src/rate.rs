//! How often somebody may fail to sign in.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// So many failures are forgiven within a window.
const FORGIVEN: u32 = 10;
const WINDOW: Duration = Duration::from_mins(1);
/// Addresses remembered at most; when there are more, nobody signs in until some are forgotten.
const ADDRESSES: usize = 10_000;

/// Failures of the last minute.
#[derive(Default)]
pub(crate) struct Attempts {
    failures: Mutex<HashMap<IpAddr, (Instant, u32)>>,
}

impl Attempts {
    /// Whether somebody from there may try; how long to wait, if not.
    pub(crate) fn check(&self, from: IpAddr, now: Instant) -> Result<(), Duration> {
        let mut failures = self.failures.lock();
        failures.retain(|_, (began, _)| now.duration_since(*began) < WINDOW);
        let left = |began: Instant| WINDOW.saturating_sub(now.duration_since(began));
        match failures.get(&from) {
            Some((began, count)) if *count >= FORGIVEN => Err(left(*began)),
            None if failures.len() >= ADDRESSES => Err(WINDOW),
            _ => Ok(()),
        }
    }

    /// Remembers a failure.
    pub(crate) fn failed(&self, from: IpAddr, now: Instant) {
        let mut failures = self.failures.lock();
        failures.entry(from).or_insert((now, 0)).1 += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_fails_too_often_waits_and_others_do_not() {
        let attempts = Attempts::default();
        let (one, other): (IpAddr, IpAddr) = ([192, 0, 2, 1].into(), [192, 0, 2, 2].into());
        let start = Instant::now();
        for _ in 0..FORGIVEN {
            assert_eq!(attempts.check(one, start), Ok(()));
            attempts.failed(one, start);
        }
        let later = start + Duration::from_secs(20);
        assert_eq!(attempts.check(one, later), Err(Duration::from_secs(40)));
        assert_eq!(attempts.check(other, later), Ok(()));
        assert_eq!(attempts.check(one, start + WINDOW), Ok(()));
    }
}
