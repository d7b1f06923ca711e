//! How long a pod may stay on a node with `NoExecute` taints.

use k8s_openapi::api::core::v1::{Taint, Toleration};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use machinery::node_affinity::tolerates;
use serde_json::json;

/// The verdict on a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EvictionVerdict {
    /// It stays as long as the taints do not change.
    Stay,
    /// It is evicted at this time.
    Until(Timestamp),
}

/// The verdict on a pod that has been on its node since `arrived`, as far as known. Toleration
/// seconds count from the taint's time, or from the pod's if it is later; upstream counts from when
/// its own process observed both, which starts over after a restart.
pub(super) fn verdict(
    taints: &[Taint],
    tolerations: &[Toleration],
    arrived: Timestamp,
    first_seen: Timestamp,
) -> EvictionVerdict {
    let mut until: Option<Timestamp> = None;
    for taint in taints.iter().filter(|taint| taint.effect == "NoExecute") {
        let value = json!(taint);
        let matching = tolerations
            .iter()
            .find(|toleration| tolerates(&[json!(toleration)], &value));
        let Some(toleration) = matching else {
            return EvictionVerdict::Until(Timestamp::MIN);
        };
        let Some(seconds) = toleration.toleration_seconds else {
            continue;
        };
        let came = taint.time_added.as_ref().map_or(first_seen, |time| time.0);
        let end = came
            .max(arrived)
            .checked_add(SignedDuration::from_secs(seconds.max(0)))
            .unwrap_or(Timestamp::MAX);
        until = Some(until.map_or(end, |until| until.min(end)));
    }
    until.map_or(EvictionVerdict::Stay, EvictionVerdict::Until)
}

#[cfg(test)]
mod tests;
