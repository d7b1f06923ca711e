//! The rule for the default architecture.
//!
//! One function decides for the cluster (`defaultWorkloadArchitecture`), for every pointer
//! DataSource and for templates, so that they cannot disagree; upstream's HCO and SSP use three
//! different rules.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::Counts;
use crate::policy::Override;

/// The state of the image for an architecture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    /// It can be cloned.
    Ready,
    /// It is being imported, or its state is unknown.
    Pending,
    /// Every import of it failed.
    Failed,
}

/// The inputs of the choice.
#[derive(Debug, Clone, Copy)]
pub struct Candidates<'a> {
    /// Architectures that both the nodes and the image have.
    pub supported: &'a BTreeSet<&'a str>,
    /// Architectures of the control plane, in order of precedence.
    pub control_plane: &'a [&'a str],
    /// The number of workload nodes by architecture; may be empty.
    pub nodes: &'a Counts,
    /// The default architectures that the policy sets.
    pub wanted: Override<'a>,
    /// The state of the images; a missing one is pending.
    pub health: &'a BTreeMap<&'a str, Health>,
}

/// The rule that an architecture was chosen by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Why {
    /// There is no candidate.
    #[default]
    NoCandidate,
    /// The policy sets it for the image.
    ImagePolicy,
    /// The policy sets it for all images.
    ClusterPolicy,
    /// It is the only candidate.
    OnlyOne,
    /// The control plane has it.
    ControlPlane,
    /// Most workload nodes have it.
    MostNodes,
    /// It is the first alphabetically of those with the most nodes.
    First,
}

impl Why {
    /// All rules.
    pub const ALL: [Self; 7] = [
        Self::NoCandidate,
        Self::ImagePolicy,
        Self::ClusterPolicy,
        Self::OnlyOne,
        Self::ControlPlane,
        Self::MostNodes,
        Self::First,
    ];

    /// The rule as a sentence.
    pub fn rule(self) -> &'static str {
        match self {
            Self::NoCandidate => "the nodes and the image have no architecture in common",
            Self::ImagePolicy => {
                "the GoldenImagePolicy sets it for this image (spec.images[].defaultArchitecture)"
            }
            Self::ClusterPolicy => {
                "the GoldenImagePolicy sets it for all images (spec.defaultArchitecture)"
            }
            Self::OnlyOne => "it is the only architecture that nodes and the image have in common",
            Self::ControlPlane => "the control plane has it",
            Self::MostNodes => "most nodes that run virtual machines have it",
            Self::First => {
                "another architecture has as many nodes, and this one is the first alphabetically"
            }
        }
    }

    /// The name of the rule, in CamelCase.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NoCandidate => "NoCandidate",
            Self::ImagePolicy => "ImagePolicy",
            Self::ClusterPolicy => "ClusterPolicy",
            Self::OnlyOne => "OnlyArchitecture",
            Self::ControlPlane => "ControlPlane",
            Self::MostNodes => "MostNodes",
            Self::First => "Alphabetical",
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The result of the choice.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Choice {
    /// The default architecture; `None` if there is no candidate.
    pub architecture: Option<String>,
    /// The rule that it was chosen by.
    pub why: Why,
    /// The architecture that the rule prefers, if its image failed.
    pub instead_of: Option<String>,
    /// The architecture that the policy sets, if it is not supported.
    pub refused: Option<String>,
}

impl Choice {
    /// The rule in a text by [`Self::describe`].
    pub fn why_of(described: &str) -> Option<Why> {
        let (_, rest) = described.split_once('(')?;
        let (word, _) = rest.split_once(')')?;
        Why::ALL.into_iter().find(|why| why.as_str() == word)
    }

    /// The choice and its rule as text.
    pub fn describe(&self) -> String {
        let mut text = match &self.architecture {
            Some(architecture) => format!("{architecture} ({})", self.why),
            None => format!("none ({})", self.why),
        };
        if let Some(other) = &self.instead_of {
            text = format!("{text}, because the image for {other} cannot be imported");
        }
        if let Some(other) = &self.refused {
            text = format!("{text}; {other} was requested, but is not supported");
        }
        text
    }
}

/// Chooses the default architecture.
///
/// Precedence: the policy for the image, the policy for all images, the only candidate, the first
/// of the control plane, the one with the most nodes, the first alphabetically. If every import of
/// the image for that architecture failed, the rule is applied again to those that are ready, then
/// to those that are pending.
pub fn choose(candidates: &Candidates<'_>) -> Choice {
    let (first, why) = pick(candidates.supported, candidates);
    let refused = [candidates.wanted.image, candidates.wanted.cluster]
        .into_iter()
        .flatten()
        .next()
        .filter(|wanted| !candidates.supported.contains(wanted));
    let mut choice = Choice {
        architecture: first.map(str::to_owned),
        why,
        instead_of: None,
        refused: refused.map(str::to_owned),
    };
    let Some(first) = first else {
        return choice;
    };
    if health(candidates, first) != Health::Failed {
        return choice;
    }
    for wanted in [Health::Ready, Health::Pending] {
        let others = candidates.supported.iter().copied();
        let others: BTreeSet<&str> = others
            .filter(|name| health(candidates, name) == wanted)
            .collect();
        if let (Some(other), why) = pick(&others, candidates) {
            choice.architecture = Some(other.to_owned());
            choice.why = why;
            choice.instead_of = Some(first.to_owned());
            break;
        }
    }
    choice
}

fn health(candidates: &Candidates<'_>, name: &str) -> Health {
    let known = candidates.health.get(name);
    known.copied().unwrap_or(Health::Pending)
}

fn pick<'a>(among: &BTreeSet<&'a str>, candidates: &Candidates<'_>) -> (Option<&'a str>, Why) {
    let find = |name: &str| among.get(name).copied();
    if let Some(name) = candidates.wanted.image.and_then(find) {
        return (Some(name), Why::ImagePolicy);
    }
    if let Some(name) = candidates.wanted.cluster.and_then(find) {
        return (Some(name), Why::ClusterPolicy);
    }
    if among.len() <= 1 {
        let only = among.first().copied();
        let why = only.map_or(Why::NoCandidate, |_| Why::OnlyOne);
        return (only, why);
    }
    // The control plane before the majority, as HCO decides: adding workers must not change what a
    // name without suffix boots.
    if let Some(name) = candidates.control_plane.iter().find_map(|name| find(name)) {
        return (Some(name), Why::ControlPlane);
    }
    let count = |name: &&str| candidates.nodes.get(*name).copied().unwrap_or_default();
    let most = among.iter().map(count).max().unwrap_or_default();
    let mut largest = among.iter().filter(|name| count(name) == most);
    let first = largest.next().copied();
    let why = if largest.next().is_some() {
        Why::First
    } else {
        Why::MostNodes
    };
    (first, why)
}
