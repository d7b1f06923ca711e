//! Conditions of an unresponsive node.

use k8s_openapi::api::core::v1::{Node, NodeCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// Conditions the kubelet reports; others are left to their reporters.
const KUBELET_CONDITIONS: [&str; 4] = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];

/// The conditions of an unresponsive node, or `None` if they are set already.
pub(super) fn unknown_conditions(node: &Node, now: &Time) -> Option<Vec<NodeCondition>> {
    let status = node.status.as_ref();
    let had = status.and_then(|status| status.conditions.clone());
    let mut conditions = had.unwrap_or_default();
    let mut changed = false;
    for type_ in KUBELET_CONDITIONS {
        match conditions.iter_mut().find(|it| it.type_ == type_) {
            None => {
                changed = true;
                conditions.push(NodeCondition {
                    type_: type_.to_owned(),
                    status: "Unknown".to_owned(),
                    reason: Some("NodeStatusNeverUpdated".to_owned()),
                    message: Some("Kubelet never posted node status.".to_owned()),
                    last_heartbeat_time: node.metadata.creation_timestamp.clone(),
                    last_transition_time: Some(now.clone()),
                });
            }
            Some(condition) if condition.status != "Unknown" => {
                changed = true;
                "Unknown".clone_into(&mut condition.status);
                condition.reason = Some("NodeStatusUnknown".to_owned());
                condition.message = Some("Kubelet stopped posting node status.".to_owned());
                condition.last_transition_time = Some(now.clone());
            }
            Some(_) => {}
        }
    }
    changed.then_some(conditions)
}

#[cfg(test)]
mod tests;
