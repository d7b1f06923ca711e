//! The large cluster: its nodes and images.

use api::ssp::ARCHITECTURES;
use serde_json::{Value, json};

/// Architectures of nodes and images.
pub(super) const ARCHITECTURE: [&str; 3] = ["amd64", "arm64", "s390x"];

/// A node; the first three are the control plane.
pub(super) fn node(number: usize) -> Value {
    let role = if number < 3 {
        "control-plane"
    } else {
        "worker"
    };
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": format!("node-{number}"), "labels": {
            format!("node-role.kubernetes.io/{role}"): "",
            "kubernetes.io/hostname": format!("node-{number}"),
        } },
        "status": { "nodeInfo": {
            "architecture": ARCHITECTURE.get(number % ARCHITECTURE.len()),
            "operatingSystem": "linux", "bootID": "", "machineID": "", "systemUUID": "",
            "kernelVersion": "", "osImage": "", "kubeletVersion": "",
            "containerRuntimeVersion": "", "kubeProxyVersion": "",
        } },
    })
}

/// An image for all architectures.
pub(super) fn template(number: usize) -> Value {
    let source = format!("image-{number}");
    json!({
        "metadata": {
            "name": format!("{source}-cron"),
            "annotations": { ARCHITECTURES: ARCHITECTURE.join(",") },
        },
        "spec": {
            "managedDataSource": source, "schedule": "0 */12 * * *",
            "importsToKeep": 1, "retentionPolicy": "None", "garbageCollect": "Outdated",
            "template": { "spec": {
                "source": { "registry": { "url": format!("docker://quay.io/disks/{source}:1") } },
                "storage": { "resources": { "requests": { "storage": "10Gi" } } },
            } },
        },
    })
}
