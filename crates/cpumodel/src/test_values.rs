//! Nodes and machines for tests.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::demand::{Demand, Parts};
use crate::index::Index;
use crate::index::node::NodeFacts;
use crate::machine::{Machine, Requested};
use crate::names::{HOST_MODEL_LABEL, MODEL_LABEL, SCHEDULABLE_LABEL, VENDOR_LABEL};

/// A node of a vendor with these models.
pub(crate) fn node(name: &str, vendor: &str, models: &[&str]) -> NodeFacts {
    let mut labels = BTreeMap::new();
    let mut put = |key: String| labels.insert(key, "true".to_owned());
    put(SCHEDULABLE_LABEL.to_owned());
    put(format!("{VENDOR_LABEL}{vendor}"));
    for model in models {
        put(format!("{MODEL_LABEL}{model}"));
    }
    NodeFacts {
        name: name.to_owned(),
        labels,
        unschedulable: false,
        ready: true,
        taints: Vec::new(),
        architecture: Some("amd64".to_owned()),
    }
}

/// The same with labels; an empty value takes a label off.
pub(crate) fn labelled(mut node: NodeFacts, labels: &[(&str, &str)]) -> NodeFacts {
    for (key, value) in labels {
        if value.is_empty() {
            node.labels.remove(*key);
        } else {
            node.labels.insert((*key).to_owned(), (*value).to_owned());
        }
    }
    node
}

/// The same with a host model.
pub(crate) fn hosted(node: NodeFacts, host_model: &str) -> NodeFacts {
    let key = format!("{HOST_MODEL_LABEL}{host_model}");
    labelled(node, &[(key.as_str(), "true")])
}

/// So many nodes that are alike, called `prefix0` and on.
pub(crate) fn alike(prefix: &str, count: usize, vendor: &str, models: &[&str]) -> Vec<NodeFacts> {
    let name = |number| format!("{prefix}{number}");
    (0..count)
        .map(|number| node(&name(number), vendor, models))
        .collect()
}

/// The index of groups of nodes.
pub(crate) fn index(groups: impl IntoIterator<Item = Vec<NodeFacts>>) -> Index {
    Index::new(groups.into_iter().flatten())
}

/// A machine that leaves the choice to Medley, with parts of a pod spec.
pub(crate) fn machine(spec: Value) -> Machine {
    let selector: BTreeMap<String, String> =
        serde_json::from_value(spec.get("nodeSelector").cloned().unwrap_or(json!({}))).unwrap();
    let required = spec
        .get("required")
        .map(|required| serde_json::from_value(required.clone()).unwrap());
    let tolerations: Vec<_> =
        serde_json::from_value(spec.get("tolerations").cloned().unwrap_or(json!([]))).unwrap();
    let texts = |name: &str| -> Vec<String> {
        serde_json::from_value(spec.get(name).cloned().unwrap_or(json!([]))).unwrap()
    };
    let demand = Demand::new(&Parts {
        node_selector: Some(&selector),
        required: required.as_ref(),
        tolerations: &tolerations,
        required_features: &texts("features"),
        forbidden_features: &texts("forbidden"),
        architecture: Some(spec["architecture"].as_str().unwrap_or("amd64")),
    });
    Machine {
        namespace: "default".to_owned(),
        name: "vm".to_owned(),
        requested: Requested::BestMatch,
        demand: Arc::new(demand),
    }
}
