//! What the conditions of a node become when it falls silent.

use k8s_openapi::api::core::v1::{Node, NodeCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// What a kubelet reports; other conditions are left to who reports them.
const REPORTED: [&str; 4] = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];

/// The conditions of a node that has been silent for too long, unless they say so already.
pub(super) fn silenced(node: &Node, now: &Time) -> Option<Vec<NodeCondition>> {
    let had = node
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_deref());
    let mut conditions = had.unwrap_or_default().to_vec();
    let mut changed = false;
    for type_ in REPORTED {
        match conditions
            .iter_mut()
            .find(|condition| condition.type_ == type_)
        {
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
