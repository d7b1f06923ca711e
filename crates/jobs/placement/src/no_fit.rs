//! Why no node can run a pod, as a message.

use std::collections::BTreeMap;
use std::fmt;

use platform::Platform;

use crate::cluster::{Cluster, NodePlatform, PlatformMatcher};
use crate::decide::Placement;
use crate::fit::Demand;
use crate::images::Platforms;
use crate::settings::RuntimeClass;

/// Maximum number of items listed in a message.
const MAX_LISTED: usize = 8;

/// A pod that no node can run.
#[derive(Debug, Clone, PartialEq)]
pub struct NoFit {
    /// The requirements of its images.
    pub demand: Demand,
    /// What is missing.
    pub shortfall: Shortfall,
    /// The placement to admit it with, so that it waits for a node; `None` if no node could ever run it.
    pub placement: Option<Placement>,
    /// The platforms in the cluster, and the number of nodes of each.
    pub places: BTreeMap<NodePlatform, usize>,
    /// Indexes, within the demand, of images that run on no node.
    alone: Vec<usize>,
}

/// What is missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shortfall {
    /// No platform runs all of the images.
    NoPlatform,
    /// No node has the required platform.
    NoNode {
        /// The operating system of that platform.
        os: String,
    },
    /// Nodes can run the images, but the pod's selectors exclude them, or their taints repel the pod.
    KeptAway {
        /// The operating system of these nodes.
        os: String,
        /// The number of nodes excluded by the pod's own selectors.
        by_selectors: usize,
        /// The number of nodes with a taint that the pod does not tolerate, by taint.
        by_taints: BTreeMap<String, usize>,
    },
}

/// Whether this is a reason returned by [`Shortfall::reason`].
pub fn is_shortfall(word: &str) -> bool {
    ["NoCommonPlatform", "NoMatchingNode", "NodesExcluded"].contains(&word)
}

impl Shortfall {
    /// CamelCase reason for conditions, events and metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NoPlatform => "NoCommonPlatform",
            Self::NoNode { .. } => "NoMatchingNode",
            Self::KeptAway { .. } => "NodesExcluded",
        }
    }
}

impl NoFit {
    pub(crate) fn new(
        demand: Demand,
        shortfall: Shortfall,
        placement: Option<Placement>,
        cluster: &Cluster,
        class: Option<&RuntimeClass>,
    ) -> Self {
        // Only images that run on no node are named: in a pod with sidecars, the others are innocent.
        let nowhere = |platforms: &Platforms| {
            cluster.places().all(|(place, _)| {
                let mut runtimes = cluster.runtimes_of(place).into_iter();
                runtimes.all(|runtime| {
                    let matcher = PlatformMatcher::new(place, runtime, class);
                    matcher.rank(platforms).is_err()
                })
            })
        };
        let images = demand.images().iter().enumerate();
        let alone = images
            .filter(|(_, (_, platforms))| nowhere(platforms))
            .map(|(index, _)| index)
            .collect();
        Self {
            demand,
            shortfall,
            placement,
            places: cluster
                .places()
                .map(|(place, nodes)| (place.clone(), nodes))
                .collect(),
            alone,
        }
    }

    /// The images to name: those that run on no node, or else all.
    fn offending_images(&self) -> Vec<String> {
        let images = self.demand.images().iter().enumerate();
        images
            .filter(|(index, _)| self.alone.is_empty() || self.alone.contains(index))
            .map(|(_, (used, platforms))| {
                let platforms = platforms.written().iter();
                let platforms = platforms.map(Platform::to_string).collect();
                format!(
                    "image {} of {} is for {}",
                    used.image,
                    used.by,
                    list(platforms)
                )
            })
            .collect()
    }

    fn nodes(&self) -> String {
        if self.places.is_empty() {
            return "the cluster has no nodes".to_owned();
        }
        let places = self
            .places
            .iter()
            .map(|(place, nodes)| format!("{place} ({nodes})"))
            .collect();
        format!("the nodes are {}", list(places))
    }

    /// The next step for the user.
    fn advice(&self) -> String {
        match &self.shortfall {
            Shortfall::NoPlatform if self.alone.len() == 1 || self.demand.images().len() == 1 => {
                "use an image that is for one of the nodes".to_owned()
            }
            Shortfall::NoPlatform => {
                "use images that have a platform in common, or put them into different pods"
                    .to_owned()
            }
            Shortfall::NoNode { .. } => {
                "add such a node, or use an image that is for one of the nodes".to_owned()
            }
            Shortfall::KeptAway { by_taints, .. } if !by_taints.is_empty() => {
                "tolerate the taint, or change the selectors of the pod".to_owned()
            }
            Shortfall::KeptAway { .. } => {
                "change the node selector or the node affinity of the pod".to_owned()
            }
        }
    }
}

impl fmt::Display for NoFit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let offending_images = list(self.offending_images());
        match &self.shortfall {
            Shortfall::NoPlatform | Shortfall::NoNode { .. } => {
                write!(f, "{offending_images}; {}", self.nodes())?;
            }
            Shortfall::KeptAway {
                by_selectors,
                by_taints,
                ..
            } => {
                let mut away = Vec::new();
                if *by_selectors > 0 {
                    away.push(format!(
                        "{} excluded by the pod's node selector or affinity",
                        nodes(*by_selectors)
                    ));
                }
                away.extend(
                    by_taints
                        .iter()
                        .map(|(taint, count)| format!("{} with taint {taint}", nodes(*count))),
                );
                write!(
                    f,
                    "{offending_images}; nodes that can run it do not accept the pod: {}",
                    list(away)
                )?;
            }
        }
        write!(f, "; {}", self.advice())
    }
}

fn nodes(count: usize) -> String {
    if count == 1 {
        "1 node".to_owned()
    } else {
        format!("{count} nodes")
    }
}

/// Joins the items, truncated to [`MAX_LISTED`].
fn list(mut all: Vec<String>) -> String {
    let more = all.len().saturating_sub(MAX_LISTED);
    all.truncate(MAX_LISTED);
    if more > 0 {
        all.push(format!("{more} more"));
    }
    all.join(", ")
}
