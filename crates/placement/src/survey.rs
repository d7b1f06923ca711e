//! All pods of a cluster at once: what their images are for, and who can never run.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::Value;

use crate::cluster::{Cluster, Node, judge};
use crate::decide::{Decision, decide};
use crate::images::{Knowledge, images};
use crate::settings::{RuntimeClass, Settings};

/// What there is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Survey {
    /// The images that pods use, by name.
    pub images: Vec<Coverage>,
    /// Pods that no node can run.
    pub stuck: Vec<Stuck>,
    /// Nodes that run nothing but what runs on every node.
    pub idle: Vec<String>,
}

/// An image, and how many nodes run it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Coverage {
    /// The image.
    pub image: String,
    /// What it is for, or why nobody knows.
    pub told: String,
    /// How many pods use it.
    pub pods: usize,
    /// How many nodes run it.
    pub nodes: usize,
    /// Of how many.
    pub of_nodes: usize,
}

/// A pod that no node can run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Stuck {
    /// Namespace and name.
    pub pod: String,
    /// A word.
    pub reason: &'static str,
    /// A sentence.
    pub why: String,
}

/// Looks through all pods, by namespace and name. `classes` are the RuntimeClasses of the cluster.
pub fn survey(
    pods: &BTreeMap<String, Value>,
    known: &BTreeMap<String, Knowledge>,
    classes: &BTreeMap<String, RuntimeClass>,
    cluster: &Cluster,
    settings: &Settings,
) -> Survey {
    let mut users: BTreeMap<String, usize> = BTreeMap::new();
    let mut busy: BTreeSet<&str> = BTreeSet::new();
    let mut stuck = Vec::new();
    for (name, pod) in pods {
        let spec = pod.get("spec").unwrap_or(&Value::Null);
        let used: BTreeSet<String> = images(spec).into_iter().map(|used| used.image).collect();
        for image in used {
            *users.entry(image).or_default() += 1;
        }
        match spec.get("nodeName").and_then(Value::as_str) {
            Some(node) if !is_everywhere(pod) => {
                busy.insert(node);
            }
            Some(_) => {}
            None => stuck.extend(decided(name, pod, known, classes, cluster, settings)),
        }
    }
    let images = users.into_iter().map(|(image, pods)| {
        let (told, nodes) = covered(known.get(&image), cluster);
        Coverage {
            image,
            told,
            pods,
            nodes,
            of_nodes: cluster.len(),
        }
    });
    let nodes = cluster.nodes().map(Node::name);
    Survey {
        images: images.collect(),
        stuck,
        idle: nodes
            .filter(|name| !busy.contains(name))
            .map(ToOwned::to_owned)
            .collect(),
    }
}

fn decided(
    name: &str,
    pod: &Value,
    known: &BTreeMap<String, Knowledge>,
    classes: &BTreeMap<String, RuntimeClass>,
    cluster: &Cluster,
    settings: &Settings,
) -> Option<Stuck> {
    match decide(pod, known, classes, cluster, settings) {
        Decision::NoFit(no_fit) => Some(Stuck {
            pod: name.to_owned(),
            reason: no_fit.shortfall.reason(),
            why: no_fit.to_string(),
        }),
        Decision::Leave(_) | Decision::Ask(_) | Decision::Place(_) => None,
    }
}

/// Says whether a pod is one of those that every node has.
fn is_everywhere(pod: &Value) -> bool {
    let owners = pod
        .pointer("/metadata/ownerReferences")
        .and_then(Value::as_array);
    owners.into_iter().flatten().any(|owner| {
        matches!(
            owner.get("kind").and_then(Value::as_str),
            Some("DaemonSet" | "Node")
        )
    })
}

/// What an image is for, and how many nodes run it.
fn covered(known: Option<&Knowledge>, cluster: &Cluster) -> (String, usize) {
    match known {
        None => ("not looked at".to_owned(), 0),
        Some(Knowledge::Anywhere) => ("any node".to_owned(), cluster.len()),
        Some(Knowledge::Uninspectable(why)) => (why.message.clone(), 0),
        Some(Knowledge::Platforms(platforms)) => {
            let told: Vec<String> = platforms.iter().map(ToString::to_string).collect();
            let runs = cluster
                .nodes()
                .filter(|node| judge(&node.place, node.runtime, None, platforms).is_ok());
            (told.join(","), runs.count())
        }
    }
}
