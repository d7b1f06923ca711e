//! A pod's scheduling requirements, parsed once.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{
    Affinity, NodeAffinity, Pod, PodAffinityTerm, PodSpec, TopologySpreadConstraint,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector as Selector;
use machinery::node_affinity::{PreferredNodeAffinity, RequiredNodeAffinity};
use machinery::selector::LabelSelector;
use runtime::Key;
use serde_json::{Value, json};

use super::resources::{self, Resources};

pub(crate) type Labels = BTreeMap<String, String>;
/// Labels by namespace.
pub(crate) type Namespaces = HashMap<String, Labels>;

/// A pod as the scheduler sees it.
#[derive(Debug)]
pub(crate) struct PodInfo {
    pub(crate) key: Key,
    pub(crate) uid: String,
    pub(crate) labels: Labels,
    pub(crate) owner: Option<String>,
    pub(crate) priority: i32,
    pub(crate) leaving: bool,
    /// Whether it may preempt others.
    pub(crate) preempts: bool,
    pub(crate) requests: Resources,
    pub(crate) usual: (i64, i64),
    pub(crate) ports: Vec<HostPort>,
    pub(crate) tolerations: Vec<Value>,
    pub(crate) required: Option<RequiredNodeAffinity>,
    /// The node requirements as text: equal texts match the same nodes.
    pub(crate) asks: String,
    pub(crate) preferred: Option<PreferredNodeAffinity>,
    /// The nodes the pod names by affinity, if any: pods of DaemonSets do.
    pub(crate) named: Option<BTreeSet<String>>,
    pub(crate) together: Vec<Term>,
    pub(crate) apart: Vec<Arc<Term>>,
    /// Preferred terms; anti-affinity has negative weights.
    pub(crate) wishes: Vec<(i64, Term)>,
    pub(crate) spread: Vec<Spread>,
    pub(crate) claims: Vec<String>,
}

/// A host port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HostPort {
    address: String,
    protocol: String,
    port: i32,
}

impl HostPort {
    /// Whether both cannot be on one node: an unspecified address includes all.
    pub(crate) fn conflicts(&self, other: &Self) -> bool {
        let any = |port: &Self| port.address.is_empty() || port.address == "0.0.0.0";
        self.port == other.port
            && self.protocol == other.protocol
            && (any(self) || any(other) || self.address == other.address)
    }
}

/// A pod (anti-)affinity term.
#[derive(Debug)]
pub(crate) struct Term {
    /// The term as text: equal texts match the same pods.
    pub(crate) says: String,
    pub(crate) topology: String,
    /// A label that all matching pods have.
    pub(crate) exact: Option<(String, String)>,
    selector: LabelSelector,
    namespaces: BTreeSet<String>,
    by_labels: Option<LabelSelector>,
}

impl Term {
    fn new(term: &PodAffinityTerm, own: &str) -> Self {
        let mut namespaces: BTreeSet<String> = term.namespaces.iter().flatten().cloned().collect();
        // Only without a selector: an empty one is not missing, and selects all namespaces.
        if namespaces.is_empty() && term.namespace_selector.is_none() {
            namespaces.insert(own.to_owned());
        }
        let wanted = selector(term.label_selector.as_ref());
        let by_labels = term
            .namespace_selector
            .as_ref()
            .map(|wanted| selector(Some(wanted)));
        Self {
            says: format!(
                "{} {wanted} {namespaces:?} {}",
                term.topology_key,
                by_labels
                    .as_ref()
                    .map(ToString::to_string)
                    .unwrap_or_default()
            ),
            topology: term.topology_key.clone(),
            exact: exact_label(term.label_selector.as_ref()),
            selector: wanted,
            namespaces,
            by_labels,
        }
    }

    /// Whether the term matches a pod.
    pub(crate) fn means(&self, pod: &PodInfo, namespaces: &Namespaces) -> bool {
        self.in_namespace(&pod.key.namespace, namespaces) && matches(&self.selector, &pod.labels)
    }

    pub(crate) fn in_namespace(&self, name: &str, namespaces: &Namespaces) -> bool {
        self.namespaces.contains(name)
            || self.by_labels.as_ref().is_some_and(|wanted| {
                let empty = Labels::new();
                matches(wanted, namespaces.get(name).unwrap_or(&empty))
            })
    }
}

