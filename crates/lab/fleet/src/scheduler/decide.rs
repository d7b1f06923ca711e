//! Selection of a node for a pod.

use std::collections::BTreeMap;

use super::cluster::Cluster;
use super::filter::Prepared;
use super::pod::PodInfo;
use super::reason::{Reason, UnschedulableReason};
use super::score::Scorer;
use super::volumes::Supply;

/// Minimum number of feasible nodes to find (upstream's `minFeasibleNodesToFind`).
const MIN_FEASIBLE_NODES: usize = 100;
/// Maximum number of feasible nodes to score: more cost more than they gain.
const MAX_FEASIBLE_NODES: usize = 250;

/// The node of a pod, and the source of its volumes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Placement {
    pub(crate) node: String,
    pub(crate) supplies: Vec<Supply>,
}

/// Selects a node for a pod.
pub(crate) fn decide(
    cluster: &mut Cluster,
    pod: &PodInfo,
) -> Result<Placement, UnschedulableReason> {
    let (found, next) = choose(cluster, pod)?;
    cluster.next_start = next;
    Ok(found)
}

fn choose(cluster: &Cluster, pod: &PodInfo) -> Result<(Placement, usize), UnschedulableReason> {
    let nodes = cluster.len();
    if nodes == 0 {
        return Err(UnschedulableReason::NoNodes);
    }
    let prepared =
        Prepared::new(cluster, pod).map_err(|why| UnschedulableReason::Pod { nodes, why })?;
    let enough = enough(nodes);
    let mut feasible = Vec::new();
    let mut supplies = Vec::new();
    let mut reasons: BTreeMap<Reason, usize> = BTreeMap::new();
    let mut hopeless = 0;
    let mut last = cluster.next_start;
    let mut look = |node| {
        match prepared.check(node) {
            Ok(supply) => {
                feasible.push(node);
                supplies.push(supply);
            }
            Err(found) => {
                if !found.iter().all(Reason::others_could_leave) {
                    hopeless += 1;
                }
                for reason in found {
                    *reasons.entry(reason).or_default() += 1;
                }
            }
        }
        feasible.len() >= enough
    };
    if let Some(named) = &pod.named {
        // The remaining nodes have the same reason and are not listed.
        let mut looked = 0;
        for node in named.iter().filter_map(|name| cluster.node(name)) {
            looked += 1;
            look(node);
        }
        if nodes > looked {
            hopeless += nodes - looked;
            reasons.insert(Reason::NotNamed, nodes - looked);
        }
    } else {
        for node in cluster.nodes_from(cluster.next_start) {
            // The next search starts behind the last node examined, as kube-scheduler's
            // `nextStartNodeIndex`: otherwise the first hundred nodes of a large cluster would get
            // all pods.
            last = node.slot + 1;
            if look(node) {
                break;
            }
        }
    }
    let best = match feasible.len() {
        0 | 1 => (!feasible.is_empty()).then_some(0),
        _ => Scorer::new(cluster, pod).best(&feasible),
    };
    let Some(best) = best else {
        return Err(UnschedulableReason::Nodes {
            nodes,
            reasons,
            hopeless,
        });
    };
    let placement = Placement {
        node: feasible
            .get(best)
            .map(|node| node.name.clone())
            .unwrap_or_default(),
        supplies: supplies.into_iter().nth(best).unwrap_or_default(),
    };
    Ok((placement, last % cluster.slot_count().max(1)))
}

/// Number of feasible nodes to find: upstream's percentage, which shrinks as clusters grow.
fn enough(nodes: usize) -> usize {
    if nodes < MIN_FEASIBLE_NODES {
        return nodes;
    }
    let percent = 50_usize.saturating_sub(nodes / 125).max(5);
    (nodes * percent / 100).clamp(MIN_FEASIBLE_NODES, MAX_FEASIBLE_NODES)
}
