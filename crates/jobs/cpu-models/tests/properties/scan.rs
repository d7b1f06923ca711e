//! The choice of a model by a naive scan of all nodes.
//!
//! The properties compare the index with it, and the benchmark measures both.

use std::cmp::Reverse;

use api::cpu::{Bias, Counted, ForeignVendors};
use cpu_models::index::node::NodeVendor;
use cpu_models::names::{FEATURE_LABEL, HOST_MODEL, MODEL_LABEL, SCHEDULABLE_LABEL};
use cpu_models::{NodeInputs, Policy};
use machinery::field::Path;
use machinery::node_affinity::{NodeSelector, RequiredNodeAffinity, untolerated_taint};
use serde_json::{Value, json};

/// A resource that some nodes have.
pub(crate) const DEVICE: &str = "example.com/device";

/// The demands of a VM, as in its spec.
#[derive(Debug, Clone, Default)]
pub(crate) struct Wish {
    /// `nodeSelector` and `affinity`.
    pub(crate) spec: Value,
    /// `tolerations`.
    pub(crate) tolerations: Vec<Value>,
    /// Required CPU features.
    pub(crate) features: Vec<String>,
    /// Forbidden CPU features.
    pub(crate) forbidden: Vec<String>,
    /// The architecture.
    pub(crate) architecture: Option<String>,
    /// How many devices it requests.
    pub(crate) devices: i64,
}

/// The nodes, preprocessed as a cache would hold them.
pub(crate) struct Scan {
    nodes: Vec<Node>,
}

struct Node {
    facts: NodeInputs,
    object: Value,
    vendor: NodeVendor,
    taints: Vec<Value>,
}

impl Scan {
    pub(crate) fn new(nodes: impl IntoIterator<Item = NodeInputs>) -> Self {
        let node = |facts: NodeInputs| {
            let taints = serde_json::to_value(&facts.taints).unwrap_or_default();
            Node {
                object: json!({ "metadata": { "name": facts.name, "labels": facts.labels } }),
                vendor: facts.vendor(),
                taints: taints.as_array().cloned().unwrap_or_default(),
                facts,
            }
        };
        Self {
            nodes: nodes.into_iter().map(node).collect(),
        }
    }

    /// The model that a VM gets on the node `initial`.
    pub(crate) fn choose(&self, policy: &Policy, wish: &Wish, initial: &str) -> String {
        choose(&self.nodes, policy, wish, initial)
    }
}

fn choose(nodes: &[Node], policy: &Policy, wish: &Wish, initial: &str) -> String {
    let Some(own) = nodes.iter().find(|node| node.facts.name == initial) else {
        return HOST_MODEL.to_owned();
    };
    let NodeVendor::One(vendor) = &own.vendor else {
        return HOST_MODEL.to_owned();
    };
    let affinity = RequiredNodeAffinity::of_pod_spec(&wish.spec);
    if !allows(wish, &affinity, own) && is_malformed(wish) {
        return HOST_MODEL.to_owned();
    }
    let potential: Vec<&Node> = nodes
        .iter()
        .filter(|node| node.vendor.one() == Some(vendor))
        .filter(|node| allows(wish, &affinity, node))
        .filter(|node| node.facts.name == initial || is_reachable(policy, wish, node))
        .collect();
    let eligible = u32::try_from(potential.len()).unwrap_or(u32::MAX);
    let needed = policy.threshold.needed(eligible).nodes;
    let mut best = None;
    for (label, value) in &own.facts.labels {
        let Some(name) = label.strip_prefix(MODEL_LABEL).filter(|_| value == "true") else {
            continue;
        };
        if policy.excludes(name) || policy.obsolete.contains(name) {
            continue;
        }
        let Some(model) = policy.model(name) else {
            continue;
        };
        let Some(year) = model
            .year
            .filter(|year| *year >= policy.minimal_launch_year)
        else {
            continue;
        };
        let is_own = model.vendor.as_ref() == Some(vendor);
        let foreign = !is_own && model.vendor.is_some();
        if foreign && policy.foreign == ForeignVendors::Exclude {
            continue;
        }
        let has = |node: &&&Node| {
            node.facts
                .labels
                .get(label)
                .is_some_and(|value| value == "true")
        };
        let supporters = potential.iter().filter(has).count();
        if supporters < needed as usize {
            continue;
        }
        let wide = if policy.bias == Bias::Widest {
            supporters
        } else {
            0
        };
        let variant = model.variant;
        let first = (!foreign, wide, year, is_own, supporters, model.generation);
        let second = (
            variant.mitigated,
            !variant.tsx,
            variant.version,
            variant.base,
            Reverse(name),
        );
        best = best.max(Some((first, second)));
    }
    best.map_or(HOST_MODEL, |(_, (.., Reverse(name)))| name)
        .to_owned()
}

/// Whether a term of the affinity is invalid.
fn is_malformed(wish: &Wish) -> bool {
    let required = wish
        .spec
        .pointer("/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution");
    required.is_some_and(|required| {
        let selector = NodeSelector::new(required, &Path::root());
        !selector.errors().is_empty()
    })
}

/// Whether selector, affinity, features and architecture allow a node.
fn allows(wish: &Wish, affinity: &RequiredNodeAffinity, node: &Node) -> bool {
    let facts = &node.facts;
    let label = |feature: &String| facts.labels.get(&format!("{FEATURE_LABEL}{feature}"));
    let has = |feature: &String| label(feature).is_some_and(|value| value == "true");
    let lacks = |feature: &String| label(feature).is_none();
    let same = wish.architecture.is_none()
        || facts.architecture.is_none()
        || wish.architecture == facts.architecture;
    let devices = facts.allocatable.get(DEVICE);
    let enough = facts.allocatable.is_empty() || devices.is_some_and(|it| *it >= wish.devices);
    same && enough
        && affinity.matches(&node.object).unwrap_or(false)
        && wish.features.iter().all(has)
        && wish.forbidden.iter().all(lacks)
}

/// Whether a node is eligible under the policy.
fn is_reachable(policy: &Policy, wish: &Wish, node: &Node) -> bool {
    let (scope, facts) = (policy.scope, &node.facts);
    let effects = ["NoSchedule", "NoExecute"];
    let key = |taint: &Value| taint["key"].as_str().unwrap_or_default().to_owned();
    let has_taint = |wanted: &str| {
        let mut taints = node.taints.iter();
        taints.any(|taint| {
            key(taint) == wanted && effects.iter().any(|effect| taint["effect"] == *effect)
        })
    };
    let alive = facts.labels.get(SCHEDULABLE_LABEL);
    let alive = alive.is_some_and(|value| value == "true");
    let schedulable =
        alive && !facts.unschedulable && !has_taint("node.kubernetes.io/unschedulable");
    let ready = facts.ready
        && !has_taint("node.kubernetes.io/not-ready")
        && !has_taint("node.kubernetes.io/unreachable");
    let of_node = |taint: &Value| key(taint).starts_with("node.kubernetes.io/");
    let tolerated = |taint: &Value| {
        of_node(taint)
            || untolerated_taint(std::slice::from_ref(taint), &wish.tolerations, &effects).is_none()
    };
    (schedulable || scope.unschedulable == Counted::Count)
        && (ready || scope.not_ready == Counted::Count)
        && (scope.tainted == Counted::Count || node.taints.iter().all(tolerated))
}