/// A topology spread constraint.
#[derive(Debug)]
pub(crate) struct Spread {
    pub(crate) topology: String,
    pub(crate) max_skew: i64,
    pub(crate) min_domains: i64,
    pub(crate) required: bool,
    pub(crate) honours_affinity: bool,
    pub(crate) honours_taints: bool,
    pub(crate) exact: Option<(String, String)>,
    selector: LabelSelector,
}

impl Spread {
    fn new(constraint: &TopologySpreadConstraint, labels: &Labels) -> Self {
        let mut wanted = constraint.label_selector.clone();
        for key in constraint.match_label_keys.iter().flatten() {
            if let (Some(wanted), Some(value)) = (&mut wanted, labels.get(key)) {
                let exact = wanted.match_labels.get_or_insert_default();
                exact.insert(key.clone(), value.clone());
            }
        }
        Self {
            topology: constraint.topology_key.clone(),
            max_skew: i64::from(constraint.max_skew),
            min_domains: i64::from(constraint.min_domains.unwrap_or(1)),
            required: constraint.when_unsatisfiable == "DoNotSchedule",
            // The defaults are opposite, because both keep the behaviour of before the fields
            // existed.
            honours_affinity: constraint.node_affinity_policy.as_deref() != Some("Ignore"),
            honours_taints: constraint.node_taints_policy.as_deref() == Some("Honor"),
            exact: exact_label(wanted.as_ref()),
            selector: selector(wanted.as_ref()),
        }
    }

    pub(crate) fn means(&self, labels: &Labels) -> bool {
        matches(&self.selector, labels)
    }
}

/// A label that everything a selector matches has, if it is a simple equality.
fn exact_label(selector: Option<&Selector>) -> Option<(String, String)> {
    // One label is enough to look up candidates in an index; the whole selector decides later.
    let labels = selector?.match_labels.as_ref()?;
    let (key, value) = labels.iter().next()?;
    Some((key.clone(), value.clone()))
}

/// A missing or invalid selector matches nothing.
pub(crate) fn selector(selector: Option<&Selector>) -> LabelSelector {
    selector
        .and_then(|selector| {
            LabelSelector::from_label_selector_object(&serde_json::to_value(selector).ok()?).ok()
        })
        .unwrap_or_else(LabelSelector::nothing)
}

pub(crate) fn matches(selector: &LabelSelector, labels: &Labels) -> bool {
    selector.matches(|key| labels.get(key).map(String::as_str))
}

impl PodInfo {
    pub(crate) fn new(pod: &Pod) -> Self {
        let empty = PodSpec::default();
        let spec = pod.spec.as_ref().unwrap_or(&empty);
        let key = Key::of(&pod.metadata);
        let labels = pod.metadata.labels.clone().unwrap_or_default();
        let node_affinity = spec
            .affinity
            .as_ref()
            .and_then(|affinity| affinity.node_affinity.as_ref());
        // Only pods with node requirements are serialized: most have none.
        let asks = node_affinity.is_some() || spec.node_selector.is_some();
        let asked = asks.then(|| {
            json!({
                "nodeSelector": spec.node_selector,
                "affinity": { "nodeAffinity": node_affinity },
            })
        });
        let (together, apart, wishes) = pod_terms(spec.affinity.as_ref(), &key.namespace);
        let owners = pod.metadata.owner_references.as_deref().unwrap_or_default();
        Self {
            uid: pod.metadata.uid.clone().unwrap_or_default(),
            owner: owners
                .iter()
                .find(|owner| owner.controller == Some(true))
                .map(|owner| owner.uid.clone()),
            priority: spec.priority.unwrap_or_default(),
            leaving: pod.metadata.deletion_timestamp.is_some(),
            preempts: spec.preemption_policy.as_deref() != Some("Never"),
            requests: resources::of_pod(spec),
            usual: resources::usual_of_pod(spec),
            ports: host_ports(spec),
            tolerations: spec
                .tolerations
                .iter()
                .flatten()
                .filter_map(|toleration| serde_json::to_value(toleration).ok())
                .collect(),
            required: asked.as_ref().map(RequiredNodeAffinity::of_pod_spec),
            asks: asked.as_ref().map(Value::to_string).unwrap_or_default(),
            preferred: asked
                .as_ref()
                .and_then(|asked| PreferredNodeAffinity::of_pod_spec(asked).ok()),
            named: node_affinity.and_then(named),
            together,
            apart,
            wishes,
            spread: spec
                .topology_spread_constraints
                .iter()
                .flatten()
                .map(|constraint| Spread::new(constraint, &labels))
                .collect(),
            claims: claims(pod),
            labels,
            key,
        }
    }
}

