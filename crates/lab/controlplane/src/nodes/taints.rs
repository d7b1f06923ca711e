//! The taints of a node, derived from its conditions.

use k8s_openapi::api::core::v1::{Node, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

pub(super) const NOT_READY: &str = "node.kubernetes.io/not-ready";
pub(super) const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
const MEMORY_PRESSURE: &str = "node.kubernetes.io/memory-pressure";
const NETWORK_UNAVAILABLE: &str = "node.kubernetes.io/network-unavailable";

/// Condition type, status and the resulting taint.
const OF_CONDITIONS: [(&str, &str, &str); 6] = [
    ("Ready", "False", NOT_READY),
    ("Ready", "Unknown", UNREACHABLE),
    ("MemoryPressure", "True", MEMORY_PRESSURE),
    ("DiskPressure", "True", "node.kubernetes.io/disk-pressure"),
    ("NetworkUnavailable", "True", NETWORK_UNAVAILABLE),
    ("PIDPressure", "True", "node.kubernetes.io/pid-pressure"),
];

/// State of the `NoExecute` taints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expulsion {
    /// They are left as they are.
    Leave,
    /// They are removed.
    None,
    /// This one is set.
    Taint(&'static str),
}

/// The `NoExecute` taint of a node that is not ready.
pub(super) fn expulsion_for(readiness: &str) -> Option<&'static str> {
    match readiness {
        "False" => Some(NOT_READY),
        "Unknown" => Some(UNREACHABLE),
        _ => None,
    }
}

/// Whether a node has a `NoExecute` taint for not being ready.
pub(super) fn expels(node: &Node) -> bool {
    super::taints(node).iter().any(is_expelling)
}

fn is_expelling(taint: &Taint) -> bool {
    taint.effect == "NoExecute" && matches!(taint.key.as_str(), NOT_READY | UNREACHABLE)
}

/// The desired taints of a node, or `None` if it has them. Other taints are kept.
pub(super) fn wanted(node: &Node, expulsion: Expulsion, now: &Time) -> Option<Vec<Taint>> {
    let mut wanted: Vec<(&str, &str)> = Vec::new();
    for (type_, status, key) in OF_CONDITIONS {
        if super::condition(node, type_).is_some_and(|condition| condition.status == status) {
            wanted.push((key, "NoSchedule"));
        }
    }
    if node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true) {
        wanted.push((UNSCHEDULABLE, "NoSchedule"));
    }
    if let Expulsion::Taint(key) = expulsion {
        wanted.push((key, "NoExecute"));
    }
    let is_ours = |taint: &Taint| {
        if taint.effect == "NoSchedule" {
            taint.key == UNSCHEDULABLE || OF_CONDITIONS.iter().any(|(_, _, key)| *key == taint.key)
        } else {
            expulsion != Expulsion::Leave && is_expelling(taint)
        }
    };
    let had = super::taints(node);
    let has = |key: &str, effect: &str| had.iter().any(|it| it.key == key && it.effect == effect);
    let mut result: Vec<Taint> = had
        .iter()
        .filter(|taint| {
            !is_ours(taint) || wanted.contains(&(taint.key.as_str(), taint.effect.as_str()))
        })
        .cloned()
        .collect();
    let kept = result.len();
    for (key, effect) in wanted {
        if !has(key, effect) {
            result.push(Taint {
                key: key.to_owned(),
                effect: effect.to_owned(),
                time_added: Some(now.clone()),
                value: None,
            });
        }
    }
    (kept != had.len() || result.len() != kept).then_some(result)
}

#[cfg(test)]
mod tests;
