//! A report about all pods of a cluster: the platforms of their images, and which pods cannot run.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::Value;

use crate::cluster::{Cluster, Node, NodePlatform, PlatformMatcher, Runtime};
use crate::decide::{Decision, decide};
use crate::fit::Demand;
use crate::images::{ImageUse, Inspection, Platforms, images};
use crate::nodes::{Nodes, SurveyMemo};
use crate::settings::{RuntimeClass, Settings};

/// The report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Survey {
    /// The images that pods use, by name.
    pub images: Vec<Coverage>,
    /// Node platforms, and how many of the images they run.
    pub places: Vec<PlatformCoverage>,
    /// Pods that no node can run, and pods on nodes that cannot run them.
    pub stuck: Vec<UnrunnablePod>,
    /// Nodes that run only DaemonSet and static pods.
    pub idle: Vec<String>,
}

/// An image, and how many nodes run it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Coverage {
    /// The image.
    pub image: String,
    /// Its platforms, or why they are unknown. The name in JSON is older than this one.
    #[serde(rename = "told")]
    pub platforms: String,
    /// The number of pods that use it.
    pub pods: usize,
    /// The number of nodes that run it.
    pub nodes: usize,
    /// The number of all nodes.
    pub of_nodes: usize,
}

/// A node platform, and how many images run there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlatformCoverage {
    /// The platform.
    pub place: String,
    /// The number of its nodes.
    pub nodes: usize,
    /// The number of images that run there.
    pub images: usize,
    /// The number of inspected images.
    pub of_images: usize,
}

/// A pod that no node can run, or that is bound to a node that cannot run it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UnrunnablePod {
    /// Namespace and name.
    pub pod: String,
    /// CamelCase reason.
    pub reason: &'static str,
    /// Message.
    pub why: String,
}

/// The parts of a pod that the report needs. Clusters have many pods, and of scheduled ones little is needed.
#[derive(Debug, Clone, PartialEq)]
pub struct PodSummary {
    /// The images that it uses.
    pub images: Vec<ImageUse>,
    /// The node that it is bound to.
    pub node: Option<String>,
    /// Its RuntimeClass.
    pub class: Option<String>,
    /// Whether it has succeeded or failed.
    pub is_over: bool,
    /// Whether it belongs to a DaemonSet or is a static pod.
    pub is_everywhere: bool,
    /// The whole pod, if it is unscheduled: its constraints are needed then.
    pub object: Option<Value>,
}

impl PodSummary {
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

/// Reports on all pods, by namespace and name. `classes` are the RuntimeClasses of the cluster.
pub fn survey(
    pods: &BTreeMap<String, PodSummary>,
    known: &BTreeMap<String, Inspection>,
    classes: &BTreeMap<String, RuntimeClass>,
    cluster: &Cluster,
    settings: &Settings,
) -> Survey {
    let mut users: BTreeMap<&str, usize> = BTreeMap::new();
    let mut busy: BTreeSet<&str> = BTreeSet::new();
    let mut stuck = Vec::new();
    // Pods of one workload have the same demand and fit.
    let fits = SurveyMemo::default();
    let all_nodes = Nodes::with_memo(cluster, &fits);
    let mut demands: BTreeMap<&[ImageUse], Demand> = BTreeMap::new();
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
                object.and_then(|pod| decided(name, pod, known, classes, all_nodes, settings)),
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
        let (platforms, nodes) = covered(known.get(*image), cluster, &kinds);
        Coverage {
            image: (*image).to_owned(),
            platforms,
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
    known: &BTreeMap<String, Inspection>,
    classes: &BTreeMap<String, RuntimeClass>,
    nodes: Nodes<'_>,
    settings: &Settings,
) -> Option<UnrunnablePod> {
    match decide(pod, known, classes, nodes, settings) {
        Decision::NoFit(no_fit) => Some(UnrunnablePod {
            pod: name.to_owned(),
            reason: no_fit.shortfall.reason(),
            why: no_fit.to_string(),
        }),
        Decision::Leave(_) | Decision::Ask(_) | Decision::Place(_) => None,
    }
}

/// A pod on a node that does not run its images: it was scheduled before its images were inspected, and restarts
/// forever.
fn misplaced(
    name: &str,
    demand: &Demand,
    node: &Node,
    class: Option<&RuntimeClass>,
) -> Option<UnrunnablePod> {
    let misfits = demand.misfits(&node.place, node.runtime, class);
    let why: Vec<String> = misfits
        .into_iter()
        .map(|(used, unfit)| format!("image {} of {} is for {unfit}", used.image, used.by))
        .collect();
    (!why.is_empty()).then(|| UnrunnablePod {
        pod: name.to_owned(),
        reason: "WrongNode",
        why: format!(
            "it is on node {}, which is {}, but {}; delete the pod so that it is placed again",
            node.name(),
            node.place,
            why.join(", ")
        ),
    })
}

/// The number of images that run on each node platform.
fn places<'a>(
    images: impl Iterator<Item = &'a str>,
    known: &BTreeMap<String, Inspection>,
    cluster: &Cluster,
) -> Vec<PlatformCoverage> {
    let platforms = images.filter_map(|image| match known.get(image)? {
        Inspection::Platforms(platforms) => Some(platforms),
        Inspection::Anywhere | Inspection::Uninspectable(_) => None,
    });
    let all: Vec<&Platforms> = platforms.collect();
    let places = cluster.places().map(|(place, nodes)| {
        let runtimes = cluster.runtimes_of(place).into_iter();
        let matchers = runtimes.map(|runtime| PlatformMatcher::new(place, runtime, None));
        let matchers: Vec<PlatformMatcher> = matchers.collect();
        let runs = |platforms: &&&Platforms| matchers.iter().all(|it| it.rank(platforms).is_ok());
        PlatformCoverage {
            place: place.to_string(),
            nodes,
            images: all.iter().filter(runs).count(),
            of_images: all.len(),
        }
    });
    places.collect()
}

/// Whether a pod has succeeded or failed.
fn is_over(pod: &Value) -> bool {
    let phase = pod.pointer("/status/phase").and_then(Value::as_str);
    matches!(phase, Some("Succeeded" | "Failed"))
}

/// Whether a pod belongs to a DaemonSet or is a static pod.
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

/// Nodes that run the same images, and their number.
fn kinds(cluster: &Cluster) -> BTreeMap<(&NodePlatform, Runtime), usize> {
    let mut kinds: BTreeMap<(&NodePlatform, Runtime), usize> = BTreeMap::new();
    for node in cluster.nodes() {
        *kinds.entry((&node.place, node.runtime)).or_default() += 1;
    }
    kinds
}

/// The platforms of an image, and the number of nodes that run it.
fn covered(
    known: Option<&Inspection>,
    cluster: &Cluster,
    kinds: &BTreeMap<(&NodePlatform, Runtime), usize>,
) -> (String, usize) {
    match known {
        None => ("not inspected".to_owned(), 0),
        Some(Inspection::Anywhere) => ("any node".to_owned(), cluster.len()),
        Some(Inspection::Uninspectable(why)) => (why.message.clone(), 0),
        Some(Inspection::Platforms(platforms)) => {
            let listed: Vec<String> = platforms
                .written()
                .iter()
                .map(ToString::to_string)
                .collect();
            let runs = kinds.iter().filter(|((place, runtime), _)| {
                PlatformMatcher::new(place, *runtime, None)
                    .rank(platforms)
                    .is_ok()
            });
            (listed.join(","), runs.map(|(_, count)| count).sum())
        }
    }
}
