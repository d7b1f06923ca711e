//! Serialization of times and durations in a report.
#![expect(
    clippy::ref_option,
    reason = "serde gives a reference to the field, whatever it is"
)]

use jiff::{SignedDuration, Timestamp};
use machinery::time::{format_duration, format_time};
use serde::{Serialize as _, Serializer};

use crate::eta::Estimate;

/// Formats times as Kubernetes does.
pub(super) fn time<S: Serializer>(
    time: &Option<Timestamp>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    time.map(format_time).serialize(serializer)
}

/// Formats durations as Go does, in whole seconds.
pub(super) fn duration<S: Serializer>(
    duration: &Option<SignedDuration>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let whole = duration.map(|it| SignedDuration::from_secs(it.as_secs()));
    whole.map(format_duration).serialize(serializer)
}

/// The remaining time as a duration.
pub(super) fn estimate<S: Serializer>(
    estimate: &Option<Estimate>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    duration(&estimate.map(|it| it.remaining), serializer)
}
