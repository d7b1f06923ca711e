//! Times and durations of a report for programs.
#![expect(
    clippy::ref_option,
    reason = "serde gives a reference to the field, whatever it is"
)]

use jiff::{SignedDuration, Timestamp};
use machinery::time::{format_duration, format_time};
use serde::{Serialize as _, Serializer};

use crate::eta::Estimate;

/// As Kubernetes writes times.
pub(super) fn time<S: Serializer>(
    time: &Option<Timestamp>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    time.map(format_time).serialize(serializer)
}

/// As Go writes durations, in whole seconds.
pub(super) fn duration<S: Serializer>(
    duration: &Option<SignedDuration>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let whole = duration.map(|it| SignedDuration::from_secs(it.as_secs()));
    whole.map(format_duration).serialize(serializer)
}

/// What is left, as a duration.
pub(super) fn estimate<S: Serializer>(
    estimate: &Option<Estimate>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    duration(&estimate.map(|it| it.remaining), serializer)
}
