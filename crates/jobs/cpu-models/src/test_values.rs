//! Test fixtures: nodes and VMs.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{NodeSelector, Toleration};
use serde_json::Value;

use crate::demand::{Demand, DemandInputs};
use crate::index::Index;
use crate::index::node::NodeInputs;
use crate::machine::{Machine, Requested};
use crate::names::{HOST_MODEL_LABEL, MODEL_LABEL, SCHEDULABLE_LABEL, VENDOR_LABEL};

/// A schedulable amd64 node of a vendor with these models.
pub(crate) fn node(name: &str, vendor: &str, models: &[&str]) -> NodeInputs {
    let mut labels = BTreeMap::new();
    let mut put = |key: String| labels.insert(key, "true".to_owned());
    put(SCHEDULABLE_LABEL.to_owned());
    put(format!("{VENDOR_LABEL}{vendor}"));
    for model in models {
        put(format!("{MODEL_LABEL}{model}"));
    }
    NodeInputs {
        name: name.to_owned(),
        labels,
        unschedulable: false,
        ready: true,
        taints: Vec::new(),
        architecture: Some("amd64".to_owned()),
        allocatable: BTreeMap::new(),
    }
}

/// The node with these labels; an empty value removes a label.
pub(crate) fn labelled(mut node: NodeInputs, labels: &[(&str, &str)]) -> NodeInputs {
    for (key, value) in labels {
        if value.is_empty() {
            node.labels.remove(*key);
        } else {
            node.labels.insert((*key).to_owned(), (*value).to_owned());
        }
    }
    node
}

/// The node with a host model.
pub(crate) fn hosted(node: NodeInputs, host_model: &str) -> NodeInputs {
    let key = format!("{HOST_MODEL_LABEL}{host_model}");
    labelled(node, &[(key.as_str(), "true")])
}

/// Identical nodes, named `prefix0`, `prefix1` and so on.
pub(crate) fn identical_nodes(
    prefix: &str,
    count: usize,
    vendor: &str,
    models: &[&str],
) -> Vec<NodeInputs> {
    let name = |number| format!("{prefix}{number}");
    (0..count)
        .map(|number| node(&name(number), vendor, models))
        .collect()
}

/// The index of groups of nodes.
pub(crate) fn index(groups: impl IntoIterator<Item = Vec<NodeInputs>>) -> Index {
    Index::new(groups.into_iter().flatten())
}

/// A VM that requests best-match-model, with parts of a pod spec.
pub(crate) fn machine(mut spec: Value) -> Machine {
    let required: Option<NodeSelector> = serde_json::from_value(spec["required"].take()).unwrap();
    let selector: Option<BTreeMap<String, String>> =
        serde_json::from_value(spec["nodeSelector"].take()).unwrap();
    let tolerations: Option<Vec<Toleration>> =
        serde_json::from_value(spec["tolerations"].take()).unwrap();
    let tolerations = tolerations.unwrap_or_default();
    let mut texts = |name: &str| -> Vec<String> {
        let given: Option<Vec<String>> = serde_json::from_value(spec[name].take()).unwrap();
        given.unwrap_or_default()
    };
    let (features, forbidden) = (texts("features"), texts("forbidden"));
    let demand = Demand::new(&DemandInputs {
        node_selector: selector.as_ref(),
        required: required.as_ref(),
        tolerations: &tolerations,
        required_features: &features,
        forbidden_features: &forbidden,
        architecture: Some(spec["architecture"].as_str().unwrap_or("amd64")),
        machine_type: None,
        dedicated_cpus: false,
        resources: BTreeMap::new(),
    });
    Machine {
        namespace: "default".to_owned(),
        name: "vm".to_owned(),
        requested: Requested::BestMatch,
        demand: Arc::new(demand),
    }
}
