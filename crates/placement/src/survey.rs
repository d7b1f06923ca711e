//! All pods of a cluster at once: what their images are for, and who can never run.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use platform::Platform;
use serde::Serialize;
use serde_json::Value;

use crate::cluster::{Cluster, Node, judge};
use crate::decide::{Decision, decide};
use crate::fit::Demand;
use crate::images::{Knowledge, images};
use crate::settings::{RuntimeClass, Settings};

/// What there is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Survey {
    /// The images that pods use, by name.
    pub images: Vec<Coverage>,
    /// Kinds of nodes, and how many of these images they run.
    pub places: Vec<PlaceCoverage>,
    /// Pods that no node can run, and pods on nodes that cannot run them.
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

/// A kind of node, and how many images run there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlaceCoverage {
    /// What these nodes are.
    pub place: String,
    /// How many there are.
    pub nodes: usize,
    /// How many images run there.
    pub images: usize,
    /// Of how many of which that is known.
    pub of_images: usize,
}

/// A pod that no node can run, or that is where it cannot.
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
        if is_over(pod) {
            continue;
        }
        let Some(node) = spec.get("nodeName").and_then(Value::as_str) else {
            stuck.extend(decided(name, pod, known, classes, cluster, settings));
            continue;
        };
        if !is_everywhere(pod) {
            busy.insert(node);
        }
        let class = spec.get("runtimeClassName").and_then(Value::as_str);
        let class = class.and_then(|class| classes.get(class));
        let demand = Demand::new(&images(spec), known, settings);
        let node = cluster.nodes().find(|it| it.name() == node);
        stuck.extend(node.and_then(|node| misplaced(name, &demand, node, class)));
    }
    let covered_images = users.iter().map(|(image, pods)| {
        let (told, nodes) = covered(known.get(image), cluster);
        Coverage {
            image: image.clone(),
            told,
            pods: *pods,
            nodes,
            of_nodes: cluster.len(),
        }
    });
    let nodes = cluster.nodes().map(Node::name);
    Survey {
        places: places(users.keys(), known, cluster),
        images: covered_images.collect(),
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

/// A pod on a node that does not run its images: it was put there before anybody looked, and tries for
/// ever.
fn misplaced(
    name: &str,
    demand: &Demand,
    node: &Node,
    class: Option<&RuntimeClass>,
) -> Option<Stuck> {
    let misfits = demand.misfits(&node.place, node.runtime, class);
    let why: Vec<String> = misfits
        .into_iter()
        .map(|(used, unfit)| format!("image {} of {} is for {unfit}", used.image, used.by))
        .collect();
    (!why.is_empty()).then(|| Stuck {
        pod: name.to_owned(),
        reason: "WrongNode",
        why: format!(
            "it is on node {}, which is {}, but {}; delete it, so that it is placed anew",
            node.name(),
            node.place,
            why.join(", ")
        ),
    })
}

/// How many images run on each kind of node.
fn places<'a>(
    images: impl Iterator<Item = &'a String> + Clone,
    known: &BTreeMap<String, Knowledge>,
    cluster: &Cluster,
) -> Vec<PlaceCoverage> {
    let platforms = images.filter_map(|image| match known.get(image)? {
        Knowledge::Platforms(platforms) => Some(platforms),
        Knowledge::Anywhere | Knowledge::Uninspectable(_) => None,
    });
    let all: Vec<&Vec<Platform>> = platforms.collect();
    let places = cluster.places().map(|(place, nodes)| {
        let runtimes = cluster.runtimes_of(place);
        let runs = |platforms: &&&Vec<Platform>| {
            let mut runtimes = runtimes.iter();
            runtimes.all(|runtime| judge(place, *runtime, None, platforms).is_ok())
        };
        PlaceCoverage {
            place: place.to_string(),
            nodes,
            images: all.iter().filter(runs).count(),
            of_images: all.len(),
        }
    });
    places.collect()
}

/// Says whether a pod has ended.
fn is_over(pod: &Value) -> bool {
    let phase = pod.pointer("/status/phase").and_then(Value::as_str);
    matches!(phase, Some("Succeeded" | "Failed"))
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
