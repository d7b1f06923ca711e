//! The placement decision for a pod.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use machinery::node_affinity::{RequiredNodeAffinity, tolerates};
use serde_json::{Value, json};

use crate::cluster::{Cluster, Node};
use crate::fit::{Condition, Demand, Fit, Product};
use crate::images::{ImageUse, Inspection, images};
use crate::names;
use crate::no_fit::{NoFit, Shortfall};
use crate::nodes::Nodes;
use crate::settings::{RuntimeClass, Settings};

/// The placement decision for a pod.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// Leave the pod unchanged, for this reason.
    Leave(LeaveReason),
    /// The platforms of these images are unknown; inspect them and decide again.
    Ask(Vec<ImageUse>),
    /// Nodes can run the pod, with this placement.
    Place(Placement),
    /// No node can run the pod.
    NoFit(Box<NoFit>),
}

/// Why a pod is left unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LeaveReason {
    /// It is already bound to a node.
    HasNode,
    /// It is the mirror of a static pod.
    Mirror,
    /// Its containers run as processes of a Windows node.
    HostProcess,
    /// The pod or its namespace opted out.
    SwitchedOff,
    /// It is pinned to one node by name, and its images run there.
    OneNode,
    /// None of its images restricts the platform.
    NoPlatformConstraint,
}

impl LeaveReason {
    /// Label value for metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::HasNode => "HasNode",
            Self::Mirror => "Mirror",
            Self::HostProcess => "HostProcess",
            Self::SwitchedOff => "SwitchedOff",
            Self::OneNode => "OneNode",
            Self::NoPlatformConstraint => "NothingToTell",
        }
    }
}

/// The scheduling constraints that a pod needs.
#[derive(Debug, Clone, PartialEq)]
pub struct Placement {
    /// Alternatives of node conditions under which its images run. Never empty.
    pub products: Vec<Product>,
    /// Preferred architectures with their weights, highest first.
    pub preferred: Vec<(String, u8)>,
    /// Tolerations to add.
    pub tolerations: Vec<Value>,
    /// The RuntimeClass to set.
    pub runtime_class: Option<String>,
}

impl Placement {
    /// The architectures it is restricted to; empty if unrestricted.
    pub fn architectures(&self) -> BTreeSet<&str> {
        let conditions = self
            .products
            .iter()
            .flat_map(|product| &product.conditions)
            .filter(|condition| condition.key == names::ARCHITECTURE);
        conditions
            .flat_map(|condition| condition.values.iter().map(String::as_str))
            .collect()
    }
}

/// Decides the placement of a pod. `classes` are the RuntimeClasses of the cluster, by name.
pub fn decide<'n>(
    pod: &Value,
    known: &BTreeMap<String, Inspection>,
    classes: &BTreeMap<String, RuntimeClass>,
    nodes: impl Into<Nodes<'n>>,
    settings: &Settings,
) -> Decision {
    let nodes = nodes.into();
    let spec = pod.get("spec").unwrap_or(&Value::Null);
    if let Some(why) = left_alone(pod, spec) {
        return Decision::Leave(why);
    }
    let used = images(spec);
    let unknown: Vec<ImageUse> = used
        .iter()
        .filter(|used| !known.contains_key(&used.image))
        .cloned()
        .collect();
    // All unknown images at once, so that they are inspected in parallel. A decision from those that are known could
    // pin the pod to nodes that cannot run the others.
    if !unknown.is_empty() {
        return Decision::Ask(unknown);
    }
    let demand = Demand::new(&used, known, settings);
    if demand.is_empty() {
        return Decision::Leave(LeaveReason::NoPlatformConstraint);
    }
    let class = spec
        .get("runtimeClassName")
        .and_then(Value::as_str)
        .and_then(|name| classes.get(name));
    let constraints = PodConstraints::new(spec, settings);
    // The pod's own class, or none, before offered ones: emulation and Hyper-V cost performance.
    let plain = constraints.fitting(&demand, nodes, class);
    if let Some(fitting) = plain.as_ref().filter(|fitting| fitting.accepts_pod) {
        return constraints.place(fitting, None);
    }
    // A RuntimeClass (Hyper-V or emulation) may run images that the nodes themselves cannot.
    // A class that the pod names was chosen by its author, and merged into the pod by the RuntimeClass admission plugin
    // before the webhook is called.
    let may_set_class = spec.get("runtimeClassName").is_none_or(Value::is_null);
    let offered = settings.offered.iter().filter(|_| may_set_class);
    for offer in offered {
        let fitting = constraints.fitting(&demand, nodes, Some(offer));
        if let Some(fitting) = fitting.filter(|fitting| fitting.accepts_pod) {
            return constraints.place(&fitting, Some(offer.name.clone()));
        }
    }
    let shortfall = match &plain {
        None => Shortfall::NoPlatform,
        Some(fitting) => constraints.shortfall(fitting, class),
    };
    // Written even though no node fits now, where the policy admits the pod: an autoscaler, or a node that comes back,
    // then gets the right one.
    let placement = plain.and_then(|fitting| match constraints.place(&fitting, None) {
        Decision::Place(placement) => Some(placement),
        _ => None,
    });
    Decision::NoFit(Box::new(NoFit::new(
        demand,
        shortfall,
        placement,
        nodes.cluster,
        class,
    )))
}

