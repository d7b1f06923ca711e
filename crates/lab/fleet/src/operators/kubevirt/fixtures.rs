//! Fixtures for tests of KubeVirt's controllers.

use std::collections::BTreeMap;

use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::config::Config;
use super::launcher::Launcher;

/// An object of any kind.
pub(super) fn object(value: Value) -> DynamicObject {
    serde_json::from_value(value).expect("an object")
}

/// A KubeVirt configuration.
pub(super) fn config(configuration: &Value) -> Config {
    let spec = json!({ "configuration": configuration });
    Config::of(Some(&object(json!({ "metadata": {}, "spec": spec }))))
}

/// A launcher pod running on a node.
pub(super) fn launcher(name: &str, node: &str) -> Launcher {
    Launcher {
        name: name.into(),
        uid: name.into(),
        node: node.into(),
        address: None,
        ready: true,
        phase: "Running".into(),
        leaving: false,
        created: None,
        image: String::new(),
        qos_class: None,
        unscheduled: None,
        readiness: None,
        unpaused: true,
        labelled: None,
        marked: false,
        migration: None,
        node_selector: BTreeMap::new(),
    }
}
