//! Whom a pod may displace: pods of lower priority, as few and as unimportant as possible.
//!
//! Disruption budgets are not asked: kube-scheduler prefers victims that violate none, but does not
//! promise it either.

use std::sync::Arc;

use super::cluster::Cluster;
use super::filter::Prepared;
use super::pod::PodInfo;
use super::reason::Reason;

/// Nodes that are tried (upstream's smallest number).
const AT_MOST: usize = 100;

/// A node, and who has to leave it.
#[derive(Debug)]
pub(crate) struct Displacement {
    pub(crate) node: String,
    pub(crate) victims: Vec<Arc<PodInfo>>,
}

/// The node where a pod displaces the least, if there is one where that helps. The cluster is as it
/// was afterwards.
pub(crate) fn displace(cluster: &mut Cluster, pod: &PodInfo) -> Option<Displacement> {
    if !pod.preempts {
        return None;
    }
    let candidates = candidates(cluster, pod);
    let mut best: Option<Displacement> = None;
    for node in candidates {
        if let Some(victims) = victims(cluster, pod, &node)
            && best
                .as_ref()
                .is_none_or(|best| cost(&victims) < cost(&best.victims))
        {
            best = Some(Displacement { node, victims });
        }
    }
    best
}

/// Nodes that would do if others left, and have others of lower priority.
fn candidates(cluster: &Cluster, pod: &PodInfo) -> Vec<String> {
    let Ok(prepared) = Prepared::new(cluster, pod) else {
        return Vec::new();
    };
    cluster
        .nodes_from(cluster.next_start)
        .filter(|node| {
            node.pods
                .values()
                .any(|other| other.priority < pod.priority)
        })
        .filter(|node| match prepared.check(node) {
            Ok(_) => false,
            Err(reasons) => reasons.iter().all(Reason::others_could_leave),
        })
        .take(AT_MOST)
        .map(|node| node.name.clone())
        .collect()
}

/// Who has to leave a node: of all pods of lower priority those that cannot stay, the most important
/// ones being kept first.
fn victims(cluster: &mut Cluster, pod: &PodInfo, node: &str) -> Option<Vec<Arc<PodInfo>>> {
    let mut lower: Vec<Arc<PodInfo>> = cluster
        .node(node)?
        .pods
        .values()
        .filter(|other| other.priority < pod.priority)
        .cloned()
        .collect();
    // Who is leaving anyway is not kept; of equals, the order is always the same.
    lower.sort_by(|one, other| {
        let order = |pod: &PodInfo| (pod.leaving, -i64::from(pod.priority));
        (order(one), &one.uid).cmp(&(order(other), &other.uid))
    });
    for other in &lower {
        cluster.remove(&other.uid);
    }
    let mut leave = Vec::new();
    let helps = fits(cluster, pod, node);
    if helps {
        for other in &lower {
            cluster.place(other, node);
            if !fits(cluster, pod, node) {
                cluster.remove(&other.uid);
                leave.push(Arc::clone(other));
            }
        }
    }
    for other in &lower {
        cluster.place(other, node);
    }
    helps.then_some(leave)
}

/// Whether a pod could be on a node as things are. Volumes that would have to come first are not
/// worth displacing anybody.
fn fits(cluster: &Cluster, pod: &PodInfo, node: &str) -> bool {
    let prepared = Prepared::new(cluster, pod).ok();
    let node = cluster.node(node);
    prepared.zip(node).is_some_and(|(prepared, node)| {
        prepared
            .check(node)
            .is_ok_and(|supplies| supplies.is_empty())
    })
}

/// How bad it is that these leave: the most important, all together, how many.
fn cost(victims: &[Arc<PodInfo>]) -> (i64, i64, usize) {
    let staying: Vec<i64> = victims
        .iter()
        .filter(|pod| !pod.leaving)
        .map(|pod| i64::from(pod.priority))
        .collect();
    let most = staying.iter().copied().max().unwrap_or(i64::MIN);
    // Negative priorities must not make many victims look better than few.
    let sum = staying
        .iter()
        .map(|priority| priority - i64::from(i32::MIN))
        .sum();
    (most, sum, staying.len())
}