/// The nodes of one operating system that run the images of a pod.
struct FittingNodes<'c> {
    os: String,
    /// Node conditions, never empty, and the platforms of live nodes.
    fit: Arc<Fit>,
    cluster: &'c Cluster,
    /// Whether at least one of the nodes accepts the pod.
    accepts_pod: bool,
}

impl<'c> FittingNodes<'c> {
    /// The live nodes.
    fn nodes(&self) -> impl Iterator<Item = &'c Node> {
        let cluster = self.cluster;
        let places = self.fit.places.iter();
        places.flat_map(|place| cluster.nodes_of(place))
    }
}

/// RuntimeClasses under which nodes accept a pod that has another one or none, with the number of nodes.
pub(crate) fn classes_that_fit(
    spec: &Value,
    demand: &Demand,
    classes: &BTreeMap<String, RuntimeClass>,
    cluster: &Cluster,
    settings: &Settings,
) -> Vec<(String, usize)> {
    let constraints = PodConstraints::new(spec, settings);
    let fitting = classes.values().filter_map(|class| {
        let fitting = constraints.fitting(demand, cluster.into(), Some(class))?;
        let taking = |node: &&Node| constraints.takes(node, Some(class)).is_ok();
        let nodes = fitting.nodes().filter(taking).count();
        (nodes > 0).then(|| (class.name.clone(), nodes))
    });
    fitting.collect()
}

/// Whether the pod is left unchanged regardless of its images.
fn left_alone(pod: &Value, spec: &Value) -> Option<LeaveReason> {
    let annotation = |key: &str| {
        let annotations = pod.get("metadata")?.get("annotations")?;
        annotations.get(key)?.as_str()
    };
    let has_node = spec
        .get("nodeName")
        .and_then(Value::as_str)
        .is_some_and(|name| !name.is_empty());
    // It cannot move any more, and the kubelet fails a pod whose required affinity does not match its node.
    if has_node {
        Some(LeaveReason::HasNode)
    } else if annotation(names::MIRROR).is_some() {
        Some(LeaveReason::Mirror)
    } else if annotation(names::SWITCH) == Some(names::OFF) {
        Some(LeaveReason::SwitchedOff)
    } else if is_host_process(spec) {
        Some(LeaveReason::HostProcess)
    } else {
        None
    }
}

/// Whether the containers are processes of a Windows host. They administer the node, and their images need not be of its
/// build, so that comparing platforms would keep them from nodes where they run.
fn is_host_process(spec: &Value) -> bool {
    let is_set = |holder: &Value| {
        holder.pointer("/securityContext/windowsOptions/hostProcess") == Some(&Value::Bool(true))
    };
    let containers = spec.get("containers").and_then(Value::as_array);
    // The API server accepts all or none of the containers, so one tells.
    is_set(spec) || containers.into_iter().flatten().any(is_set)
}

/// The scheduling constraints in the pod's own spec.
struct PodConstraints<'a> {
    settings: &'a Settings,
    affinity: RequiredNodeAffinity,
    os: Option<&'a str>,
    tolerations: Vec<Value>,
    one_node: bool,
    preferred: BTreeSet<&'a str>,
}

