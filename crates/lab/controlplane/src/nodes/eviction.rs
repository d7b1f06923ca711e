//! How long a pod may stay on a node whose taints drive pods away.

use k8s_openapi::api::core::v1::{Taint, Toleration};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use machinery::node_affinity::tolerates;
use serde_json::{Value, json};

/// What becomes of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It may stay for as long as nothing changes.
    Stay,
    /// It goes at this time.
    Until(Timestamp),
}

/// Decides over a pod that has been on its node since `arrived`, as far as is known. Times count from
/// when a taint came, or the pod if it came later; upstream counts from when its own process saw
/// both, which a restart would begin anew.
pub(super) fn verdict(
    taints: &[Taint],
    tolerations: &[Toleration],
    arrived: Timestamp,
    first_seen: Timestamp,
) -> Verdict {
    let driving: Vec<_> = taints
        .iter()
        .filter(|taint| taint.effect == "NoExecute")
        .collect();
    let mut until: Option<Timestamp> = None;
    for taint in driving {
        let value = json!(taint);
        let matching = tolerations
            .iter()
            .find(|toleration| tolerates(std::slice::from_ref(&as_value(toleration)), &value));
        let Some(toleration) = matching else {
            return Verdict::Until(Timestamp::MIN);
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
    until.map_or(Verdict::Stay, Verdict::Until)
}

fn as_value(toleration: &Toleration) -> Value {
    json!(toleration)
}

#[cfg(test)]
mod tests;
