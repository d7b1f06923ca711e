//! Feasibility of nodes. Filters run in upstream's order: the first that fails is the one reported.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use machinery::node_affinity::untolerated_taint;
use serde_json::json;

use super::cluster::{Cluster, NodeInfo};
use super::pod::{PodInfo, Spread, Term};
use super::reason::Reason;
use super::volumes::{Needs, Supply};

const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// State computed once per pod, before nodes are checked.
pub(crate) struct Prepared<'a> {
    cluster: &'a Cluster,
    pod: &'a PodInfo,
    needs: Needs,
    suitable: Option<Arc<Vec<bool>>>,
    /// For every affinity term, the number of matching pods per topology domain.
    together: Vec<(&'a Term, HashMap<&'a str, i64>)>,
    apart: Vec<(&'a Term, HashMap<&'a str, i64>)>,
    /// Topology domains excluded by the anti-affinity of other pods.
    forbidden: HashMap<&'a str, HashSet<&'a str>>,
    spread: Vec<Domains<'a>>,
    /// No pod matches the affinity term yet, and the pod matches it itself.
    first_of_its_kind: bool,
}

/// The topology domains of a constraint, and the number of matching pods in each.
pub(crate) struct Domains<'a> {
    pub(crate) constraint: &'a Spread,
    pub(crate) counts: HashMap<&'a str, i64>,
    least: i64,
    own: i64,
}

impl<'a> Prepared<'a> {
    /// Computes the state, or returns why the pod fits no node at all.
    pub(crate) fn new(cluster: &'a Cluster, pod: &'a PodInfo) -> Result<Self, String> {
        let needs = cluster
            .volumes
            .needs(pod, |name| cluster.node(name).is_some())?;
        let together: Vec<_> = pod
            .together
            .iter()
            .map(|term| (term, meant_by(cluster, term)))
            .collect();
        let apart = pod
            .apart
            .iter()
            .map(|term| (&**term, meant_by(cluster, term)))
            .collect();
        // Without this exception the first pod of a group with affinity to itself could never be
        // scheduled (`interpodaffinity/filtering.go`).
        let first_of_its_kind = together.iter().all(|(_, counts)| counts.is_empty())
            && pod
                .together
                .iter()
                .all(|term| term.means(pod, &cluster.namespaces));
        let mut forbidden: HashMap<&str, HashSet<&str>> = HashMap::new();
        for (term, nodes) in cluster.wanting_apart() {
            if term.means(pod, &cluster.namespaces) {
                let parts = nodes.filter_map(|node| topology(cluster, node, &term.topology));
                forbidden.entry(&term.topology).or_default().extend(parts);
            }
        }
        let spread = pod
            .spread
            .iter()
            .filter(|constraint| constraint.required)
            .map(|constraint| domains(cluster, pod, constraint))
            .collect();
        Ok(Self {
            cluster,
            pod,
            needs,
            suitable: cluster.suitable(pod),
            together,
            apart,
            forbidden,
            spread,
            first_of_its_kind,
        })
    }

    /// Whether the pod fits a node, and the source of its volumes; or all reasons of the first
    /// filter that fails.
    pub(crate) fn check(&self, node: &NodeInfo) -> Result<Vec<Supply>, Vec<Reason>> {
        let pod = self.pod;
        let one = |reason: Reason| Err(vec![reason]);
        if let Some(named) = &pod.named
            && !named.contains(&node.name)
        {
            return one(Reason::NotNamed);
        }
        if node.unschedulable && !tolerates_unschedulable(pod) {
            return one(Reason::Unschedulable);
        }
        if untolerated(pod, node) {
            return one(Reason::Taint);
        }
        if !is_suitable(self.suitable.as_ref(), node) {
            return one(Reason::NodeAffinity);
        }
        let wanted =
            |port: &super::pod::HostPort| node.ports.iter().any(|(_, used)| used.conflicts(port));
        if pod.ports.iter().any(wanted) {
            return one(Reason::Ports);
        }
        let short = lacks(pod, node);
        if !short.is_empty() {
            return Err(short);
        }
        let supplies = self
            .cluster
            .volumes
            .supply(&self.needs, node)
            .map_err(|reason| vec![reason])?;
        if let Some(reason) = self.spread_refuses(node) {
            return one(reason);
        }
        match self.neighbours_refuse(node) {
            Some(reason) => one(reason),
            None => Ok(supplies),
        }
    }

    fn spread_refuses(&self, node: &NodeInfo) -> Option<Reason> {
        self.spread.iter().find_map(|domains| {
            let constraint = domains.constraint;
            let Some(value) = node.labels.get(&constraint.topology) else {
                return Some(Reason::SpreadLabel);
            };
            let here = domains.counts.get(value.as_str()).copied();
            let skew = here.unwrap_or_default() + domains.own - domains.least;
            (skew > constraint.max_skew).then_some(Reason::Spread)
        })
    }

    fn neighbours_refuse(&self, node: &NodeInfo) -> Option<Reason> {
        let count = |term: &Term, counts: &HashMap<&str, i64>| {
            let value = node.labels.get(&term.topology)?;
            Some(counts.get(value.as_str()).copied().unwrap_or_default())
        };
        let near = self.together.iter().all(|(term, counts)| {
            count(term, counts).is_some_and(|count| count > 0 || self.first_of_its_kind)
        });
        if !near {
            return Some(Reason::Together);
        }
        let crowded = |(term, counts): &(&Term, HashMap<&str, i64>)| {
            count(term, counts).is_some_and(|count| count > 0)
        };
        if self.apart.iter().any(crowded) {
            return Some(Reason::Apart);
        }
        let refused = self.forbidden.iter().any(|(topology, values)| {
            let value = node.labels.get(*topology);
            value.is_some_and(|value| values.contains(value.as_str()))
        });
        refused.then_some(Reason::OthersApart)
    }
}