impl<'a> PodConstraints<'a> {
    fn new(spec: &'a Value, settings: &'a Settings) -> Self {
        // `spec.os` before the selector: the kubelet rejects a pod for either (PodOSNotSupported,
        // PodOSSelectorNodeLabelDoesNotMatch).
        let os = spec.pointer("/os/name").or_else(|| {
            let selector = spec.get("nodeSelector")?;
            selector.get(names::OS)
        });
        let tolerations = spec.get("tolerations").and_then(Value::as_array);
        Self {
            settings,
            affinity: RequiredNodeAffinity::of_pod_spec(spec),
            os: os.and_then(Value::as_str),
            tolerations: tolerations.cloned().unwrap_or_default(),
            one_node: is_for_one_node(spec),
            preferred: preferred_architectures(spec),
        }
    }

    /// The nodes that run the images: of the first operating system with a node that accepts the pod, else of the first
    /// on which the images would run.
    fn fitting<'c>(
        &self,
        demand: &Demand,
        nodes: Nodes<'c>,
        class: Option<&RuntimeClass>,
    ) -> Option<FittingNodes<'c>> {
        let mut first = None;
        for os in self.systems(demand) {
            let fit = demand.fit(&os, nodes, class);
            if fit.products.is_empty() {
                continue;
            }
            let mut fitting = FittingNodes {
                os,
                fit,
                cluster: nodes.cluster,
                accepts_pod: false,
            };
            let accepts_pod = fitting.nodes().any(|node| self.takes(node, class).is_ok());
            fitting.accepts_pod = accepts_pod;
            if accepts_pod {
                return Some(fitting);
            }
            // Kept for the message: it names the nodes that could run the images if they accepted the pod.
            first = first.or(Some(fitting));
        }
        first
    }

    /// Candidate operating systems: the one the pod requests, else the configured default followed by those of the
    /// images.
    fn systems(&self, demand: &Demand) -> Vec<String> {
        if let Some(os) = self.os {
            return vec![os.to_owned()];
        }
        // The default first, although an index may list Windows first: most images for both are meant for Linux, and
        // one pod cannot run on both.
        let default_os = self.settings.operating_system.clone();
        let mut systems = demand.systems();
        systems.remove(&default_os);
        std::iter::once(default_os).chain(systems).collect()
    }

    /// Whether a node accepts the pod, apart from its images, or what repels it.
    fn takes(&self, node: &Node, class: Option<&RuntimeClass>) -> Result<(), KeptAway> {
        let selected = class.is_none_or(|class| {
            let labels = node.object().pointer("/metadata/labels");
            class.node_selector.iter().all(|(key, value)| {
                let label = labels.and_then(|labels| labels.get(key));
                label.and_then(Value::as_str) == Some(value)
            })
        });
        // Invalid terms match no node, as in the scheduler.
        if !selected || !self.affinity.matches(node.object()).unwrap_or(false) {
            return Err(KeptAway::Selectors);
        }
        let tolerated = |taint: &&Value| {
            tolerates(&self.tolerations, taint)
                // The RuntimeClass admission plugin adds them when it runs again after the webhook.
                || class.is_some_and(|class| tolerates(&class.tolerations, taint))
                || self.may_tolerate(taint).is_some()
        };
        match node.taints().iter().find(|taint| !tolerated(taint)) {
            None => Ok(()),
            Some(taint) => Err(KeptAway::Taint(taint.clone())),
        }
    }

    /// The key of a taint for which the settings permit adding a toleration.
    fn may_tolerate<'t>(&self, taint: &'t Value) -> Option<&'t str> {
        let key = taint.get("key").and_then(Value::as_str)?;
        let tolerated = self.settings.tolerated_taints.contains(key);
        tolerated.then_some(key)
    }

    /// The toleration to add for a taint, if the settings permit one.
    fn toleration(&self, taint: &Value) -> Option<Value> {
        let key = self.may_tolerate(taint)?;
        Some(json!({
            "key": key,
            // The exact taint, not the key: `Exists` would also tolerate a taint of the same key that administrators
            // use for other purposes.
            "operator": "Equal",
            "value": taint.get("value").and_then(Value::as_str).unwrap_or_default(),
            "effect": taint.get("effect"),
        }))
    }

    fn place(&self, fitting: &FittingNodes<'_>, class_to_set: Option<String>) -> Decision {
        // Pods of a DaemonSet are made for one node; further constraints could only keep them from it.
        if self.one_node && class_to_set.is_none() {
            return Decision::Leave(LeaveReason::OneNode);
        }
        let mut placement = Placement {
            products: fitting.fit.products.clone(),
            preferred: Vec::new(),
            tolerations: self.missing_tolerations(fitting),
            runtime_class: class_to_set,
        };
        let possible = placement.architectures();
        // A preference for the only architecture would change nothing but the pod.
        if possible.len() > 1 {
            let weights = self.settings.weights.iter();
            let mut preferred: Vec<(String, u8)> = weights
                .filter(|(architecture, _)| possible.contains(architecture.as_str()))
                // The pod's own preference counts: a second one would add to its weight, or work against it.
                .filter(|(architecture, _)| !self.preferred.contains(architecture.as_str()))
                .map(|(architecture, weight)| (architecture.clone(), (*weight).clamp(1, 100)))
                .collect();
            preferred.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
            placement.preferred = preferred;
        }
        Decision::Place(placement)
    }

    /// Tolerations for the taints of nodes that run the images.
    fn missing_tolerations(&self, fitting: &FittingNodes<'_>) -> Vec<Value> {
        let mut missing: Vec<Value> = Vec::new();
        let places = fitting.fit.places.iter();
        // Of all fitting nodes and not only of those that accept the pod now, so that it can move to the others.
        let taints = places.flat_map(|place| fitting.cluster.taints_of(place));
        for taint in taints.filter(|taint| !tolerates(&self.tolerations, taint)) {
            match self.toleration(taint) {
                Some(toleration) if !missing.contains(&toleration) => missing.push(toleration),
                _ => {}
            }
        }
        missing
    }

    /// Why no node accepts the pod, although its images run on some platform.
    fn shortfall(&self, fitting: &FittingNodes<'_>, class: Option<&RuntimeClass>) -> Shortfall {
        let os = fitting.os.clone();
        let (mut by_selectors, mut by_taints) = (0, BTreeMap::<String, usize>::new());
        for node in fitting.nodes() {
            match self.takes(node, class) {
                Ok(()) => {}
                Err(KeptAway::Selectors) => by_selectors += 1,
                Err(KeptAway::Taint(taint)) => {
                    *by_taints.entry(written(&taint)).or_default() += 1;
                }
            }
        }
        if by_selectors == 0 && by_taints.is_empty() {
            Shortfall::NoNode { os }
        } else {
            Shortfall::KeptAway {
                os,
                by_selectors,
                by_taints,
            }
        }
    }
}

