//! Changes that would let a pod fit.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use platform::windows::Version;
use serde::Serialize;
use serde_json::Value;

use crate::cluster::{Cluster, NodePlatform, Runtime};
use crate::decide::classes_that_fit;
use crate::fit::Demand;
use crate::no_fit::{NoFit, Shortfall};
use crate::settings::{RuntimeClass, Settings};

/// A change that would let the pod fit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all_fields = "camelCase")]
pub enum Remedy {
    /// Use a RuntimeClass under which nodes run it.
    UseRuntimeClass {
        /// The class.
        class: String,
        /// The number of nodes that accept the pod then.
        nodes: usize,
    },
    /// Add a toleration.
    Tolerate {
        /// The taint.
        taint: String,
        /// The number of nodes with the taint.
        nodes: usize,
    },
    /// Change the pod's selectors.
    ChangeSelectors {
        /// The number of nodes that they exclude.
        nodes: usize,
    },
    /// Add a node.
    AddNode {
        /// Platforms that would run the images.
        platforms: Vec<String>,
    },
    /// Publish an image for the platform of live nodes.
    PublishImage {
        /// The image.
        image: String,
        /// The missing platform.
        platform: String,
        /// The number of nodes of that platform.
        nodes: usize,
    },
}

impl fmt::Display for Remedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UseRuntimeClass { class, nodes } => {
                write!(
                    f,
                    "use the runtime class {class}, under which {} it",
                    counted(*nodes, "runs", "run")
                )
            }
            Self::Tolerate { taint, nodes } => {
                write!(f, "tolerate the taint {taint} of {}", count(*nodes))
            }
            Self::ChangeSelectors { nodes } => write!(
                f,
                "change the node selector or the node affinity of the pod, which exclude {} that can run it",
                count(*nodes)
            ),
            Self::AddNode { platforms } => {
                write!(f, "add a node of {}", platforms.join(" or "))
            }
            Self::PublishImage {
                image,
                platform,
                nodes,
            } => write!(
                f,
                "publish {image} also for {platform}, which {}",
                counted(*nodes, "is", "are")
            ),
        }
    }
}

/// A number of nodes with its verb.
fn counted(nodes: usize, one: &str, more: &str) -> String {
    let verb = if nodes == 1 { one } else { more };
    format!("{} {verb}", count(nodes))
}

fn count(nodes: usize) -> String {
    match nodes {
        1 => "1 node".to_owned(),
        nodes => format!("{nodes} nodes"),
    }
}

/// The changes that would let a pod fit, least effort first. `classes` are the RuntimeClasses of the cluster.
pub fn remedies(
    pod: &Value,
    no_fit: &NoFit,
    classes: &BTreeMap<String, RuntimeClass>,
    cluster: &Cluster,
    settings: &Settings,
) -> Vec<Remedy> {
    let spec = pod.get("spec").unwrap_or(&Value::Null);
    let mut remedies: Vec<Remedy> =
        // All classes and not only offered ones: a user may name any of them.
        classes_that_fit(spec, &no_fit.demand, classes, cluster, settings)
            .into_iter()
            .map(|(class, nodes)| Remedy::UseRuntimeClass { class, nodes })
            .collect();
    if let Shortfall::KeptAway {
        by_selectors,
        by_taints,
        ..
    } = &no_fit.shortfall
    {
        remedies.extend(by_taints.iter().map(|(taint, nodes)| Remedy::Tolerate {
            taint: taint.clone(),
            nodes: *nodes,
        }));
        if *by_selectors > 0 {
            let nodes = *by_selectors;
            remedies.push(Remedy::ChangeSelectors { nodes });
        }
        // Nodes that run its images exist: neither nodes nor images are missing.
        return remedies;
    }
    let platforms = missing_nodes(&no_fit.demand, cluster);
    if !platforms.is_empty() {
        remedies.push(Remedy::AddNode { platforms });
    }
    remedies.extend(images_to_publish(&no_fit.demand, cluster));
    remedies
}

/// Platforms that run all images, and that no node has.
fn missing_nodes(demand: &Demand, cluster: &Cluster) -> Vec<String> {
    let images = demand.images().iter();
    let platforms = images.flat_map(|(_, platforms)| platforms.written());
    let places: BTreeSet<NodePlatform> = platforms
        .map(|platform| {
            let platform = platform.normalised();
            let build = Version::parse(&platform.os_version);
            NodePlatform {
                os: platform.os,
                architecture: platform.architecture,
                variant: platform.variant,
                build: build.map_or_else(String::new, |it| it.release().to_string()),
            }
        })
        .collect();
    let present = |place: &NodePlatform| cluster.places().any(|(it, _)| it == place);
    places
        .into_iter()
        .filter(|place| !present(place))
        .filter(|place| demand.misfits(place, Runtime::default(), None).is_empty())
        .map(|place| place.to_string())
        .collect()
}

/// The images to publish for the closest platforms: those on which the fewest images are missing, and of these the ones
/// with the most nodes.
fn images_to_publish(demand: &Demand, cluster: &Cluster) -> Vec<Remedy> {
    let systems = demand.systems();
    let places = cluster.places();
    let nearest = places
        .filter(|(place, _)| systems.contains(&place.os))
        .map(|(place, nodes)| {
            let misfits = demand.misfits(place, Runtime::default(), None);
            let images: BTreeSet<&str> = misfits
                .iter()
                .map(|(used, _)| used.image.as_str())
                .collect();
            (images, place, nodes)
        })
        .filter(|(images, ..)| !images.is_empty())
        .min_by_key(|(images, _, nodes)| (images.len(), std::cmp::Reverse(*nodes)));
    let Some((images, place, nodes)) = nearest else {
        return Vec::new();
    };
    images
        .into_iter()
        .map(|image| Remedy::PublishImage {
            image: image.to_owned(),
            platform: place.to_string(),
            nodes,
        })
        .collect()
}