fn tolerates_unschedulable(pod: &PodInfo) -> bool {
    let taint = json!({ "key": UNSCHEDULABLE, "effect": "NoSchedule" });
    machinery::node_affinity::tolerates(&pod.tolerations, &taint)
}

pub(crate) fn untolerated(pod: &PodInfo, node: &NodeInfo) -> bool {
    let effects = ["NoSchedule", "NoExecute"];
    untolerated_taint(&node.taints, &pod.tolerations, &effects).is_some()
}

/// Number of `PreferNoSchedule` taints that the pod does not tolerate.
pub(crate) fn disliked_taints(pod: &PodInfo, node: &NodeInfo) -> i64 {
    let soft = node.taints.iter().filter(|taint| {
        taint["effect"] == "PreferNoSchedule"
            && !machinery::node_affinity::tolerates(&pod.tolerations, taint)
    });
    i64::try_from(soft.count()).unwrap_or(i64::MAX)
}

fn is_suitable(suitable: Option<&Arc<Vec<bool>>>, node: &NodeInfo) -> bool {
    suitable.is_none_or(|suitable| suitable.get(node.slot) == Some(&true))
}

pub(crate) fn affinity_matches(pod: &PodInfo, node: &NodeInfo) -> bool {
    pod.required
        .as_ref()
        .is_none_or(|required| required.matches(&node.view).unwrap_or(false))
}

/// Resources of which a node has too little for one more pod.
pub(crate) fn lacks(pod: &PodInfo, node: &NodeInfo) -> Vec<Reason> {
    let mut short = Vec::new();
    if i64::try_from(node.pods.len()).unwrap_or(i64::MAX) >= node.has.pods {
        short.push(Reason::TooManyPods);
    }
    for name in pod.requests.missing_in(&node.has, &node.used) {
        short.push(Reason::Insufficient {
            resource: name.to_owned(),
            // Preemption cannot help where the node as a whole is too small.
            ever: pod.requests.amount(name) > node.has.amount(name),
        });
    }
    short
}

fn topology<'a>(cluster: &'a Cluster, node: &str, key: &str) -> Option<&'a str> {
    cluster.node(node)?.labels.get(key).map(String::as_str)
}

/// Number of pods that match a term, per topology domain.
pub(crate) fn meant_by<'a>(cluster: &'a Cluster, term: &Term) -> HashMap<&'a str, i64> {
    let mut counts = HashMap::new();
    let namespaces = cluster.used_namespaces();
    let others = namespaces
        .filter(|name| term.in_namespace(name, &cluster.namespaces))
        .flat_map(|name| cluster.in_namespace(name, term.exact.as_ref()));
    for other in others {
        if term.means(&other.pod, &cluster.namespaces)
            && let Some(value) = topology(cluster, &other.node, &term.topology)
        {
            *counts.entry(value).or_default() += 1;
        }
    }
    counts
}

/// Counts pods that match a constraint. Only nodes that are eligible for the pod and have all
/// topology keys count.
pub(crate) fn domains<'a>(
    cluster: &'a Cluster,
    pod: &PodInfo,
    constraint: &'a Spread,
) -> Domains<'a> {
    let keys: BTreeSet<&str> = pod
        .spread
        .iter()
        .filter(|other| other.required == constraint.required)
        .map(|other| other.topology.as_str())
        .collect();
    let suitable = cluster.suitable(pod);
    let counts_here = |node: &NodeInfo| {
        keys.iter().all(|key| node.labels.contains_key(*key))
            && (!constraint.honours_affinity || is_suitable(suitable.as_ref(), node))
            && (!constraint.honours_taints || !untolerated(pod, node))
    };
    let mut counts: HashMap<&str, i64> = HashMap::new();
    let mut eligible = HashSet::new();
    for node in cluster.nodes().filter(|node| counts_here(node)) {
        if let Some(value) = node.labels.get(&constraint.topology) {
            // Domains without pods as well: they are the least loaded ones.
            counts.entry(value).or_default();
            eligible.insert(node.name.as_str());
        }
    }
    for other in cluster.in_namespace(&pod.key.namespace, constraint.exact.as_ref()) {
        // As `podtopologyspread`: in a rolling update the new pods would otherwise be spread by
        // those that are about to go.
        if !other.pod.leaving
            && eligible.contains(other.node.as_str())
            && constraint.means(&other.pod.labels)
            && let Some(value) = topology(cluster, &other.node, &constraint.topology)
        {
            *counts.entry(value).or_default() += 1;
        }
    }
    // With too few domains the minimum counts as 0: pods wait for another domain instead of filling
    // the existing ones evenly.
    let enough = i64::try_from(counts.len()).unwrap_or(i64::MAX) >= constraint.min_domains;
    let least = counts.values().copied().min().filter(|_| enough);
    Domains {
        constraint,
        least: least.unwrap_or_default(),
        own: i64::from(constraint.means(&pod.labels)),
        counts,
    }
}
