//! The status a healthy kubelet reports for its node.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, NodeCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use crate::model::complete;

const HEALTHY: [(&str, &str, &str, &str); 4] = [
    (
        "MemoryPressure",
        "False",
        "KubeletHasSufficientMemory",
        "kubelet has sufficient memory available",
    ),
    (
        "DiskPressure",
        "False",
        "KubeletHasNoDiskPressure",
        "kubelet has no disk pressure",
    ),
    (
        "PIDPressure",
        "False",
        "KubeletHasSufficientPID",
        "kubelet has sufficient PID available",
    ),
    (
        "Ready",
        "True",
        "KubeletReady",
        "kubelet is posting ready status",
    ),
];

/// The conditions of a healthy node; unchanged conditions keep their transition time.
pub(super) fn conditions(node: &Node, now: Timestamp) -> Vec<NodeCondition> {
    HEALTHY
        .iter()
        .map(|(kind, status, reason, message)| {
            let since = find(node, kind)
                .filter(|old| old.status == *status)
                .and_then(|old| old.last_transition_time.clone());
            NodeCondition {
                type_: (*kind).to_owned(),
                status: (*status).to_owned(),
                reason: Some((*reason).to_owned()),
                message: Some((*message).to_owned()),
                last_heartbeat_time: Some(Time(now)),
                last_transition_time: Some(since.unwrap_or(Time(now))),
            }
        })
        .collect()
}

/// The status patch to write, if any: the status is incomplete, differs from that of a healthy
/// node, or its report is due.
pub(super) fn refreshed(node: &Node, now: Timestamp, every: Duration) -> Option<Value> {
    let mut whole = node.clone();
    complete(&mut whole);
    let status = whole.status.unwrap_or_default();
    let old = node.status.clone().unwrap_or_default();
    let addressless = old.addresses.as_ref().is_none_or(Vec::is_empty);
    let complete = old.capacity == status.capacity
        && old.allocatable == status.allocatable
        && old.node_info == status.node_info
        && !addressless;
    let healthy = HEALTHY.iter().all(|(kind, wanted, _, _)| {
        find(node, kind).is_some_and(|condition| condition.status == *wanted)
    });
    let reported = find(node, "Ready").and_then(|ready| ready.last_heartbeat_time.as_ref());
    let recent = reported.is_some_and(|at| now.duration_since(at.0).unsigned_abs() < every);
    if complete && healthy && recent {
        return None;
    }
    let mut wanted = json!({ "conditions": conditions(node, now) });
    if !complete {
        let mut placed = node.clone();
        // The pod range is assigned before; its number determines the address of the node.
        let number = super::address::number_of(node).unwrap_or_default();
        super::address::place(&mut placed, number);
        let placed = placed.status.unwrap_or_default();
        wanted["addresses"] = json!(placed.addresses);
        wanted["capacity"] = json!(status.capacity);
        wanted["allocatable"] = json!(status.allocatable);
        wanted["nodeInfo"] = json!(status.node_info);
        wanted["runtimeHandlers"] = json!(status.runtime_handlers);
        wanted["images"] = json!(status.images);
        wanted["daemonEndpoints"] = json!(status.daemon_endpoints);
    }
    Some(wanted)
}

fn find<'a>(node: &'a Node, kind: &str) -> Option<&'a NodeCondition> {
    let conditions = node.status.as_ref()?.conditions.as_deref()?;
    conditions.iter().find(|condition| condition.type_ == kind)
}
