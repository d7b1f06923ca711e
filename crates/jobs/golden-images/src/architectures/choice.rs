//! The one rule that says which architecture a name without architecture stands for.
//!
//! The same function decides for the cluster (`defaultWorkloadArchitecture`), for every pointer, and
//! for templates: they can never disagree.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::Counts;
use crate::policy::Override;

/// How it is with the image for an architecture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    /// It can be used.
    Ready,
    /// It is on its way, or nothing is known.
    Pending,
    /// It could not be had, and never could.
    Failed,
}

/// What there is to choose from.
#[derive(Debug, Clone, Copy)]
pub struct Candidates<'a> {
    /// Architectures that the nodes have and the image has.
    pub supported: &'a BTreeSet<&'a str>,
    /// Architectures of the control plane, in the order in which they are listed.
    pub control_plane: &'a [&'a str],
    /// How many nodes run virtual machines of each; may be unknown.
    pub nodes: &'a Counts,
    /// What somebody asked for.
    pub wanted: Override<'a>,
    /// How it is with the images; what is missing is pending.
    pub health: &'a BTreeMap<&'a str, Health>,
}

/// Why an architecture was chosen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Why {
    /// There is none.
    #[default]
    NoCandidate,
    /// A policy says so for the image.
    ImagePolicy,
    /// A policy says so for all images.
    ClusterPolicy,
    /// There is no other.
    OnlyOne,
    /// The control plane has it.
    ControlPlane,
    /// Most nodes have it.
    MostNodes,
    /// It is the first in the alphabet: nothing else tells them apart.
    First,
}

impl Why {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::NoCandidate,
        Self::ImagePolicy,
        Self::ClusterPolicy,
        Self::OnlyOne,
        Self::ControlPlane,
        Self::MostNodes,
        Self::First,
    ];

    /// The rule, in a sentence.
    pub fn rule(self) -> &'static str {
        match self {
            Self::NoCandidate => "no node and the image have an architecture in common",
            Self::ImagePolicy => {
                "the GoldenImagePolicy says so for this image (spec.images[].defaultArchitecture)"
            }
            Self::ClusterPolicy => {
                "the GoldenImagePolicy says so for all images (spec.defaultArchitecture)"
            }
            Self::OnlyOne => "it is the only architecture that nodes and the image have in common",
            Self::ControlPlane => "the control plane has it",
            Self::MostNodes => "most nodes that run virtual machines have it",
            Self::First => "as many nodes have another one, and it is the first in the alphabet",
        }
    }

    /// A word for it.
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

/// What was chosen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Choice {
    /// The architecture; none if there is none.
    pub architecture: Option<String>,
    /// Why.
    pub why: Why,
    /// What would have been chosen, if its image could be had.
    pub instead_of: Option<String>,
    /// What somebody asked for and cannot have.
    pub refused: Option<String>,
}

impl Choice {
    /// The reason in what [`Self::describe`] said.
    pub fn why_of(described: &str) -> Option<Why> {
        let (_, rest) = described.split_once('(')?;
        let (word, _) = rest.split_once(')')?;
        Why::ALL.into_iter().find(|why| why.as_str() == word)
    }

    /// The choice and its reason, in a few words.
    pub fn describe(&self) -> String {
        let mut text = match &self.architecture {
            Some(architecture) => format!("{architecture} ({})", self.why),
            None => format!("none ({})", self.why),
        };
        if let Some(other) = &self.instead_of {
            text = format!("{text}, because the image for {other} cannot be had");
        }
        if let Some(other) = &self.refused {
            text = format!("{text}; {other} was asked for, but is not supported");
        }
        text
    }
}

/// Chooses.
///
/// What the policy asks for the image goes first, then what it asks for all, then the only one, the
/// first of the control plane, that of most nodes, and the first in the alphabet among equals. If the
/// image for that architecture could never be had, the rule is asked again about those that can.
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
