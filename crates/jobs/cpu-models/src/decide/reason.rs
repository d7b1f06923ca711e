//! Reasons for a choice.

use serde::Serialize;

use crate::table::Vendor;

/// Why a VM falls back to `host-model`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(
    rename_all = "camelCase",
    tag = "reason",
    rename_all_fields = "camelCase"
)]
pub enum Fallback {
    /// The node is not in the index.
    #[error("node {node:?} not found")]
    NodeUnknown {
        /// The node.
        node: String,
    },
    /// The node has no `cpu-vendor` label.
    #[error("node {node:?} has no label cpu-vendor.node.kubevirt.io/<vendor>")]
    VendorUnknown {
        /// The node.
        node: String,
    },
    /// The node has several `cpu-vendor` labels, and its host model does not settle which one is
    /// right.
    #[error(
        "node {node:?} has several cpu-vendor labels ({}), and its host model does not match exactly one of them",
        listed(vendors)
    )]
    VendorAmbiguous {
        /// The node.
        node: String,
        /// The vendors that it is labelled with.
        vendors: Vec<Vendor>,
    },
    /// The node does not match the required affinity, and the affinity is invalid.
    #[error("the required node affinity is invalid: {errors}")]
    MalformedAffinity {
        /// The validation errors.
        errors: String,
    },
    /// The node has no `cpu-model` label that is `true`.
    #[error("node {node:?} has no label cpu-model.node.kubevirt.io/<model> that is \"true\"")]
    NoModels {
        /// The node.
        node: String,
    },
    /// The node supports models, but the policy admits none of them.
    #[error("none of the {models} models of node {node:?} may be chosen")]
    NoCandidates {
        /// The node.
        node: String,
        /// How many models it supports.
        models: u32,
    },
    /// The policy admits models, but too few nodes support them.
    #[error(
        "no model has enough nodes: {model}, with the most supporters, has {supporters} of {needed}"
    )]
    TooFewSupporters {
        /// The model that most nodes support.
        model: String,
        /// How many nodes support it.
        supporters: u32,
        /// How many are required.
        needed: u32,
    },
}

impl Fallback {
    /// The name of the reason, in CamelCase.
    pub fn reason(&self) -> &'static str {
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
pub enum ModelRejection {
    /// `spec.excludedModels` of the policy lists it.
    #[error("the policy excludes it")]
    Excluded,
    /// KubeVirt lists it as obsolete.
    #[error("it is obsolete")]
    Obsolete,
    /// No table knows its launch year.
    #[error("its launch year is unknown; set it in spec.models of the CpuModelPolicy")]
    Unknown,
    /// It is a generic model (`qemu64`) that represents no CPU ever sold.
    #[error("it is generic")]
    Generic,
    /// It was launched before `spec.minimalLaunchYear`.
    #[error("it was launched in {year}, before {minimum}")]
    TooOld {
        /// Its launch year.
        year: i32,
        /// The oldest year that the policy admits.
        minimum: i32,
    },
    /// It belongs to another vendor.
    #[error("it is a model of {vendor}")]
    ForeignVendor {
        /// The vendor of the model.
        vendor: Vendor,
    },
    /// Too few nodes support it.
    #[error("{supporters} of {needed} nodes support it")]
    TooFewSupporters {
        /// How many nodes support it.
        supporters: u32,
        /// How many are required.
        needed: u32,
    },
    /// The node has the label, with another value than `true`.
    #[error("the value of its node label is {value:?}, not \"true\"")]
    NotTrue {
        /// The value of the label.
        value: String,
    },
}

fn listed(vendors: &[Vendor]) -> String {
    let names: Vec<&str> = vendors.iter().map(Vendor::as_str).collect();
    names.join(", ")
}
