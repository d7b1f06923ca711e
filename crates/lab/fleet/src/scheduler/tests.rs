mod laws;
mod tables;

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};
use serde_json::{Value, json};

use super::cluster::Cluster;
use super::decide::{Placement, decide};
use super::pod::PodInfo;
use super::reason::UnschedulableReason;

/// A node with labels; `more` is merged into it.
pub(super) fn node(name: &str, labels: &Value, more: &Value) -> Node {
    let mut node = json!({
        "metadata": { "name": name, "labels": { "kubernetes.io/hostname": name } },
        "status": { "allocatable": { "cpu": "4", "memory": "8Gi", "pods": "10" } },
    });
    extend(&mut node["metadata"]["labels"], labels);
    for part in ["spec", "status"] {
        if let Some(value) = more.get(part) {
            node[part] = value.clone();
        }
    }
    serde_json::from_value(node).expect("a node")
}

fn extend(whole: &mut Value, more: &Value) {
    if let (Some(whole), Some(more)) = (whole.as_object_mut(), more.as_object()) {
        whole.extend(more.clone());
    }
}

/// A pod whose name is also its UID.
pub(super) fn pod(name: &str, labels: &Value, spec: &Value) -> Arc<PodInfo> {
    let mut pod = json!({
        "metadata": { "name": name, "namespace": "ns", "uid": name, "labels": labels },
        "spec": { "containers": [{ "name": "c" }] },
    });
    extend(&mut pod["spec"], spec);
    let pod: Pod = serde_json::from_value(pod).expect("a pod");
    Arc::new(PodInfo::new(&pod))
}

/// A container with requests of cpu and memory.
pub(super) fn asking(cpu: &str, memory: &str) -> Value {
    json!({ "containers": [
        { "name": "c", "resources": { "requests": { "cpu": cpu, "memory": memory } } },
    ]})
}

pub(super) fn cluster(nodes: &[Node]) -> Cluster {
    let mut cluster = Cluster::default();
    for node in nodes {
        cluster.set_node(node);
    }
    cluster
}

/// Decides for a pod and assigns it.
pub(super) fn put(
    cluster: &mut Cluster,
    pod: &Arc<PodInfo>,
) -> Result<Placement, UnschedulableReason> {
    let placement = decide(cluster, pod)?;
    cluster.place(pod, &placement.node);
    Ok(placement)
}
