//! The order in which surplus pods are deleted.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

use crate::object::annotation;
use crate::pod::{is_active, is_ready, node_name, phase, ready_since};

const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// The `count` pods to delete first. `related` are pods of the same workload: of two pods, the one
/// that shares its node with more of them is deleted first.
///
/// The order is kube-controller-manager's: without a node, pending, not ready, low deletion cost,
/// crowded node, ready for less time, more restarts, younger. Times are compared by their order of
/// magnitude only, so that it is not always the youngest. Upstream then compares UIDs immediately,
/// which is no total order for more than two pods; here they are compared last.
pub(crate) fn first_to_go(
    mut pods: Vec<Arc<Pod>>,
    related: &[Arc<Pod>],
    count: usize,
    now: Timestamp,
) -> Vec<Arc<Pod>> {
    if count < pods.len() {
        let mut on_node: HashMap<&str, usize> = HashMap::new();
        for pod in related.iter().filter(|pod| is_active(pod)) {
            *on_node.entry(node(pod)).or_default() += 1;
        }
        pods.sort_by_cached_key(|pod| {
            let crowd = on_node.get(node(pod)).copied().unwrap_or_default();
            let ready = is_ready(pod);
            let (restarts, sidecar_restarts) = restarts(pod);
            let created = pod.metadata.creation_timestamp.as_ref().map(|at| at.0);
            (
                !node(pod).is_empty(),
                phase_order(pod),
                ready,
                deletion_cost(pod),
                Reverse(crowd),
                ready.then(|| magnitude(ready_since(pod), now)),
                (Reverse(restarts), Reverse(sidecar_restarts)),
                magnitude(created, now),
                pod.metadata.uid.clone(),
            )
        });
        pods.truncate(count);
    }
    pods
}

fn node(pod: &Pod) -> &str {
    node_name(pod).unwrap_or_default()
}

fn phase_order(pod: &Pod) -> u8 {
    match phase(pod) {
        "Pending" => 0,
        "Unknown" => 1,
        _ => 2,
    }
}

fn deletion_cost(pod: &Pod) -> i32 {
    annotation(&pod.metadata, DELETION_COST)
        // As upstream, which accepts neither a plus sign nor leading zeros.
        .filter(|cost| !cost.starts_with('+') && (!cost.starts_with('0') || cost.len() == 1))
        .and_then(|cost| cost.parse().ok())
        .unwrap_or_default()
}

/// The base-2 order of magnitude of an age; a missing or future time is the least.
fn magnitude(since: Option<Timestamp>, now: Timestamp) -> i64 {
    let Some(since) = since else { return -2 };
    let age = now.as_nanosecond() - since.as_nanosecond();
    u128::try_from(age)
        .ok()
        .and_then(u128::checked_ilog2)
        .map_or(-1, i64::from)
}

/// The maximum restarts of a container, and of a sidecar.
fn restarts(pod: &Pod) -> (i32, i32) {
    let Some(status) = &pod.status else {
        return (0, 0);
    };
    let containers = status.container_statuses.iter().flatten();
    let regular = containers.map(|container| container.restart_count).max();
    let is_sidecar = |name: &str| {
        let spec = pod.spec.iter();
        spec.flat_map(|spec| spec.init_containers.iter().flatten())
            .any(|container| {
                container.name == name && container.restart_policy.as_deref() == Some("Always")
            })
    };
    let sidecars = status.init_container_statuses.iter().flatten();
    let sidecars = sidecars
        .filter(|container| is_sidecar(&container.name))
        .map(|container| container.restart_count)
        .max();
    (regular.unwrap_or_default(), sidecars.unwrap_or_default())
}
