//! Pods, nodes and images for tests.

use std::collections::BTreeMap;

use platform::Platform;
use serde_json::{Value, json};

use crate::{Cluster, Decision, Inspection, Node, RuntimeClass, Settings, decide, names};

/// A node of `linux/arm64`, `windows(10.0.20348)/amd64` or the like.
pub(crate) fn node(name: &str, platform: &str) -> Value {
    let platform: Platform = platform.parse().unwrap();
    let mut labels = json!({
        names::OS: platform.os,
        names::ARCHITECTURE: platform.architecture,
        "kubernetes.io/hostname": name,
    });
    if !platform.os_version.is_empty() {
        labels[names::WINDOWS_BUILD] = platform.os_version.into();
    }
    if !platform.variant.is_empty() {
        labels[names::VARIANT] = platform.variant.into();
    }
    json!({
        "metadata": { "name": name, "labels": labels },
        "status": { "nodeInfo": { "containerRuntimeVersion": "containerd://2.1.4" } },
    })
}

/// A node with additional `spec`, labels or `status`.
pub(crate) fn node_with(name: &str, platform: &str, more: &Value) -> Value {
    let mut node = node(name, platform);
    machinery::patch::merge_patch(&mut node, more).unwrap();
    node
}

/// A cluster with one node of each platform.
pub(crate) fn cluster(platforms: &[&str]) -> Cluster {
    let nodes = platforms.iter().enumerate();
    nodes
        .map(|(index, platform)| read(&node(&format!("node-{index}"), platform)))
        .collect()
}

pub(crate) fn cluster_of(nodes: &[Value]) -> Cluster {
    nodes.iter().map(read).collect()
}

/// A node from its JSON.
pub(crate) fn read(node: &Value) -> Node {
    Node::read(&serde_json::from_value(node.clone()).unwrap())
}

/// A pod with a container for each image, and more spec fields.
pub(crate) fn pod(images: &[&str], more: &Value) -> Value {
    let containers = images.iter().enumerate();
    let containers: Vec<Value> = containers
        .map(|(index, image)| json!({ "name": format!("c{index}"), "image": image }))
        .collect();
    let mut spec = json!({ "containers": containers });
    machinery::patch::merge_patch(&mut spec, more).unwrap();
    json!({ "metadata": { "name": "web", "namespace": "shop" }, "spec": spec })
}

/// Inspection results.
pub(crate) fn known(images: &[(&str, &[&str])]) -> BTreeMap<String, Inspection> {
    let known = images.iter().map(|(image, platforms)| {
        let platforms = platforms.iter().map(|it| it.parse().unwrap()).collect();
        ((*image).to_owned(), Inspection::Platforms(platforms))
    });
    known.collect()
}

/// Decides without RuntimeClasses and with default settings.
pub(crate) fn decided(
    pod: &Value,
    known: &BTreeMap<String, Inspection>,
    cluster: &Cluster,
) -> Decision {
    decide(pod, known, &BTreeMap::new(), cluster, &Settings::default())
}

/// The class as a map by name.
pub(crate) fn classes(class: &RuntimeClass) -> BTreeMap<String, RuntimeClass> {
    BTreeMap::from([(class.name.clone(), class.clone())])
}
