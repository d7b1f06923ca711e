//! Which model a machine gets.

mod rank;
mod reason;
mod survey;
#[cfg(test)]
mod tests;

use serde::Serialize;

pub use reason::{Fallback, RuledOut};
pub(crate) use survey::Place;
pub use survey::Survey;

use crate::index::Index;
use crate::machine::Machine;
use crate::names::{HOST_MODEL, HOST_PASSTHROUGH};
use crate::policy::{Needed, Policy};
use crate::table::Vendor;

/// What was decided for a machine on the node that it starts on, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Decision {
    /// The node that it starts on.
    pub node: String,
    /// Who made the CPU of the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vendor: Option<Vendor>,
    /// The model of the node's own CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_model: Option<String>,
    /// What it gets.
    pub verdict: Verdict,
    /// How many nodes have to support a model; none if it did not come to that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threshold: Option<Needed>,
    /// The models that would do, the best first.
    pub candidates: Vec<Candidate>,
    /// The models of the node that would not do, sorted by name.
    pub ruled_out: Vec<Refused>,
}

/// What a machine gets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "kind", content = "value")]
pub enum Verdict {
    /// This model.
    Model(String),
    /// The model of its host, because no other will do.
    HostModel(Fallback),
    /// The CPU of its host: its architecture has nothing else.
    HostPassthrough,
}

impl Verdict {
    /// What to record: the name of a model, or one of the words that stand for the host's.
    pub fn model(&self) -> &str {
        match self {
            Self::Model(name) => name,
            Self::HostModel(_) => HOST_MODEL,
            Self::HostPassthrough => HOST_PASSTHROUGH,
        }
    }

    /// Why, in a word.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Model(_) => "BestMatch",
            Self::HostModel(fallback) => fallback.word(),
            Self::HostPassthrough => "OnlyHostPassthrough",
        }
    }
}

/// A model that would do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Candidate {
    /// What it is called.
    pub model: String,
    /// When it was launched.
    pub year: i32,
    /// Who makes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vendor: Option<Vendor>,
    /// How many eligible nodes support it.
    pub supporters: u32,
}

/// A model that would not do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Refused {
    /// What it is called.
    pub model: String,
    /// Why not.
    pub reason: RuledOut,
}

/// Decides for a machine that starts on a node.
///
/// Whether the machine leaves the choice to Medley is for the caller to look at: an explanation of
/// what it would get is of use for others as well.
pub fn decide(index: &Index, policy: &Policy, machine: &Machine, node: &str) -> Decision {
    Survey::new(index, policy).decide(machine, node)
}
