//! What becomes of a pod.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use machinery::node_affinity::{RequiredNodeAffinity, tolerates};
use serde_json::{Value, json};

use crate::cluster::{Cluster, Node};
use crate::fit::{Condition, Demand, Fit, Product};
use crate::images::{Knowledge, Used, images};
use crate::names;
use crate::no_fit::{NoFit, Shortfall};
use crate::settings::{RuntimeClass, Settings};

/// What becomes of a pod.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// Nothing, and why.
    Leave(Leave),
    /// These images have to be looked at first.
    Ask(Vec<Used>),
    /// It can run, if it says where.
    Place(Placement),
    /// It cannot run anywhere.
    NoFit(Box<NoFit>),
}

/// Why a pod is left alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Leave {
    /// It has a node.
    HasNode,
    /// A kubelet made it from a file.
    Mirror,
    /// It, or its namespace, asked for it.
    SwitchedOff,
    /// It is for one node by name, and runs there.
    OneNode,
    /// No image says what it is for.
    NothingToTell,
}

impl Leave {
    /// A word for metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::HasNode => "HasNode",
            Self::Mirror => "Mirror",
            Self::SwitchedOff => "SwitchedOff",
            Self::OneNode => "OneNode",
            Self::NothingToTell => "NothingToTell",
        }
    }
}

/// What a pod has to say so that it runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Placement {
    /// Where its images run: one of these. Never empty.
    pub products: Vec<Product>,
    /// Architectures it should prefer, the most wanted first.
    pub preferred: Vec<(String, u8)>,
    /// Taints it has to tolerate.
    pub tolerations: Vec<Value>,
    /// The class that it is given.
    pub runtime_class: Option<String>,
}

impl Placement {
    /// Architectures it may run on, if it matters.
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

/// Decides about a pod. `classes` are the RuntimeClasses of the cluster, by name.
pub fn decide(
    pod: &Value,
    known: &BTreeMap<String, Knowledge>,
    classes: &BTreeMap<String, RuntimeClass>,
    cluster: &Cluster,
    settings: &Settings,
) -> Decision {
    let spec = pod.get("spec").unwrap_or(&Value::Null);
    if let Some(why) = left_alone(pod, spec) {
        return Decision::Leave(why);
    }
    let used = images(spec);
    let unknown: Vec<Used> = used
        .iter()
        .filter(|used| !known.contains_key(&used.image))
        .cloned()
        .collect();
    if !unknown.is_empty() {
        return Decision::Ask(unknown);
    }
    let demand = Demand::new(&used, known, settings);
    if demand.is_empty() {
        return Decision::Leave(Leave::NothingToTell);
    }
    let class = spec
        .get("runtimeClassName")
        .and_then(Value::as_str)
        .and_then(|name| classes.get(name));
    let asked = Asked::new(spec, settings);
    let plain = asked.ground(&demand, cluster, class);
    if let Some(ground) = plain.as_ref().filter(|ground| ground.is_open) {
        return asked.place(ground, None);
    }
    // Something else than what the nodes are may still run it.
    let may_be_given = spec.get("runtimeClassName").is_none_or(Value::is_null);
    let offered = settings.offered.iter().filter(|_| may_be_given);
    for offer in offered {
        let ground = asked.ground(&demand, cluster, Some(offer));
        if let Some(ground) = ground.filter(|ground| ground.is_open) {
            return asked.place(&ground, Some(offer.name.clone()));
        }
    }
    let shortfall = match &plain {
        None => Shortfall::NoPlatform,
        Some(ground) => asked.shortfall(ground, class),
    };
    let placement = plain.and_then(|ground| match asked.place(&ground, None) {
        Decision::Place(placement) => Some(placement),
        _ => None,
    });
    Decision::NoFit(Box::new(NoFit::new(
        demand, shortfall, placement, cluster, class,
    )))
}

/// Where the images of a pod run, of the nodes of one operating system.
struct Ground<'c> {
    os: String,
    /// How labels say it, which is never empty, and where the nodes are.
    fit: Arc<Fit>,
    cluster: &'c Cluster,
    /// Whether one of them takes the pod.
    is_open: bool,
}

