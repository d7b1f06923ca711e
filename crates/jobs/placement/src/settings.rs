//! How pods are placed, where there is a choice.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use platform::Platform;
use platform::windows::Isolation;
use serde_json::Value;

use crate::handler::Handler;
use crate::names;

/// How pods are placed.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// What is meant by images that run on several operating systems, if the pod does not say it.
    pub operating_system: String,
    /// How much pods should prefer architectures, from 1 to 100. What is not here is not preferred.
    pub weights: BTreeMap<String, u8>,
    /// The architecture of images that nobody can look at. Without it such an image does not count.
    pub fallback_architecture: Option<String>,
    /// Taints of nodes, by key, that a pod is made to tolerate if its images run there.
    pub tolerated_taints: BTreeSet<String>,
    /// Runtime classes that a pod without one may be given when nothing else fits, the best first.
    pub offered: Vec<RuntimeClass>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            operating_system: "linux".to_owned(),
            weights: BTreeMap::new(),
            fallback_architecture: None,
            tolerated_taints: names::PLATFORM_TAINTS.map(ToOwned::to_owned).into(),
            offered: Vec::new(),
        }
    }
}

/// What a RuntimeClass changes about what runs.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RuntimeClass {
    /// What pods call it.
    pub name: String,
    /// How Windows containers are kept apart.
    pub isolation: Isolation,
    /// What the handler runs instead of what the node is: an older Windows, or another architecture
    /// by emulation.
    pub platform: Option<Platform>,
    /// Labels of the nodes that have the handler (`scheduling.nodeSelector`). The API server adds them
    /// to pods of the class.
    pub node_selector: BTreeMap<String, String>,
    /// What pods of the class tolerate (`scheduling.tolerations`).
    pub tolerations: Vec<Value>,
}

impl RuntimeClass {
    /// Reads a RuntimeClass. What its handler runs is said by annotations that Medley writes; without
    /// them, by the name of the handler.
    pub fn read(class: &Value) -> Self {
        let text = |pointer: &str| {
            let found = class.pointer(pointer).and_then(Value::as_str);
            found.unwrap_or_default()
        };
        let annotation = |key: &str| {
            let annotations = class.pointer("/metadata/annotations");
            annotations
                .and_then(|all| all.get(key))
                .and_then(Value::as_str)
        };
        let handler = Handler::parse(text("/handler")).unwrap_or_default();
        let isolation = match annotation(names::ISOLATION) {
            Some(names::HYPER_V) => Isolation::HyperV,
            Some(_) => Isolation::Process,
            None => handler.isolation,
        };
        let selector = class
            .pointer("/scheduling/nodeSelector")
            .and_then(Value::as_object);
        let selector = selector.into_iter().flatten();
        let node_selector: BTreeMap<String, String> = selector
            .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
            .collect();
        let architecture = node_selector.get(names::ARCHITECTURE);
        let architecture = architecture.map_or("amd64", String::as_str);
        let platform = annotation(names::PLATFORM).and_then(|said| said.parse().ok());
        let tolerations = class
            .pointer("/scheduling/tolerations")
            .and_then(Value::as_array);
        Self {
            name: text("/metadata/name").to_owned(),
            isolation,
            platform: platform.or_else(|| handler.platform(architecture)),
            node_selector,
            tolerations: tolerations.cloned().unwrap_or_default(),
        }
    }
}
