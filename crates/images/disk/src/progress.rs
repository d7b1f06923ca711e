//! How far an import is: bytes, rate, and when it will be over. Time is given by the caller.

use std::time::Duration;

use serde::Serialize;

/// Between two reports.
const INTERVAL: Duration = Duration::from_millis(200);

/// The rate is that of about the last this much time.
const MEMORY: f64 = 5.0;

/// How far an import is.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Progress {
    /// Bytes that came from the source, of all layers and passes.
    pub fetched: u64,
    /// Bytes of the layers that were begun; none if a descriptor does not say.
    pub total: Option<u64>,
    /// Bytes that came out of them.
    pub unpacked: u64,
    /// Bytes that were written to the disk; zeros are not.
    pub written: u64,
    /// Bytes of the disk, once they are known.
    pub disk: Option<u64>,
    /// The pass over the layer: 1, or more where one was not enough.
    pub pass: u32,
    /// Fetched bytes per second, lately.
    pub rate: u64,
    /// What is left at that rate; none before it is known.
    #[serde(serialize_with = "seconds")]
    pub eta: Option<Duration>,
}

#[expect(clippy::ref_option, reason = "serde calls it so")]
fn seconds<S: serde::Serializer>(eta: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
    eta.map(|eta| eta.as_secs()).serialize(to)
}

impl Progress {
    /// Hundredths that are done, by bytes fetched.
    pub fn percent(&self) -> Option<f64> {
        let total = self.total.filter(|total| *total > 0)?;
        #[expect(clippy::cast_precision_loss, reason = "shown with two digits")]
        Some((self.fetched as f64 / total as f64 * 100.0).min(100.0))
    }
}

/// Measures a rate.
#[derive(Debug)]
pub(crate) struct Meter {
    last: Duration,
    bytes: u64,
    rate: Option<f64>,
}

impl Meter {
    pub(crate) fn new(now: Duration, bytes: u64) -> Self {
        Self {
            last: now,
            bytes,
            rate: None,
        }
    }

    /// Whether it is time for a report; then the rate is that up to now.
    #[expect(clippy::cast_precision_loss, reason = "a rate is an estimate")]
    pub(crate) fn tick(&mut self, now: Duration, bytes: u64) -> bool {
        let passed = now.saturating_sub(self.last);
        if passed < INTERVAL {
            return false;
        }
        let seconds = passed.as_secs_f64();
        let current = bytes.saturating_sub(self.bytes) as f64 / seconds;
        // Weighed by time, so that the length of the interval does not matter.
        let weight = 1.0 - (-seconds / MEMORY).exp();
        self.rate = Some(match self.rate {
            Some(rate) => rate + (current - rate) * weight,
            None => current,
        });
        self.last = now;
        self.bytes = bytes;
        true
    }

    /// Bytes per second.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rate is never negative, and casts saturate"
    )]
    pub(crate) fn rate(&self) -> u64 {
        self.rate.unwrap_or(0.0) as u64
    }

    /// How long this many bytes take.
    pub(crate) fn eta(&self, left: u64) -> Option<Duration> {
        match self.rate() {
            0 => None,
            rate => Some(Duration::from_secs(left.div_ceil(rate))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_rate_is_found_and_a_change_is_followed() {
        let at = |millis| Duration::from_millis(millis);
        let mut meter = Meter::new(at(1_000), 0);
        assert!(!meter.tick(at(1_100), 100));
        assert_eq!(meter.eta(1), None);
        assert!(meter.tick(at(1_500), 500));
        assert_eq!(meter.rate(), 1_000);
        assert_eq!(meter.eta(2_500), Some(Duration::from_secs(3)));
        let mut bytes = 500;
        for step in 1..=20 {
            bytes += 5_000;
            assert!(meter.tick(at(1_500 + step * 1_000), bytes));
        }
        assert!((4_800..=5_000).contains(&meter.rate()), "{}", meter.rate());
    }

    #[test]
    fn a_clock_that_stands_still_or_goes_back_reports_nothing() {
        let mut meter = Meter::new(Duration::from_secs(9), 0);
        assert!(!meter.tick(Duration::from_secs(9), 10));
        assert!(!meter.tick(Duration::from_secs(1), 10));
    }
}
