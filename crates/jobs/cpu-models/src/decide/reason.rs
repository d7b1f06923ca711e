//! Why a model, or why none.

use serde::Serialize;

use crate::table::Vendor;

/// Why a machine gets the model of its host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(
    rename_all = "camelCase",
    tag = "reason",
    rename_all_fields = "camelCase"
)]
pub enum Fallback {
    /// The node is not there.
    #[error("node {node:?} is not known")]
    NodeUnknown {
        /// The node.
        node: String,
    },
    /// The node does not say who made its CPU.
    #[error("node {node:?} has no label cpu-vendor.node.kubevirt.io/<vendor>")]
    VendorUnknown {
        /// The node.
        node: String,
    },
    /// The node says several.
    #[error(
        "node {node:?} is labelled with several vendors ({}), and its host model does not tell which is right",
        listed(vendors)
    )]
    VendorAmbiguous {
        /// The node.
        node: String,
        /// What it says.
        vendors: Vec<Vendor>,
    },
    /// The node does not meet the affinity, and the affinity makes no sense.
    #[error("the node affinity makes no sense: {errors}")]
    MalformedAffinity {
        /// What is wrong.
        errors: String,
    },
    /// The node supports no model by its labels.
    #[error("node {node:?} has no label cpu-model.node.kubevirt.io/<model> that is \"true\"")]
    NoModels {
        /// The node.
        node: String,
    },
    /// The node supports models, but none that may be chosen.
    #[error("none of the {models} models of node {node:?} may be chosen")]
    NoCandidates {
        /// The node.
        node: String,
        /// How many models it supports.
        models: u32,
    },
    /// Models may be chosen, but too few nodes support them.
    #[error("no model has enough nodes: {model}, which most support, has {supporters} of {needed}")]
    TooFewSupporters {
        /// The model that most nodes support.
        model: String,
        /// How many do.
        supporters: u32,
        /// How many have to.
        needed: u32,
    },
}

impl Fallback {
    /// The reason in a word.
    pub fn word(&self) -> &'static str {
        match self {
            Self::NodeUnknown { .. } => "NodeUnknown",
            Self::VendorUnknown { .. } => "VendorUnknown",
            Self::VendorAmbiguous { .. } => "VendorAmbiguous",
            Self::MalformedAffinity { .. } => "MalformedAffinity",
            Self::NoModels { .. } => "NoModels",
            Self::NoCandidates { .. } => "NoCandidates",
            Self::TooFewSupporters { .. } => "TooFewSupporters",
        }
    }
}

/// Why a model is not chosen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(
    rename_all = "camelCase",
    tag = "reason",
    rename_all_fields = "camelCase"
)]
pub enum RuledOut {
    /// The policy says never.
    #[error("the policy excludes it")]
    Excluded,
    /// KubeVirt is told that it is obsolete.
    #[error("it is obsolete")]
    Obsolete,
    /// Nobody knows when it was launched.
    #[error("no launch year is known; a CpuModelPolicy can tell it")]
    Unknown,
    /// It stands for no CPU that was ever sold.
    #[error("it is generic")]
    Generic,
    /// It is too old.
    #[error("it was launched in {year}, before {minimum}")]
    TooOld {
        /// When.
        year: i32,
        /// The oldest year that will do.
        minimum: i32,
    },
    /// It belongs to another vendor.
    #[error("it is a model of {vendor}")]
    ForeignVendor {
        /// Whose it is.
        vendor: Vendor,
    },
    /// Too few nodes support it.
    #[error("{supporters} of {needed} nodes support it")]
    TooFewSupporters {
        /// How many do.
        supporters: u32,
        /// How many have to.
        needed: u32,
    },
    /// The node has the label, with another value than `true`.
    #[error("the label of the node says {value:?}")]
    NotTrue {
        /// The value.
        value: String,
    },
}

fn listed(vendors: &[Vendor]) -> String {
    let names: Vec<&str> = vendors.iter().map(Vendor::as_str).collect();
    names.join(", ")
}
