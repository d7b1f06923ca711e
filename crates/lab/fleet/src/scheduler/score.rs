//! Scoring of feasible nodes, with upstream's weights.

use std::collections::HashMap;

use super::cluster::{Cluster, NodeInfo};
use super::filter::{Domains, disliked_taints, domains, meant_by};
use super::pod::{PodInfo, Term};

const FULL: i64 = 100;

/// State computed once per pod, before nodes are scored.
pub(crate) struct Scorer<'a> {
    pod: &'a PodInfo,
    siblings: Option<&'a HashMap<String, i64>>,
    wishes: Vec<(i64, &'a Term, HashMap<&'a str, i64>)>,
    spread: Vec<Domains<'a>>,
}

impl<'a> Scorer<'a> {
    pub(crate) fn new(cluster: &'a Cluster, pod: &'a PodInfo) -> Self {
        Self {
            pod,
            siblings: cluster.of_owner(pod.owner.as_deref()),
            wishes: pod
                .wishes
                .iter()
                .map(|(weight, term)| (*weight, term, meant_by(cluster, term)))
                .collect(),
            spread: pod
                .spread
                .iter()
                .filter(|constraint| !constraint.required)
                .map(|constraint| domains(cluster, pod, constraint))
                .collect(),
        }
    }

    /// Index of the best node; among equals the first.
    pub(crate) fn best(&self, nodes: &[&'a NodeInfo]) -> Option<usize> {
        let mut totals = vec![0_i64; nodes.len()];
        let mut add = |weight: i64, scores: Vec<i64>| {
            for (total, score) in totals.iter_mut().zip(scores) {
                *total += weight * score;
            }
        };
        let each = |score: &dyn Fn(&NodeInfo) -> i64| -> Vec<i64> {
            nodes.iter().map(|node| score(node)).collect()
        };
        add(1, each(&|node| least_allocated(self.pod, node)));
        add(1, each(&|node| balanced(self.pod, node)));
        if nodes.iter().any(|node| !node.taints.is_empty()) {
            let taints = each(&|node| disliked_taints(self.pod, node));
            add(3, fewest_best(&taints));
        }
        if let Some(preferred) = &self.pod.preferred {
            add(2, most_best(&each(&|node| preferred.score(&node.view))));
        }
        if !self.wishes.is_empty() {
            add(2, most_best(&each(&|node| self.wished(node))));
        }
        if !self.spread.is_empty() {
            add(2, fewest_best(&each(&|node| self.crowd(node))));
        } else if let Some(siblings) = self.siblings {
            let here = |node: &NodeInfo| siblings.get(&node.name).copied().unwrap_or_default();
            add(2, fewest_best(&each(&here)));
        }
        let mut best: Option<(usize, i64)> = None;
        for (index, total) in totals.into_iter().enumerate() {
            if best.is_none_or(|(_, most)| total > most) {
                best = Some((index, total));
            }
        }
        best.map(|(index, _)| index)
    }

    /// Weight of the preferred pod (anti-)affinity terms that a node satisfies.
    fn wished(&self, node: &NodeInfo) -> i64 {
        self.wishes
            .iter()
            .filter_map(|(weight, term, counts)| {
                let value = node.labels.get(&term.topology)?;
                Some(weight * counts.get(value.as_str()).copied().unwrap_or_default())
            })
            .sum()
    }

    /// Number of matching pods in the domains of soft spread constraints.
    fn crowd(&self, node: &NodeInfo) -> i64 {
        self.spread
            .iter()
            .map(|domains| {
                let value = node.labels.get(&domains.constraint.topology);
                let most = domains.counts.values().copied().max().unwrap_or_default() + 1;
                value.map_or(most, |value| {
                    domains.counts.get(value.as_str()).copied().unwrap_or(most)
                })
            })
            .sum()
    }
}

fn share(free: i64, all: i64) -> i64 {
    if all <= 0 {
        return 0;
    }
    free.max(0).saturating_mul(FULL) / all
}

/// The share of a node that would be left.
fn least_allocated(pod: &PodInfo, node: &NodeInfo) -> i64 {
    let cpu = share(node.has.cpu - node.usual.0 - pod.usual.0, node.has.cpu);
    let memory = share(
        node.has.memory - node.usual.1 - pod.usual.1,
        node.has.memory,
    );
    i64::midpoint(cpu, memory)
}

/// How balanced cpu and memory usage of a node would be.
fn balanced(pod: &PodInfo, node: &NodeInfo) -> i64 {
    let cpu = share(node.used.cpu + pod.requests.cpu, node.has.cpu).min(FULL);
    let memory = share(node.used.memory + pod.requests.memory, node.has.memory).min(FULL);
    // Half the difference is the standard deviation of two numbers.
    FULL - (cpu - memory).abs() / 2
}

/// Normalizes to 0 to 100, the highest for the largest value.
fn most_best(values: &[i64]) -> Vec<i64> {
    let (low, high) = bounds(values);
    let scale = |value: &i64| share(value - low, high - low);
    values.iter().map(scale).collect()
}

/// Normalizes to 0 to 100, the highest for the smallest value.
fn fewest_best(values: &[i64]) -> Vec<i64> {
    let (low, high) = bounds(values);
    let scale = |value: &i64| {
        if high == low {
            FULL
        } else {
            share(high - value, high - low)
        }
    };
    values.iter().map(scale).collect()
}

fn bounds(values: &[i64]) -> (i64, i64) {
    let low = values.iter().copied().min().unwrap_or_default();
    let high = values.iter().copied().max().unwrap_or_default();
    (low, high)
}