impl<'c> Ground<'c> {
    /// The nodes that there are.
    fn nodes(&self) -> impl Iterator<Item = &'c Node> {
        let cluster = self.cluster;
        let places = self.fit.places.iter();
        places.flat_map(|place| cluster.nodes_of(place))
    }
}

/// Classes under which nodes take a pod that has another or none, and how many.
pub(crate) fn classes_that_fit(
    spec: &Value,
    demand: &Demand,
    classes: &BTreeMap<String, RuntimeClass>,
    cluster: &Cluster,
    settings: &Settings,
) -> Vec<(String, usize)> {
    let asked = Asked::new(spec, settings);
    let fitting = classes.values().filter_map(|class| {
        let ground = asked.ground(demand, cluster, Some(class))?;
        let taking = |node: &&Node| asked.takes(node, Some(class)).is_ok();
        let nodes = ground.nodes().filter(taking).count();
        (nodes > 0).then(|| (class.name.clone(), nodes))
    });
    fitting.collect()
}

/// Why nothing is to be done, before any image is looked at.
fn left_alone(pod: &Value, spec: &Value) -> Option<Leave> {
    let annotation = |key: &str| {
        let annotations = pod.get("metadata")?.get("annotations")?;
        annotations.get(key)?.as_str()
    };
    let has_node = spec
        .get("nodeName")
        .and_then(Value::as_str)
        .is_some_and(|name| !name.is_empty());
    if has_node {
        Some(Leave::HasNode)
    } else if annotation(names::MIRROR).is_some() {
        Some(Leave::Mirror)
    } else if annotation(names::SWITCH) == Some(names::OFF) {
        Some(Leave::SwitchedOff)
    } else {
        None
    }
}

/// What a pod says itself about where it runs.
struct Asked<'a> {
    settings: &'a Settings,
    affinity: RequiredNodeAffinity,
    os: Option<&'a str>,
    tolerations: Vec<Value>,
    one_node: bool,
    preferred: BTreeSet<&'a str>,
}

