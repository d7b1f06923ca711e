//! The choice of a model the straightforward way: every node is looked at, again and again.
//!
//! The tests hold the index against it, and the benchmark measures both.

use std::cmp::Reverse;

use api::cpu::{Bias, Counted, ForeignVendors};
use cpumodel::index::node::NodeVendor;
use cpumodel::names::{FEATURE_LABEL, HOST_MODEL, MODEL_LABEL, SCHEDULABLE_LABEL};
use cpumodel::{NodeFacts, Policy};
use machinery::field::Path;
use machinery::node_affinity::{NodeSelector, RequiredNodeAffinity, untolerated_taint};
use serde_json::{Value, json};

/// What a machine demands, as its spec says it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Wish {
    /// `nodeSelector` and `affinity`.
    pub(crate) spec: Value,
    /// `tolerations`.
    pub(crate) tolerations: Vec<Value>,
    /// CPU features that are required.
    pub(crate) features: Vec<String>,
    /// CPU features that are forbidden.
    pub(crate) forbidden: Vec<String>,
    /// The architecture.
    pub(crate) architecture: Option<String>,
}

/// The model that a machine gets on `initial`.
pub(crate) fn choose(nodes: &[NodeFacts], policy: &Policy, wish: &Wish, initial: &str) -> String {
    let Some(own) = nodes.iter().find(|node| node.name == initial) else {
        return HOST_MODEL.to_owned();
    };
    let NodeVendor::One(vendor) = own.vendor() else {
        return HOST_MODEL.to_owned();
    };
    if !allows(wish, own) && is_malformed(wish) {
        return HOST_MODEL.to_owned();
    }
    let potential: Vec<&NodeFacts> = nodes
        .iter()
        .filter(|node| node.vendor().one() == Some(&vendor))
        .filter(|node| allows(wish, node))
        .filter(|node| node.name == initial || is_reachable(policy, wish, node))
        .collect();
    let eligible = u32::try_from(potential.len()).expect("nodes are few");
    let needed = policy.threshold.needed(eligible).nodes;
    let mut best = None;
    for (label, value) in &own.labels {
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
        let is_own = model.vendor.as_ref() == Some(&vendor);
        let foreign = !is_own && model.vendor.is_some();
        if foreign && policy.foreign == ForeignVendors::Exclude {
            continue;
        }
        let has = |node: &&&NodeFacts| node.labels.get(label).is_some_and(|value| value == "true");
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

/// Whether a term of the affinity makes no sense.
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
fn allows(wish: &Wish, node: &NodeFacts) -> bool {
    let object = json!({ "metadata": { "name": node.name, "labels": node.labels } });
    let affinity = RequiredNodeAffinity::of_pod_spec(&wish.spec);
    let label = |feature: &String| node.labels.get(&format!("{FEATURE_LABEL}{feature}"));
    let same = wish.architecture.is_none()
        || node.architecture.is_none()
        || wish.architecture == node.architecture;
    same && affinity.matches(&object).unwrap_or(false)
        && wish
            .features
            .iter()
            .all(|feature| label(feature).is_some_and(|value| value == "true"))
        && wish
            .forbidden
            .iter()
            .all(|feature| label(feature).is_none())
}

/// Whether a pod could go to a node now, as far as the policy cares.
fn is_reachable(policy: &Policy, wish: &Wish, node: &NodeFacts) -> bool {
    let scope = policy.scope;
    let of_node = |taint: &Value| {
        let key = taint["key"].as_str().unwrap_or_default();
        key.starts_with("node.kubernetes.io/")
    };
    let taints = serde_json::to_value(&node.taints).expect("taints are JSON");
    let taints = taints.as_array().cloned().unwrap_or_default();
    let (state, others): (Vec<Value>, Vec<Value>) = taints.into_iter().partition(of_node);
    let effects = ["NoSchedule", "NoExecute"];
    let says = |key: &str| {
        state.iter().any(|taint| {
            taint["key"] == key && effects.iter().any(|effect| taint["effect"] == *effect)
        })
    };
    let alive = node
        .labels
        .get(SCHEDULABLE_LABEL)
        .is_some_and(|value| value == "true");
    let schedulable = alive && !node.unschedulable && !says("node.kubernetes.io/unschedulable");
    let ready = node.ready
        && !says("node.kubernetes.io/not-ready")
        && !says("node.kubernetes.io/unreachable");
    (schedulable || scope.unschedulable == Counted::Count)
        && (ready || scope.not_ready == Counted::Count)
        && (scope.tainted == Counted::Count
            || untolerated_taint(&others, &wish.tolerations, &effects).is_none())
}
