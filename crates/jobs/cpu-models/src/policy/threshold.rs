//! How many nodes have to support a model.

use std::fmt;

use serde::Serialize;

/// The least that a share comes to: one node besides the machine's own.
pub(super) const MINIMUM: u32 = 2;
/// The most that a third comes to.
pub(super) const MAXIMUM: u32 = 5;

/// A part of the nodes that are eligible.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Share {
    /// A third, rounded down.
    Third,
    /// So many in a hundred, rounded down.
    Percent(u32),
    /// So many nodes, however many there are.
    Nodes(u32),
}

/// How many nodes have to support a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Threshold {
    /// The part of the nodes.
    pub share: Share,
    /// The least that it comes to.
    pub minimum: u32,
    /// The most that it comes to.
    pub maximum: Option<u32>,
}

/// What a threshold comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Needed {
    /// So many nodes.
    pub nodes: u32,
    /// Of so many that are eligible.
    pub eligible: u32,
    /// The part that was asked for.
    pub share: Share,
    /// The limit that decided instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
}

/// A limit of a share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Limit {
    /// The share came to less.
    Minimum,
    /// The share came to more.
    Maximum,
}

impl Threshold {
    /// How many of so many eligible nodes are needed.
    pub fn needed(&self, eligible: u32) -> Needed {
        let plain = match self.share {
            Share::Third => eligible / 3,
            // At most `eligible`, so it fits again.
            Share::Percent(percent) => {
                let part = u64::from(eligible) * u64::from(percent) / 100;
                u32::try_from(part).unwrap_or(eligible)
            }
            Share::Nodes(nodes) => {
                return Needed {
                    nodes,
                    eligible,
                    share: self.share,
                    limit: None,
                };
            }
        };
        let (nodes, limit) = match self.maximum {
            _ if plain < self.minimum => (self.minimum, Some(Limit::Minimum)),
            Some(maximum) if plain > maximum => (maximum, Some(Limit::Maximum)),
            _ => (plain, None),
        };
        Needed {
            nodes,
            eligible,
            share: self.share,
            limit,
        }
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Third => f.write_str("a third"),
            Self::Percent(percent) => write!(f, "{percent}%"),
            Self::Nodes(nodes) => write!(f, "{nodes}"),
        }
    }
}

impl fmt::Display for Needed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.nodes)?;
        if matches!(self.share, Share::Nodes(_)) {
            return f.write_str(", as the policy says");
        }
        let are = if self.eligible == 1 { "node" } else { "nodes" };
        write!(f, ", {} of {} eligible {are}", self.share, self.eligible)?;
        match self.limit {
            None => Ok(()),
            Some(Limit::Minimum) => write!(f, ", but not less than {}", self.nodes),
            Some(Limit::Maximum) => write!(f, ", but not more than {}", self.nodes),
        }
    }
}
