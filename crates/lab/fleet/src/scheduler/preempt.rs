//! Preemption: victims are pods of lower priority, as few and as unimportant as possible.
//!
//! Disruption budgets are ignored: kube-scheduler prefers victims that violate none, but does not
//! guarantee it either.

use std::sync::Arc;

use super::cluster::Cluster;
use super::filter::Prepared;
use super::pod::PodInfo;
use super::reason::Reason;

/// Number of candidate nodes (upstream's minimum).
const MAX_CANDIDATES: usize = 100;

/// A node and its victims.
#[derive(Debug)]
pub(crate) struct Preemption {
    pub(crate) node: String,
    pub(crate) victims: Vec<Arc<PodInfo>>,
}

/// The node with the least costly victims, if preemption helps anywhere. The cluster is unchanged
/// afterwards.
pub(crate) fn preempt_pods(cluster: &mut Cluster, pod: &PodInfo) -> Option<Preemption> {
    if !pod.preempts {
        return None;
    }
    let candidates = candidates(cluster, pod);
    let mut best: Option<Preemption> = None;
    for node in candidates {
        if let Some(victims) = victims(cluster, pod, &node)
            && best
                .as_ref()
                .is_none_or(|best| cost(&victims) < cost(&best.victims))
        {
            best = Some(Preemption { node, victims });
        }
    }
    best
}

/// Nodes that would be feasible without some pods, and have pods of lower priority.
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
        .take(MAX_CANDIDATES)
        .map(|node| node.name.clone())
        .collect()
}

/// The victims on a node: of all pods of lower priority those that cannot stay, keeping the most
/// important ones first.
fn victims(cluster: &mut Cluster, pod: &PodInfo, node: &str) -> Option<Vec<Arc<PodInfo>>> {
    let mut lower: Vec<Arc<PodInfo>> = cluster
        .node(node)?
        .pods
        .values()
        .filter(|other| other.priority < pod.priority)
        .cloned()
        .collect();
    // Pods that are being deleted are not kept; ties are broken deterministically.
    lower.sort_by(|one, other| {
        let order = |pod: &PodInfo| (pod.leaving, -i64::from(pod.priority));
        (order(one), &one.uid).cmp(&(order(other), &other.uid))
    });
    // All are removed first, then put back one by one from the most important: the result keeps as
    // many important pods as fit, without trying every subset.
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

/// Whether a pod fits a node now. Volumes that are not provisioned yet do not justify preemption.
fn fits(cluster: &Cluster, pod: &PodInfo, node: &str) -> bool {
    let prepared = Prepared::new(cluster, pod).ok();
    let node = cluster.node(node);
    prepared.zip(node).is_some_and(|(prepared, node)| {
        prepared
            .check(node)
            .is_ok_and(|supplies| supplies.is_empty())
    })
}

/// The cost of victims: highest priority, sum of priorities, number.
fn cost(victims: &[Arc<PodInfo>]) -> (i64, i64, usize) {
    let staying: Vec<i64> = victims
        .iter()
        .filter(|pod| !pod.leaving)
        .map(|pod| i64::from(pod.priority))
        .collect();
    let most = staying.iter().copied().max().unwrap_or(i64::MIN);
    // Priorities are shifted, because with negative ones many victims would cost less than few.
    let sum = staying
        .iter()
        .map(|priority| priority - i64::from(i32::MIN))
        .sum();
    (most, sum, staying.len())
}
