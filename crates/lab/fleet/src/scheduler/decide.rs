//! Where a pod goes.

use std::collections::BTreeMap;

use super::cluster::Cluster;
use super::filter::Prepared;
use super::pod::PodInfo;
use super::reason::{Reason, Unfit};
use super::score::Scorer;
use super::volumes::Supply;

/// Nodes that are always looked for, however many there are (upstream's number).
const AT_LEAST: usize = 100;
/// Nodes that are enough to choose from: comparing more costs more than it gains.
const AT_MOST: usize = 250;

/// Where a pod goes, and where its volumes come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Placement {
    pub(crate) node: String,
    pub(crate) supplies: Vec<Supply>,
}

/// Chooses a node for a pod.
pub(crate) fn decide(cluster: &mut Cluster, pod: &PodInfo) -> Result<Placement, Unfit> {
    let (found, next) = choose(cluster, pod)?;
    cluster.next_start = next;
    Ok(found)
}

fn choose(cluster: &Cluster, pod: &PodInfo) -> Result<(Placement, usize), Unfit> {
    let nodes = cluster.len();
    if nodes == 0 {
        return Err(Unfit::NoNodes);
    }
    let prepared = Prepared::new(cluster, pod).map_err(|why| Unfit::Pod { nodes, why })?;
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
        // All others would say the same: they are not named.
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
        return Err(Unfit::Nodes {
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

/// How many nodes that will do are enough to choose from: the share upstream takes, which shrinks as
/// clusters grow.
fn enough(nodes: usize) -> usize {
    if nodes < AT_LEAST {
        return nodes;
    }
    let percent = 50_usize.saturating_sub(nodes / 125).max(5);
    (nodes * percent / 100).clamp(AT_LEAST, AT_MOST)
}