/// What repels a pod from a node that runs its images.
enum KeptAway {
    Selectors,
    Taint(Value),
}

/// Formats a taint as kubectl does: `key=value:effect`.
fn written(taint: &Value) -> String {
    let text = |name: &str| taint.get(name).and_then(Value::as_str).unwrap_or_default();
    let (key, value, effect) = (text("key"), text("value"), text("effect"));
    if value.is_empty() {
        format!("{key}:{effect}")
    } else {
        format!("{key}={value}:{effect}")
    }
}

/// Whether every term names a node, as in pods of a DaemonSet.
pub(crate) fn is_for_one_node(spec: &Value) -> bool {
    let terms = spec.pointer(
        "/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms",
    );
    let Some(terms) = terms.and_then(Value::as_array) else {
        return false;
    };
    let names_a_node = |term: &Value| {
        let fields = term.get("matchFields").and_then(Value::as_array);
        fields.into_iter().flatten().any(|field| {
            field.get("key").and_then(Value::as_str) == Some("metadata.name")
                && field.get("operator").and_then(Value::as_str) == Some("In")
        })
    };
    !terms.is_empty() && terms.iter().all(names_a_node)
}

/// Architectures for which the pod itself states a preference.
fn preferred_architectures(spec: &Value) -> BTreeSet<&str> {
    let preferences = spec
        .pointer("/affinity/nodeAffinity/preferredDuringSchedulingIgnoredDuringExecution")
        .and_then(Value::as_array);
    let expressions = preferences.into_iter().flatten().flat_map(|preference| {
        let expressions = preference.pointer("/preference/matchExpressions");
        expressions.and_then(Value::as_array).into_iter().flatten()
    });
    expressions
        .filter(|expression| {
            expression.get("key").and_then(Value::as_str) == Some(names::ARCHITECTURE)
        })
        .flat_map(|expression| {
            let values = expression.get("values").and_then(Value::as_array);
            values.into_iter().flatten().filter_map(Value::as_str)
        })
        .collect()
}

impl Product {
    /// The condition on a label.
    pub(crate) fn on(&self, key: &str) -> Option<&Condition> {
        self.conditions
            .iter()
            .find(|condition| condition.key == key)
    }
}
