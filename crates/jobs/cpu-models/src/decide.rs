//! The choice of a CPU model for a VM.

mod rank;
mod reason;
mod survey;
#[cfg(test)]
mod tests;

use serde::Serialize;

pub use reason::{Fallback, ModelRejection};
pub(crate) use survey::NodeContext;
pub use survey::Survey;

use crate::index::Index;
use crate::machine::Machine;
use crate::names::{HOST_MODEL, HOST_PASSTHROUGH};
use crate::policy::{Needed, Policy};
use crate::table::Vendor;

/// The choice for a VM on the node that it starts on, with everything that led to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Decision {
    /// The node that the VM starts on.
    pub node: String,
    /// The vendor of the node's CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vendor: Option<Vendor>,
    /// The model of the node's own CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_model: Option<String>,
    /// The chosen model.
    pub verdict: ModelVerdict,
    /// How many nodes have to support a model; `None` if the decision ended before the threshold
    /// was computed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threshold: Option<Needed>,
    /// The models that pass every rule, best first.
    pub candidates: Vec<Candidate>,
    /// The models of the node that fail a rule, sorted by name.
    pub ruled_out: Vec<RejectedModel>,
}

/// The model that a VM gets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "kind", content = "value")]
pub enum ModelVerdict {
    /// A named model.
    Model(String),
    /// `host-model`, because no named model passes.
    HostModel(Fallback),
    /// `host-passthrough`: arm64 offers nothing else.
    HostPassthrough,
}

impl ModelVerdict {
    /// The value to record: a model name, `host-model` or `host-passthrough`.
    pub fn model(&self) -> &str {
        match self {
            Self::Model(name) => name,
            Self::HostModel(_) => HOST_MODEL,
            Self::HostPassthrough => HOST_PASSTHROUGH,
        }
    }

    /// The reason, recorded in the annotation `medley.dev/cpu-model-reason`.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Model(_) => "BestMatch",
            Self::HostModel(fallback) => fallback.reason(),
            Self::HostPassthrough => "OnlyHostPassthrough",
        }
    }
}

/// A model that may be chosen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Candidate {
    /// Its name, as in the node label.
    pub model: String,
    /// Its launch year.
    pub year: i32,
    /// Its vendor; `None` if it is generic or sold by several vendors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vendor: Option<Vendor>,
    /// How many eligible nodes support it.
    pub supporters: u32,
}

/// A model of the node that may not be chosen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RejectedModel {
    /// Its name, as in the node label.
    pub model: String,
    /// The rule that it fails.
    pub reason: ModelRejection,
}

/// Decides for a VM that starts on a node.
///
/// The caller checks whether the VM requests best-match-model: an explanation is also useful for
/// VMs that name a model.
pub fn decide(index: &Index, policy: &Policy, machine: &Machine, node: &str) -> Decision {
    Survey::new(index, policy).decide(machine, node)
}
