//! Pods, nodes and images for tests.

use std::collections::BTreeMap;

use platform::Platform;
use serde_json::{Value, json};

use crate::{Cluster, Decision, Knowledge, Node, RuntimeClass, Settings, decide, names};

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

/// A node with more: `spec`, labels, `status`.
pub(crate) fn node_with(name: &str, platform: &str, more: &Value) -> Value {
    let mut node = node(name, platform);
    machinery::patch::merge_patch(&mut node, more).unwrap();
    node
}

/// A cluster of one node of each.
pub(crate) fn cluster(platforms: &[&str]) -> Cluster {
    let nodes = platforms.iter().enumerate();
    nodes
        .map(|(index, platform)| Node::read(&node(&format!("node-{index}"), platform)))
        .collect()
}

pub(crate) fn cluster_of(nodes: &[Value]) -> Cluster {
    nodes.iter().map(Node::read).collect()
}

/// A pod with a container for each image, and whatever else its spec has.
pub(crate) fn pod(images: &[&str], more: &Value) -> Value {
    let containers = images.iter().enumerate();
    let containers: Vec<Value> = containers
        .map(|(index, image)| json!({ "name": format!("c{index}"), "image": image }))
        .collect();
    let mut spec = json!({ "containers": containers });
    machinery::patch::merge_patch(&mut spec, more).unwrap();
    json!({ "metadata": { "name": "web", "namespace": "shop" }, "spec": spec })
}

/// What is known of images.
pub(crate) fn known(images: &[(&str, &[&str])]) -> BTreeMap<String, Knowledge> {
    let known = images.iter().map(|(image, platforms)| {
        let platforms = platforms.iter().map(|it| it.parse().unwrap()).collect();
        ((*image).to_owned(), Knowledge::Platforms(platforms))
    });
    known.collect()
}

/// Decides without classes and with the usual settings.
pub(crate) fn decided(
    pod: &Value,
    known: &BTreeMap<String, Knowledge>,
    cluster: &Cluster,
) -> Decision {
    decide(pod, known, &BTreeMap::new(), cluster, &Settings::default())
}

/// A class, by name.
pub(crate) fn classes(class: &RuntimeClass) -> BTreeMap<String, RuntimeClass> {
    BTreeMap::from([(class.name.clone(), class.clone())])
}
