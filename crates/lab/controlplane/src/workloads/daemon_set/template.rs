//! The pods of a DaemonSet: additions to the template, and the target node.

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{
    NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod, PodSpec, Toleration,
};

use crate::object::{annotation, label};
use crate::pod::node_name;
use crate::workloads::pods::pod_from_template;

/// Label with the revision of the template.
pub(super) const HASH: &str = "controller-revision-hash";
/// Deprecated label with the generation of the template.
const GENERATION: &str = "pod-template-generation";
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// Node conditions that the pods of DaemonSets tolerate: taint keys and effects.
// `AddOrUpdateDaemonPodTolerations` in `pkg/controller/daemon/util/daemonset_util.go`: a daemon
// serves the node itself, and is needed on an unhealthy one, too.
const TOLERATED_TAINTS: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];
const NETWORK_UNAVAILABLE: (&str, &str) = ("node.kubernetes.io/network-unavailable", "NoSchedule");

/// Adds the default tolerations of DaemonSet pods, replacing equal ones with a time limit.
pub(super) fn with_tolerations(spec: &mut PodSpec) {
    let host_network = spec.host_network == Some(true);
    let tolerations = spec.tolerations.get_or_insert_default();
    let network = host_network.then_some(NETWORK_UNAVAILABLE);
    for (key, effect) in TOLERATED_TAINTS.into_iter().chain(network) {
        let wanted = Toleration {
            key: Some(key.to_owned()),
            operator: Some("Exists".to_owned()),
            effect: Some(effect.to_owned()),
            ..Toleration::default()
        };
        let same = tolerations.iter_mut().find(|known| {
            known.key == wanted.key
                && known.operator == wanted.operator
                && known.effect == wanted.effect
                && known.value.as_deref().unwrap_or_default().is_empty()
        });
        match same {
            Some(known) => *known = wanted,
            None => tolerations.push(wanted),
        }
    }
}

/// The generation of the current template, if the annotation is set.
fn template_generation(set: &DaemonSet) -> Option<i64> {
    annotation(&set.metadata, TEMPLATE_GENERATION)?.parse().ok()
}

/// Whether a pod is of the current template.
pub(super) fn is_current(pod: &Pod, set: &DaemonSet, hash: &str) -> bool {
    let has = |key, value: &str| label(&pod.metadata, key) == Some(value);
    let generation = template_generation(set);
    // Either label is enough: pods of before ControllerRevisions have only the generation.
    generation.is_some_and(|it| has(GENERATION, &it.to_string())) || has(HASH, hash)
}

/// A pod of the set, without a target node.
pub(super) fn pod(set: &DaemonSet, hash: &str) -> Pod {
    let template = set.spec.as_ref().map(|spec| spec.template.clone());
    let mut pod = pod_from_template(set, &template.unwrap_or_default());
    with_tolerations(pod.spec.get_or_insert_default());
    let labels = pod.metadata.labels.get_or_insert_default();
    if let Some(generation) = template_generation(set) {
        labels.insert(GENERATION.to_owned(), generation.to_string());
    }
    labels.insert(HASH.to_owned(), hash.to_owned());
    pod
}

/// The pod pinned to one node by node affinity. The node affinity of the template has been
/// evaluated already.
pub(super) fn pinned(pod: &Pod, node: &str) -> Pod {
    let mut pod = pod.clone();
    let affinity = pod
        .spec
        .get_or_insert_default()
        .affinity
        .get_or_insert_default();
    affinity
        .node_affinity
        .get_or_insert_default()
        .required_during_scheduling_ignored_during_execution = Some(NodeSelector {
        node_selector_terms: vec![NodeSelectorTerm {
            match_fields: Some(vec![NodeSelectorRequirement {
                // By the name of the node and not by the label `kubernetes.io/hostname`, which may
                // differ from it.
                key: "metadata.name".to_owned(),
                operator: "In".to_owned(),
                values: Some(vec![node.to_owned()]),
            }]),
            match_expressions: None,
        }],
    });
    pod
}

/// The current or target node of a pod.
pub(super) fn target(pod: &Pod) -> Option<&str> {
    let spec = pod.spec.as_ref()?;
    if let Some(node) = node_name(pod) {
        return Some(node);
    }
    let affinity = spec.affinity.as_ref()?.node_affinity.as_ref()?;
    let required = affinity
        .required_during_scheduling_ignored_during_execution
        .as_ref()?;
    let terms = required.node_selector_terms.iter();
    let pin = terms
        .flat_map(|term| term.match_fields.iter().flatten())
        .find(|field| field.key == "metadata.name" && field.operator == "In")?;
    match pin.values.as_deref()? {
        [node] => Some(node),
        _ => None,
    }
}
