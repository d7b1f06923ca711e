//! All pods of a cluster at once: what their images are for, and who can never run.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::Value;

use crate::cluster::{Cluster, Judge, Node, Place, Runtime};
use crate::decide::{Decision, decide};
use crate::fit::Demand;
use crate::images::{Knowledge, Platforms, Used, images};
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

/// What is looked at of a pod. Pods are many, and most have a node: of those little matters.
#[derive(Debug, Clone, PartialEq)]
pub struct Surveyed {
    /// The images that it uses.
    pub images: Vec<Used>,
    /// The node that it is on.
    pub node: Option<String>,
    /// Its RuntimeClass.
    pub class: Option<String>,
    /// Whether it has ended.
    pub is_over: bool,
    /// Whether it is one of those that every node has.
    pub is_everywhere: bool,
    /// The whole of it, if it has no node: what it asks for counts then.
    pub object: Option<Value>,
}

impl Surveyed {
    /// Reads a Pod.
    pub fn read(pod: &Value) -> Self {
        let spec = pod.get("spec").unwrap_or(&Value::Null);
        let text = |name: &str| spec.get(name).and_then(Value::as_str).map(str::to_owned);
        let node = text("nodeName");
        Self {
            images: images(spec),
            class: text("runtimeClassName"),
            is_over: is_over(pod),
            is_everywhere: is_everywhere(pod),
            object: node.is_none().then(|| pod.clone()),
            node,
        }
    }
}

/// Looks through all pods, by namespace and name. `classes` are the RuntimeClasses of the cluster.
pub fn survey(
    pods: &BTreeMap<String, Surveyed>,
    known: &BTreeMap<String, Knowledge>,
    classes: &BTreeMap<String, RuntimeClass>,
    cluster: &Cluster,
    settings: &Settings,
) -> Survey {
    let mut users: BTreeMap<&str, usize> = BTreeMap::new();
    let mut busy: BTreeSet<&str> = BTreeSet::new();
    let mut stuck = Vec::new();
    // Pods of one workload ask for the same.
    let mut demands: BTreeMap<&[Used], Demand> = BTreeMap::new();
    for (name, pod) in pods {
        let used: BTreeSet<&str> = pod.images.iter().map(|used| used.image.as_str()).collect();
        for image in used {
            *users.entry(image).or_default() += 1;
        }
        if pod.is_over {
            continue;
        }
        let Some(node) = &pod.node else {
            let object = pod.object.as_ref();
            stuck.extend(
                object.and_then(|pod| decided(name, pod, known, classes, cluster, settings)),
            );
            continue;
        };
        if !pod.is_everywhere {
            busy.insert(node);
        }
        let class = pod.class.as_ref().and_then(|class| classes.get(class));
        let demand = demands
            .entry(&pod.images)
            .or_insert_with(|| Demand::new(&pod.images, known, settings));
        let node = cluster.node(node);
        stuck.extend(node.and_then(|node| misplaced(name, demand, node, class)));
    }
    let kinds = kinds(cluster);
    let covered_images = users.iter().map(|(image, pods)| {
        let (told, nodes) = covered(known.get(*image), cluster, &kinds);
        Coverage {
            image: (*image).to_owned(),
            told,
            pods: *pods,
            nodes,
            of_nodes: cluster.len(),
        }
    });
    let nodes = cluster.nodes().map(Node::name);
    Survey {
        places: places(users.keys().copied(), known, cluster),
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
    images: impl Iterator<Item = &'a str>,
    known: &BTreeMap<String, Knowledge>,
    cluster: &Cluster,
) -> Vec<PlaceCoverage> {
    let platforms = images.filter_map(|image| match known.get(image)? {
        Knowledge::Platforms(platforms) => Some(platforms),
        Knowledge::Anywhere | Knowledge::Uninspectable(_) => None,
    });
    let all: Vec<&Platforms> = platforms.collect();
    let places = cluster.places().map(|(place, nodes)| {
        let runtimes = cluster.runtimes_of(place).into_iter();
        let judges = runtimes.map(|runtime| Judge::new(place, runtime, None));
        let judges: Vec<Judge> = judges.collect();
        let runs = |platforms: &&&Platforms| judges.iter().all(|it| it.rank(platforms).is_ok());
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

/// Nodes that run the same images, and how many there are.
fn kinds(cluster: &Cluster) -> BTreeMap<(&Place, Runtime), usize> {
    let mut kinds: BTreeMap<(&Place, Runtime), usize> = BTreeMap::new();
    for node in cluster.nodes() {
        *kinds.entry((&node.place, node.runtime)).or_default() += 1;
    }
    kinds
}

/// What an image is for, and how many nodes run it.
fn covered(
    known: Option<&Knowledge>,
    cluster: &Cluster,
    kinds: &BTreeMap<(&Place, Runtime), usize>,
) -> (String, usize) {
    match known {
        None => ("not looked at".to_owned(), 0),
        Some(Knowledge::Anywhere) => ("any node".to_owned(), cluster.len()),
        Some(Knowledge::Uninspectable(why)) => (why.message.clone(), 0),
        Some(Knowledge::Platforms(platforms)) => {
            let told: Vec<String> = platforms
                .written()
                .iter()
                .map(ToString::to_string)
                .collect();
            let runs = kinds.iter().filter(|((place, runtime), _)| {
                Judge::new(place, *runtime, None).rank(platforms).is_ok()
            });
            (told.join(","), runs.map(|(_, count)| count).sum())
        }
    }
}
