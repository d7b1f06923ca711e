//! The architectures of the workload nodes and of the control plane, and the default architecture:
//! the one that a name without architecture suffix refers to.

mod choice;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::node;
use k8s_openapi::api::core::v1::Node;
use machinery::node_affinity::RequiredNodeAffinity;
use serde_json::{Value, json};

pub use choice::{Candidates, Choice, Health, Why, choose};

use crate::list;
use crate::policy::Override;

const WORKER: &str = "node-role.kubernetes.io/worker";
const CONTROL_PLANE: [&str; 2] = [
    "node-role.kubernetes.io/control-plane",
    "node-role.kubernetes.io/master",
];

/// The number of nodes by architecture.
pub type Counts = BTreeMap<String, usize>;

/// The inputs of the decision.
#[derive(Debug, Clone, Copy)]
pub struct ArchitectureInputs<'a> {
    /// All nodes.
    pub nodes: &'a [Arc<Node>],
    /// The placement of workloads, as in `spec.workloads.nodePlacement` of a HyperConverged.
    pub placement: Option<&'a Value>,
    /// The default architectures that the policy sets.
    pub wanted: Override<'a>,
}

/// The architectures of the cluster.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Architectures {
    /// Workload nodes, by architecture.
    pub workload: Counts,
    /// Control plane nodes, by architecture.
    pub control_plane: Counts,
    /// Workload nodes of architectures that KubeVirt does not support.
    pub ignored: Counts,
    /// The number of all nodes.
    pub nodes: usize,
    /// The number of workload nodes of any architecture.
    pub workers: usize,
    /// The default architecture.
    pub default: Choice,
    /// The error of an invalid placement, as the scheduler would report it.
    pub placement_error: Option<String>,
}

impl Architectures {
    /// The supported architectures of the workload nodes, sorted.
    pub fn workload_names(&self) -> BTreeSet<&str> {
        self.workload.keys().map(String::as_str).collect()
    }

    /// Whether the cluster has a single node, and therefore a single architecture.
    pub fn is_single_node(&self) -> bool {
        self.nodes == 1
    }

    /// Whether there are two or more workload nodes.
    pub fn is_highly_available(&self) -> bool {
        self.workers >= 2
    }
}

/// Computes the architectures from the nodes.
///
/// Taints, `spec.unschedulable` and readiness are ignored, as in HCO: a node that is being updated
/// comes back, and its images should be there by then. A node counts as soon as it reports its
/// architecture.
pub fn decide(facts: &ArchitectureInputs<'_>) -> Architectures {
    let mut found = Architectures {
        nodes: facts.nodes.len(),
        ..Architectures::default()
    };
    let demands = facts.placement.filter(|placement| demands(placement));
    let affinity = demands.map(RequiredNodeAffinity::of_pod_spec);
    for node in facts.nodes {
        let name = node::architecture(node)
            .map(list::normal)
            .unwrap_or_default();
        if name.is_empty() {
            continue;
        }
        let is_control_plane = CONTROL_PLANE
            .iter()
            .any(|key| node::label(node, key).is_some());
        // The value of the label does not matter, and a node can be both, as in HCO
        // (pkg/internal/nodeinfo/architectures.go).
        if is_control_plane && list::is_known(&name) {
            *found.control_plane.entry(name.clone()).or_default() += 1;
        }
        let is_workload = match &affinity {
            // With a placement the worker label is not needed: compact clusters place VMs on
            // control plane nodes.
            None => node::label(node, WORKER).is_some(),
            Some(affinity) => affinity.matches(&selectable(node)).unwrap_or_else(|error| {
                found
                    .placement_error
                    .get_or_insert_with(|| error.to_string());
                false
            }),
        };
        // HCO does not check the operating system: a Windows worker would add its architecture.
        if !is_workload || !is_linux(node) {
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

/// Whether a placement constrains the workload nodes. Tolerations and preferences do not; a
/// required affinity without terms does, and matches no node.
fn demands(placement: &Value) -> bool {
    let selector = placement.get("nodeSelector").and_then(Value::as_object);
    selector.is_some_and(|labels| !labels.is_empty())
        || placement
            .pointer("/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution")
            .is_some_and(Value::is_object)
}

/// The parts of a node that an affinity selects by.
fn selectable(node: &Node) -> Value {
    json!({ "metadata": { "name": node.metadata.name, "labels": node.metadata.labels } })
}

/// VMs run on Linux only. A node that does not report its operating system counts as Linux.
fn is_linux(node: &Node) -> bool {
    node::os(node).is_none_or(|os| os == "linux")
}
