//! Why a pod runs nowhere, in a sentence that helps.

use std::collections::BTreeMap;
use std::fmt;

use platform::Platform;

use crate::cluster::{Cluster, Judge, Place};
use crate::decide::Placement;
use crate::fit::Demand;
use crate::images::Platforms;
use crate::settings::RuntimeClass;

/// The most things that a sentence lists.
const LISTED: usize = 8;

/// A pod that runs nowhere.
#[derive(Debug, Clone, PartialEq)]
pub struct NoFit {
    /// What its images ask for.
    pub demand: Demand,
    /// What is missing.
    pub shortfall: Shortfall,
    /// What it would say if it were let in to wait for a node; nothing if no node could ever run it.
    pub placement: Option<Placement>,
    /// What there is, and on how many nodes.
    pub places: BTreeMap<Place, usize>,
    /// Images that run on no node, by their place in the demand.
    alone: Vec<usize>,
}

/// What is missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shortfall {
    /// Nothing can run all of the images.
    NoPlatform,
    /// No node can, but one could.
    NoNode {
        /// The operating system that it would have.
        os: String,
    },
    /// Nodes can, but the pod does not want them, or they do not want the pod.
    KeptAway {
        /// The operating system of these nodes.
        os: String,
        /// How many the pod's own selectors exclude.
        by_selectors: usize,
        /// How many have a taint that it does not tolerate, by taint.
        by_taints: BTreeMap<String, usize>,
    },
}

/// Says whether this is a word of [`Shortfall::reason`].
pub fn is_shortfall(word: &str) -> bool {
    ["NoCommonPlatform", "NoMatchingNode", "NodesExcluded"].contains(&word)
}

impl Shortfall {
    /// A word for conditions, events and metrics.
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
        let nowhere = |platforms: &Platforms| {
            cluster.places().all(|(place, _)| {
                let mut runtimes = cluster.runtimes_of(place).into_iter();
                runtimes.all(|runtime| {
                    let judge = Judge::new(place, runtime, class);
                    judge.rank(platforms).is_err()
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

    /// The images to speak of: those that run on no node, or else all.
    fn culprits(&self) -> Vec<String> {
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

    /// What would help.
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
        let culprits = list(self.culprits());
        match &self.shortfall {
            Shortfall::NoPlatform | Shortfall::NoNode { .. } => {
                write!(f, "{culprits}; {}", self.nodes())?;
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
                    "{culprits}; nodes that can run it take no such pod: {}",
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

/// All of it, or the first and how many more.
fn list(mut all: Vec<String>) -> String {
    let more = all.len().saturating_sub(LISTED);
    all.truncate(LISTED);
    if more > 0 {
        all.push(format!("{more} more"));
    }
    all.join(", ")
}
