//! Node requirements of a migration target.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Node;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use crate::names::HOSTNAME;
use crate::operators::kubevirt::labels::{
    CPU_FEATURE, CPU_MODEL_MIGRATION, CREATED_BY, HOST_MODEL, HOST_MODEL_FEATURES,
};
use crate::operators::kubevirt::launcher::Launcher;
use crate::operators::kubevirt::object::text;

type Labels = BTreeMap<String, String>;

/// The node selector of a target, from its rendered pod, the source pod and the labels of the
/// source node. KubeVirt 1.7 does not ask for the CPU vendor of the source.
pub(super) fn target_selector(
    migration: &DynamicObject,
    instance: &DynamicObject,
    pod: &Value,
    source: &Launcher,
    node: &Labels,
) -> Result<Labels, String> {
    let texts = |value: Option<&Value>| -> Labels {
        let found = value.and_then(|value| serde_json::from_value(value.clone()).ok());
        found.unwrap_or_default()
    };
    // The instance's selector overrides the one of the migration.
    let mut selector = texts(migration.data.pointer("/spec/addedNodeSelector"));
    selector.extend(texts(pod.pointer("/spec/nodeSelector")));
    if text(instance, "/spec/domain/cpu/model") == "host-model" {
        selector.extend(host_model(source, node)?);
    }
    Ok(selector)
}

/// Labels required by a host-model guest. The first node defines its CPU: after a migration the
/// selector of its current pod carries them on, so that it can move back.
fn host_model(source: &Launcher, node: &Labels) -> Result<Labels, String> {
    let remembered = cpu_labels(&source.node_selector);
    if !remembered.is_empty() {
        return Ok(remembered);
    }
    let mut found = Labels::new();
    let mut model = false;
    for (key, value) in node {
        if let Some(name) = key.strip_prefix(HOST_MODEL) {
            found.insert(format!("{CPU_MODEL_MIGRATION}{name}"), value.clone());
            model = true;
        } else if let Some(name) = key.strip_prefix(HOST_MODEL_FEATURES) {
            found.insert(format!("{CPU_FEATURE}{name}"), value.clone());
        }
    }
    if model {
        Ok(found)
    } else {
        Err(format!(
            "unable to locate host cpu model, does not contain label \"{HOST_MODEL}\" with information"
        ))
    }
}

fn cpu_labels(labels: &Labels) -> Labels {
    let about = |key: &str| key.starts_with(CPU_FEATURE) || key.starts_with(CPU_MODEL_MIGRATION);
    let found = labels.iter().filter(|(key, _)| about(key));
    found
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

/// Anti-affinity of a target to its source.
pub(super) fn keep_apart(pod: &mut Value, instance: &DynamicObject) {
    let term = json!({
        "labelSelector": { "matchLabels": { CREATED_BY: instance.metadata.uid } },
        "topologyKey": HOSTNAME,
    });
    let affinity = &mut pod["spec"]["affinity"];
    if !affinity.is_object() {
        *affinity = json!({});
    }
    if !affinity["podAntiAffinity"].is_object() {
        affinity["podAntiAffinity"] = json!({});
    }
    let required =
        &mut affinity["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    match required.as_array_mut() {
        Some(terms) => terms.push(term),
        None => *required = json!([term]),
    }
}

/// The CPU requirements of a target as Go prints them, if none of these nodes meets them.
pub(super) fn lacking<'a>(
    target: &Launcher,
    mut nodes: impl Iterator<Item = &'a Node>,
) -> Option<String> {
    let required = cpu_labels(&target.node_selector);
    let suits = |node: &Node| {
        let labels = node.metadata.labels.as_ref();
        required
            .iter()
            .all(|(key, value)| labels.is_some_and(|labels| labels.get(key) == Some(value)))
    };
    if nodes.any(suits) {
        return None;
    }
    let entries: Vec<String> = required
        .iter()
        .map(|(key, value)| format!("{key}:{value}"))
        .collect();
    Some(format!("map[{}]", entries.join(" ")))
}

#[cfg(test)]
mod tests;
