//! Settings of placement.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use platform::Platform;
use platform::windows::Isolation;
use serde_json::Value;

use crate::handler::Handler;
use crate::names;

/// Settings of placement.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Default operating system for images that run on several, unless the pod selects one.
    pub operating_system: String,
    /// Preference weights of architectures, 1 to 100. Missing architectures are not preferred.
    pub weights: BTreeMap<String, u8>,
    /// Assumed architecture of images that cannot be inspected. Without it they do not restrict the pod.
    pub fallback_architecture: Option<String>,
    /// Keys of taints that a pod is given tolerations for if its images run there.
    pub tolerated_taints: BTreeSet<String>,
    /// RuntimeClasses that may be set on a pod without one when nothing else fits, best first.
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

/// The properties of a RuntimeClass that decide which images run.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RuntimeClass {
    /// Its name.
    pub name: String,
    /// Isolation of Windows containers.
    pub isolation: Isolation,
    /// The platform of the handler, if it differs from the node's: an older Windows, or an emulated architecture.
    pub platform: Option<Platform>,
    /// Labels of the nodes that have the handler (`scheduling.nodeSelector`). The RuntimeClass admission plugin merges
    /// them into pods of the class.
    pub node_selector: BTreeMap<String, String>,
    /// Tolerations added to pods of the class (`scheduling.tolerations`).
    pub tolerations: Vec<Value>,
}

impl RuntimeClass {
    /// Reads a RuntimeClass. The platform comes from annotations that Medley writes, else from the name of the handler.
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
            // An unknown value is the weaker promise: process isolation runs fewer images.
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
        // Windows nodes are amd64 in practice; a class for others selects its architecture.
        let architecture = architecture.map_or("amd64", String::as_str);
        let platform = annotation(names::PLATFORM).and_then(|value| value.parse().ok());
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
