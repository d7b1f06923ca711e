//! The number of nodes that have to support a model.

use std::fmt;

use serde::Serialize;

/// The default minimum: one node besides the VM's own, so that it can migrate at all. Minimum,
/// maximum and a third are those of the upstream proof of concept (kubevirt PR 9060).
pub(super) const MINIMUM: u32 = 2;
/// The default maximum of a third: large clusters need no more than this many targets.
pub(super) const MAXIMUM: u32 = 5;

/// The part of the eligible nodes that is required.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Share {
    /// A third, rounded down.
    Third,
    /// A percentage, rounded down.
    Percent(u32),
    /// An absolute number of nodes.
    Nodes(u32),
}

/// The rule for the number of nodes that have to support a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Threshold {
    /// The part of the eligible nodes.
    pub share: Share,
    /// Lower limit of the share.
    pub minimum: u32,
    /// Upper limit of the share, if any.
    pub maximum: Option<u32>,
}

/// A threshold applied to a number of eligible nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Needed {
    /// How many nodes are required.
    pub nodes: u32,
    /// How many nodes are eligible.
    pub eligible: u32,
    /// The share that the policy asks for.
    pub share: Share,
    /// The limit that replaced the share, if one did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
}

/// A limit of a share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Limit {
    /// The share was less than the minimum.
    Minimum,
    /// The share was more than the maximum.
    Maximum,
}

impl Threshold {
    /// Applies the rule to a number of eligible nodes.
    pub fn needed(&self, eligible: u32) -> Needed {
        let plain = match self.share {
            // Not 33%: the proof of concept has floor(n/3), which requires 3 of 9 nodes where 33%
            // would be 2.
            Share::Third => eligible / 3,
            // At most `eligible`, so it fits into 32 bits.
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
            // The minimum first: fewer than two nodes means no migration at all, whatever the
            // maximum is.
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
            return f.write_str(", set by the policy");
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
