//! What nodes there are: the architectures of those that run virtual machines, of those that run the
//! cluster, and the one that a name without architecture stands for.

mod choice;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use machinery::node_affinity::RequiredNodeAffinity;
use serde_json::Value;

pub use choice::{Candidates, Choice, Health, Why, choose};

use crate::list;
use crate::policy::Override;

const WORKER: &str = "node-role.kubernetes.io/worker";
const CONTROL_PLANE: [&str; 2] = [
    "node-role.kubernetes.io/control-plane",
    "node-role.kubernetes.io/master",
];

/// How many nodes there are of each architecture.
pub type Counts = BTreeMap<String, usize>;

/// What is known.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// All nodes.
    pub nodes: &'a [Value],
    /// Where virtual machines run, as in `spec.workloads.nodePlacement` of a HyperConverged.
    pub placement: Option<&'a Value>,
    /// The default that somebody asked for.
    pub wanted: Override<'a>,
}

/// What follows.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Architectures {
    /// Nodes that run virtual machines.
    pub workload: Counts,
    /// Nodes that run the cluster.
    pub control_plane: Counts,
    /// Nodes that would run virtual machines, had virtual machines their architecture.
    pub ignored: Counts,
    /// All nodes.
    pub nodes: usize,
    /// Nodes that run virtual machines, of whatever architecture.
    pub workers: usize,
    /// What a name without architecture stands for.
    pub default: Choice,
    /// A placement that makes no sense, as the scheduler would say it.
    pub placement_error: Option<String>,
}

impl Architectures {
    /// The architectures that virtual machines can have here, sorted.
    pub fn workload_names(&self) -> BTreeSet<&str> {
        self.workload.keys().map(String::as_str).collect()
    }

    /// Whether the cluster is one node: there is nothing to tell apart.
    pub fn is_single_node(&self) -> bool {
        self.nodes == 1
    }

    /// Whether there are two workers or more.
    pub fn is_highly_available(&self) -> bool {
        self.workers >= 2
    }
}

/// Looks at the nodes.
///
/// Taints, cordons and readiness do not count: a node that is being updated comes back, and images
/// should be there when it does. A node counts as soon as it says its architecture.
pub fn decide(facts: &Facts<'_>) -> Architectures {
    let mut found = Architectures {
        nodes: facts.nodes.len(),
        ..Architectures::default()
    };
    let demands = facts.placement.filter(|placement| demands(placement));
    let affinity = demands.map(RequiredNodeAffinity::of_pod_spec);
    for node in facts.nodes {
        let name = node
            .pointer("/status/nodeInfo/architecture")
            .and_then(Value::as_str)
            .map(list::normal)
            .unwrap_or_default();
        if name.is_empty() {
            continue;
        }
        let runs_cluster = CONTROL_PLANE.iter().any(|label| has_label(node, label));
        if runs_cluster && list::is_known(&name) {
            *found.control_plane.entry(name.clone()).or_default() += 1;
        }
        let runs_machines = match &affinity {
            None => has_label(node, WORKER),
            Some(affinity) => affinity.matches(node).unwrap_or_else(|error| {
                found
                    .placement_error
                    .get_or_insert_with(|| error.to_string());
                false
            }),
        };
        if !runs_machines || !is_linux(node) {
            continue;
        }
        found.workers += 1;
        let counts = if list::is_known(&name) {
            &mut found.workload
        } else {
            &mut found.ignored
        };
        *counts.entry(name).or_default() += 1;
    }
    let control_plane: Vec<&str> = found.control_plane.keys().map(String::as_str).collect();
    found.default = choose(&Candidates {
        supported: &found.workload_names(),
        control_plane: &control_plane,
        nodes: &found.workload,
        wanted: facts.wanted,
        health: &BTreeMap::new(),
    });
    found
}

/// Whether a placement says where virtual machines run. Tolerations and preferences do not; a
/// required affinity without terms does, and no node will do.
fn demands(placement: &Value) -> bool {
    let selector = placement.get("nodeSelector").and_then(Value::as_object);
    selector.is_some_and(|labels| !labels.is_empty())
        || placement
            .pointer("/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution")
            .is_some_and(Value::is_object)
}

fn has_label(node: &Value, name: &str) -> bool {
    let labels = node.pointer("/metadata/labels").and_then(Value::as_object);
    labels.is_some_and(|labels| labels.contains_key(name))
}

/// Virtual machines run on Linux. A node that does not say what it runs is taken for one.
fn is_linux(node: &Value) -> bool {
    let os = node.pointer("/status/nodeInfo/operatingSystem");
    os.and_then(Value::as_str)
        .is_none_or(|os| os.is_empty() || os == "linux")
}
