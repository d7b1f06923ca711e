//! What a Node reports about itself: the one rule that all jobs use.

#[cfg(test)]
mod tests;

use k8s_openapi::api::core::v1::{Node, NodeSystemInfo};

/// Node label: architecture, as GOARCH spells it.
pub const ARCHITECTURE: &str = "kubernetes.io/arch";
/// Node label: operating system, as GOOS spells it.
pub const OS: &str = "kubernetes.io/os";

/// The architecture of a node as GOARCH spells it: `status.nodeInfo.architecture`, else the label
/// `kubernetes.io/arch`.
///
/// The kubelet sets both. Users can edit the label and not `nodeInfo`; a node that was registered
/// by hand has only the label until its kubelet reports.
pub fn architecture(node: &Node) -> Option<&str> {
    reported(node, |info| &info.architecture, ARCHITECTURE)
}

/// The operating system of a node as GOOS spells it: `status.nodeInfo.operatingSystem`, else the
/// label `kubernetes.io/os`.
pub fn os(node: &Node) -> Option<&str> {
    reported(node, |info| &info.operating_system, OS)
}

/// Whether a node is cordoned (`spec.unschedulable`). It still counts as a node of the cluster:
/// each job decides whether it needs nodes that accept new pods.
pub fn is_cordoned(node: &Node) -> bool {
    let spec = node.spec.as_ref();
    spec.and_then(|spec| spec.unschedulable) == Some(true)
}

/// Whether the Ready condition is `True`; `None` if the kubelet has not reported it yet.
pub fn ready(node: &Node) -> Option<bool> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    let ready = conditions.iter().find(|it| it.type_ == "Ready")?;
    Some(ready.status == "True")
}

/// A label of a node.
pub fn label<'a>(node: &'a Node, key: &str) -> Option<&'a str> {
    let labels = node.metadata.labels.as_ref()?;
    labels.get(key).map(String::as_str)
}

fn reported<'a>(
    node: &'a Node,
    field: fn(&NodeSystemInfo) -> &String,
    key: &str,
) -> Option<&'a str> {
    let info = node.status.as_ref().and_then(|it| it.node_info.as_ref());
    info.map(|info| field(info).as_str())
        .filter(|value| !value.is_empty())
        .or_else(|| label(node, key).filter(|value| !value.is_empty()))
}