fn host_ports(spec: &PodSpec) -> Vec<HostPort> {
    let stay = spec.init_containers.iter().flatten();
    spec.containers
        .iter()
        .chain(stay.filter(|container| resources::is_sidecar(container)))
        .flat_map(|container| container.ports.iter().flatten())
        .filter_map(|port| {
            Some(HostPort {
                address: port.host_ip.clone().unwrap_or_default(),
                protocol: port.protocol.clone().unwrap_or_else(|| "TCP".to_owned()),
                port: port.host_port.filter(|port| *port > 0)?,
            })
        })
        .collect()
}

/// The nodes all terms name by `metadata.name`, as upstream's pre-filter reads it.
fn named(affinity: &NodeAffinity) -> Option<BTreeSet<String>> {
    let required = affinity
        .required_during_scheduling_ignored_during_execution
        .as_ref()?;
    let mut all = BTreeSet::new();
    for term in &required.node_selector_terms {
        let mut names: Option<BTreeSet<String>> = None;
        for field in term.match_fields.iter().flatten() {
            if field.key == "metadata.name" && field.operator == "In" {
                let these: BTreeSet<String> = field.values.iter().flatten().cloned().collect();
                names = Some(match names {
                    Some(names) => names.intersection(&these).cloned().collect(),
                    None => these,
                });
            }
        }
        all.extend(names?);
    }
    (!required.node_selector_terms.is_empty()).then_some(all)
}

/// Required affinity, required anti-affinity, and preferences.
type PodTerms = (Vec<Term>, Vec<Arc<Term>>, Vec<(i64, Term)>);

fn pod_terms(affinity: Option<&Affinity>, own: &str) -> PodTerms {
    let Some(affinity) = affinity else {
        return Default::default();
    };
    let terms = |terms: Option<&Vec<PodAffinityTerm>>| -> Vec<Term> {
        terms
            .into_iter()
            .flatten()
            .map(|term| Term::new(term, own))
            .collect()
    };
    let near = affinity.pod_affinity.as_ref();
    let far = affinity.pod_anti_affinity.as_ref();
    let mut wishes = Vec::new();
    for wish in near
        .and_then(|near| {
            near.preferred_during_scheduling_ignored_during_execution
                .as_ref()
        })
        .into_iter()
        .flatten()
    {
        let term = Term::new(&wish.pod_affinity_term, own);
        wishes.push((i64::from(wish.weight), term));
    }
    for wish in far
        .and_then(|far| {
            far.preferred_during_scheduling_ignored_during_execution
                .as_ref()
        })
        .into_iter()
        .flatten()
    {
        let term = Term::new(&wish.pod_affinity_term, own);
        wishes.push((-i64::from(wish.weight), term));
    }
    (
        terms(near.and_then(|near| {
            near.required_during_scheduling_ignored_during_execution
                .as_ref()
        })),
        terms(far.and_then(|far| {
            far.required_during_scheduling_ignored_during_execution
                .as_ref()
        }))
        .into_iter()
        .map(Arc::new)
        .collect(),
        wishes,
    )
}

/// Claim names of a pod's volumes; those of ephemeral volumes are derived from the pod's name.
pub(crate) fn claims(pod: &Pod) -> Vec<String> {
    let pod_name = pod.metadata.name.as_deref().unwrap_or_default();
    let volumes = pod.spec.as_ref().and_then(|spec| spec.volumes.as_ref());
    volumes
        .into_iter()
        .flatten()
        .filter_map(
            |volume| match (&volume.persistent_volume_claim, &volume.ephemeral) {
                (Some(claim), _) => Some(claim.claim_name.clone()),
                (None, Some(_)) => Some(format!("{pod_name}-{}", volume.name)),
                (None, None) => None,
            },
        )
        .collect()
}
