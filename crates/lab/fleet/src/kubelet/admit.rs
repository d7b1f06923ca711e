//! Kubelet admission: rejects pods that were bound to a node where they do not fit, as happens when
//! a client sets `spec.nodeName` and bypasses the scheduler.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};

use crate::names::OS;
use crate::scheduler::cluster::NodeInfo;
use crate::scheduler::filter;
use crate::scheduler::is_over;
use crate::scheduler::pod::PodInfo;
use crate::scheduler::reason::Reason;

/// Reason for a kubelet's rejection of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rejection {
    pub(crate) reason: String,
    pub(crate) message: String,
}

/// Returns why the node rejects a pod, or `None`; `others` are the pods it already admitted.
pub(crate) fn rejection(pod: &Pod, node: &Node, others: &[Arc<Pod>]) -> Option<Rejection> {
    let reject = |reason: &str, message: &str| {
        Some(Rejection {
            reason: reason.to_owned(),
            message: message.to_owned(),
        })
    };
    let spec = pod.spec.as_ref()?;
    let labels = node.metadata.labels.as_ref();
    let system = labels.and_then(|labels| labels.get(OS));
    let asked = spec.node_selector.as_ref().and_then(|all| all.get(OS));
    if asked.is_some() && asked != system {
        return reject(
            "PodOSSelectorNodeLabelDoesNotMatch",
            "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label",
        );
    }
    let asked = spec.os.as_ref().map(|os| &os.name);
    if asked.is_some() && asked != system {
        return reject(
            "PodOSNotSupported",
            "Failed to admit pod as the OS field doesn't match node OS",
        );
    }
    let mut info = NodeInfo::new(node);
    // Two pods bound to one node at once must not reject each other: the older one is admitted.
    for other in others.iter().filter(|other| comes_before(other, pod)) {
        info.add(&Arc::new(PodInfo::new(other)));
    }
    let wanted = PodInfo::new(pod);
    if let Some(reason) = filter::lacks(&wanted, &info).into_iter().next() {
        return Some(out_of(&reason, &wanted, &info));
    }
    if !filter::affinity_matches(&wanted, &info) {
        return reject(
            "NodeAffinity",
            "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector",
        );
    }
    let conflict = |port| info.ports.iter().any(|(_, used)| used.conflicts(port));
    if wanted.ports.iter().any(conflict) {
        return reject(
            "NodePorts",
            "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports",
        );
    }
    None
}

/// Whether the node admitted `other` before `pod`: it has started, or was created first.
fn comes_before(other: &Pod, pod: &Pod) -> bool {
    if other.metadata.uid == pod.metadata.uid || is_over(other) {
        return false;
    }
    let taken = other
        .status
        .as_ref()
        .is_some_and(|status| status.start_time.is_some());
    let came = |pod: &Pod| {
        let meta = &pod.metadata;
        (meta.creation_timestamp.clone(), meta.uid.clone())
    };
    taken || came(other) < came(pod)
}

fn out_of(reason: &Reason, pod: &PodInfo, node: &NodeInfo) -> Rejection {
    let (name, wanted, used, has) = if let Reason::Insufficient { resource, .. } = reason {
        (
            resource.as_str(),
            pod.requests.amount(resource),
            node.used.amount(resource),
            node.has.amount(resource),
        )
    } else {
        let pods = i64::try_from(node.pods.len()).unwrap_or(i64::MAX);
        ("pods", 1, pods, node.has.pods)
    };
    Rejection {
        reason: format!("OutOf{name}"),
        message: format!(
            "Node didn't have enough resource: {name}, requested: {wanted}, used: {used}, capacity: {has}"
        ),
    }
}