impl<'a> Asked<'a> {
    fn new(spec: &'a Value, settings: &'a Settings) -> Self {
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

    /// Where the images run: on the first operating system with a node that takes the pod. Without such
    /// a node, on the first on which they would.
    fn ground<'c>(
        &self,
        demand: &Demand,
        cluster: &'c Cluster,
        class: Option<&RuntimeClass>,
    ) -> Option<Ground<'c>> {
        let mut first = None;
        for os in self.systems(demand) {
            let fit = demand.fit(&os, cluster, class);
            if fit.products.is_empty() {
                continue;
            }
            let mut ground = Ground {
                os,
                fit,
                cluster,
                is_open: false,
            };
            let is_open = ground.nodes().any(|node| self.takes(node, class).is_ok());
            ground.is_open = is_open;
            if is_open {
                return Some(ground);
            }
            first = first.or(Some(ground));
        }
        first
    }

    /// What may be meant: what the pod says, or else what is usual and then what images have.
    fn systems(&self, demand: &Demand) -> Vec<String> {
        if let Some(os) = self.os {
            return vec![os.to_owned()];
        }
        let usual = self.settings.operating_system.clone();
        let mut systems = demand.systems();
        systems.remove(&usual);
        std::iter::once(usual).chain(systems).collect()
    }

    /// Says whether a node takes the pod, images aside, or what keeps it away.
    fn takes(&self, node: &Node, class: Option<&RuntimeClass>) -> Result<(), KeptAway> {
        let selected = class.is_none_or(|class| {
            let labels = node.object().pointer("/metadata/labels");
            class.node_selector.iter().all(|(key, value)| {
                let label = labels.and_then(|labels| labels.get(key));
                label.and_then(Value::as_str) == Some(value)
            })
        });
        // Terms that make no sense match nothing, as in the scheduler.
        if !selected || !self.affinity.matches(node.object()).unwrap_or(false) {
            return Err(KeptAway::Selectors);
        }
        let tolerated = |taint: &&Value| {
            tolerates(&self.tolerations, taint)
                || class.is_some_and(|class| tolerates(&class.tolerations, taint))
                || self.may_tolerate(taint).is_some()
        };
        match node.taints().iter().find(|taint| !tolerated(taint)) {
            None => Ok(()),
            Some(taint) => Err(KeptAway::Taint(taint.clone())),
        }
    }

    /// The key of a taint that a pod may be given a toleration for.
    fn may_tolerate<'t>(&self, taint: &'t Value) -> Option<&'t str> {
        let key = taint.get("key").and_then(Value::as_str)?;
        let tolerated = self.settings.tolerated_taints.contains(key);
        tolerated.then_some(key)
    }

    /// The toleration that a pod may be given for a taint.
    fn toleration(&self, taint: &Value) -> Option<Value> {
        let key = self.may_tolerate(taint)?;
        Some(json!({
            "key": key,
            "operator": "Equal",
            "value": taint.get("value").and_then(Value::as_str).unwrap_or_default(),
            "effect": taint.get("effect"),
        }))
    }

    fn place(&self, ground: &Ground<'_>, given: Option<String>) -> Decision {
        if self.one_node && given.is_none() {
            return Decision::Leave(Leave::OneNode);
        }
        let mut placement = Placement {
            products: ground.fit.products.clone(),
            preferred: Vec::new(),
            tolerations: self.missing_tolerations(ground),
            runtime_class: given,
        };
        let possible = placement.architectures();
        if possible.len() > 1 {
            let weights = self.settings.weights.iter();
            let mut preferred: Vec<(String, u8)> = weights
                .filter(|(architecture, _)| possible.contains(architecture.as_str()))
                .filter(|(architecture, _)| !self.preferred.contains(architecture.as_str()))
                .map(|(architecture, weight)| (architecture.clone(), (*weight).clamp(1, 100)))
                .collect();
            preferred.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
            placement.preferred = preferred;
        }
        Decision::Place(placement)
    }

    /// Tolerations for taints of nodes where the images run.
    fn missing_tolerations(&self, ground: &Ground<'_>) -> Vec<Value> {
        let mut missing: Vec<Value> = Vec::new();
        let places = ground.fit.places.iter();
        let taints = places.flat_map(|place| ground.cluster.taints_of(place));
        for taint in taints.filter(|taint| !tolerates(&self.tolerations, taint)) {
            match self.toleration(taint) {
                Some(toleration) if !missing.contains(&toleration) => missing.push(toleration),
                _ => {}
            }
        }
        missing
    }

    /// What is missing, when images run somewhere but no node takes the pod.
    fn shortfall(&self, ground: &Ground<'_>, class: Option<&RuntimeClass>) -> Shortfall {
        let os = ground.os.clone();
        let (mut by_selectors, mut by_taints) = (0, BTreeMap::<String, usize>::new());
        for node in ground.nodes() {
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

/// What keeps a pod from a node that runs its images.
enum KeptAway {
    Selectors,
    Taint(Value),
}

/// `key=value:effect`, as kubectl writes a taint.
fn written(taint: &Value) -> String {
    let text = |name: &str| taint.get(name).and_then(Value::as_str).unwrap_or_default();
    let (key, value, effect) = (text("key"), text("value"), text("effect"));
    if value.is_empty() {
        format!("{key}:{effect}")
    } else {
        format!("{key}={value}:{effect}")
    }
}

/// Says whether every term names a node, as those of DaemonSets do.
fn is_for_one_node(spec: &Value) -> bool {
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

/// Architectures for which the pod itself has a preference.
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
    /// What it says of a label.
    pub(crate) fn on(&self, key: &str) -> Option<&Condition> {
        self.conditions
            .iter()
            .find(|condition| condition.key == key)
    }
}
