//! Progress of an import: bytes, rate and remaining time. The caller provides the clock.

#[cfg(test)]
mod tests;

use std::time::Duration;

use serde::Serialize;

/// The interval of reports.
const INTERVAL: Duration = Duration::from_millis(200);

/// The averaging window of the rate in seconds.
const MEMORY: f64 = 5.0;

/// The progress of an import.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Progress {
    /// Bytes read from the source, over all layers and passes.
    pub fetched: u64,
    /// The total size of the layers read so far; `None` if a descriptor has no size.
    pub total: Option<u64>,
    /// Uncompressed bytes.
    pub unpacked: u64,
    /// Bytes written to the disk, without zeros.
    pub written: u64,
    /// The size of the disk, once known.
    pub disk: Option<u64>,
    /// The pass over the layer, from 1.
    pub pass: u32,
    /// The recent rate in fetched bytes per second.
    pub rate: u64,
    /// The estimated remaining time; `None` before it is known.
    #[serde(serialize_with = "seconds")]
    pub eta: Option<Duration>,
}

#[expect(clippy::ref_option, reason = "serde calls it so")]
fn seconds<S: serde::Serializer>(eta: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
    eta.map(|eta| eta.as_secs()).serialize(to)
}

impl Progress {
    /// The percentage of bytes fetched.
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

    /// Whether a report is due; updates the rate if so.
    #[expect(clippy::cast_precision_loss, reason = "a rate is an estimate")]
    pub(crate) fn tick(&mut self, now: Duration, bytes: u64) -> bool {
        let passed = now.saturating_sub(self.last);
        if passed < INTERVAL {
            return false;
        }
        let seconds = passed.as_secs_f64();
        let current = bytes.saturating_sub(self.bytes) as f64 / seconds;
        // Weighted by time, so that the length of the interval does not matter.
        // An exponential average: it needs one number, and a stalled download shows a falling
        // rate instead of the average since the start.
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
