//! What a VM demands of its nodes, apart from the CPU model.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{NodeSelector, Toleration};
use machinery::field::Path;
use machinery::node_affinity;
use serde_json::{Value, json};

use crate::launcher::best_match_label;
use crate::names::{CPU_MANAGER_LABEL, FEATURE_LABEL, MACHINE_LABEL, SCHEDULABLE_LABEL, TRUE};
use crate::resources::Resources;

/// The inputs of a demand: fields of the VM, and the settings for all VMs of the cluster.
#[derive(Debug, Clone, Default)]
pub struct DemandInputs<'a> {
    /// `spec.nodeSelector`: labels that the node must have.
    pub node_selector: Option<&'a BTreeMap<String, String>>,
    /// Required node affinity.
    pub required: Option<&'a NodeSelector>,
    /// `spec.tolerations`.
    pub tolerations: &'a [Toleration],
    /// CPU features that the node must have.
    pub required_features: &'a [String],
    /// CPU features that the node must not have.
    pub forbidden_features: &'a [String],
    /// The architecture as GOARCH spells it.
    pub architecture: Option<&'a str>,
    /// The machine type that the node must have.
    pub machine_type: Option<&'a str>,
    /// Whether the VM gets dedicated CPUs.
    pub dedicated_cpus: bool,
    /// What its pod requests of the node.
    pub resources: Resources,
}

/// What a VM demands of a node. VMs with equal demands share cached results.
#[derive(Debug, Clone)]
pub struct Demand {
    /// Canonical JSON of all parts: equal demands have equal keys.
    key: Arc<str>,
    pub(crate) labels: Vec<(String, String)>,
    pub(crate) absent: Vec<String>,
    pub(crate) affinity: Option<node_affinity::NodeSelector>,
    pub(crate) tolerations: Vec<Value>,
    pub(crate) architecture: Option<String>,
    /// Labels that the node must have, unless no node reports them at all.
    pub(crate) if_reported: Vec<String>,
    pub(crate) resources: Resources,
}

impl Demand {
    /// Normalises these parts, so that equal demands compare equal.
    pub fn new(parts: &DemandInputs<'_>) -> Self {
        let feature = |name: &String| format!("{FEATURE_LABEL}{name}");
        // KubeVirt takes `best-match-model` for the name of a model, and selects nodes with its
        // label.
        let impossible = best_match_label();
        let mut labels: Vec<(String, String)> = parts
            .node_selector
            .into_iter()
            .flatten()
            // `spec.nodes` of the policy decides about nodes without a heartbeat.
            .filter(|(key, _)| **key != impossible && *key != SCHEDULABLE_LABEL)
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        let features = parts.required_features.iter();
        labels.extend(features.map(|name| (feature(name), TRUE.to_owned())));
        labels.sort();
        labels.dedup();
        let mut absent: Vec<String> = parts.forbidden_features.iter().map(feature).collect();
        absent.sort();
        absent.dedup();
        // These types always serialise: their map keys are strings.
        let required = parts
            .required
            .map(|selector| serde_json::to_value(selector).unwrap_or_default());
        let tolerations = parts
            .tolerations
            .iter()
            .map(|toleration| serde_json::to_value(toleration).unwrap_or_default());
        let tolerations: Vec<Value> = tolerations.collect();
        let machine = parts.machine_type;
        let machine = machine.map(|name| format!("{MACHINE_LABEL}{name}"));
        let dedicated = parts.dedicated_cpus.then(|| CPU_MANAGER_LABEL.to_owned());
        let if_reported: Vec<String> = machine.into_iter().chain(dedicated).collect();
        let all = json!([
            labels,
            absent,
            required,
            tolerations,
            parts.architecture,
            if_reported,
            parts.resources
        ]);
        let affinity = required.map(|selector| {
            let path = Path::root()
                .child("spec")
                .child("affinity")
                .child("nodeAffinity")
                .child("requiredDuringSchedulingIgnoredDuringExecution");
            node_affinity::NodeSelector::new(&selector, &path)
        });
        Self {
            key: Arc::from(all.to_string()),
            labels,
            absent,
            affinity,
            tolerations,
            architecture: parts.architecture.map(str::to_owned),
            if_reported,
            resources: parts.resources.clone(),
        }
    }

    /// The architecture requested in the spec.
    pub fn architecture(&self) -> Option<&str> {
        self.architecture.as_deref()
    }

    /// The canonical JSON, which is the cache key.
    pub(crate) fn key(&self) -> &Arc<str> {
        &self.key
    }
}

impl Default for Demand {
    fn default() -> Self {
        Self::new(&DemandInputs::default())
    }
}

impl PartialEq for Demand {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl Eq for Demand {}

impl Hash for Demand {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key.hash(state);
    }
}
