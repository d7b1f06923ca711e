//! What an administrator asks for.

use kube_derive::CustomResource;
use serde::{Deserialize, Serialize};

use super::status::CpuModelPolicyStatus;

/// How CPU models are chosen.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "medley.dev",
    version = "v1alpha1",
    kind = "CpuModelPolicy",
    plural = "cpumodelpolicies",
    status = "CpuModelPolicyStatus",
    schema = "disabled",
    derive = "PartialEq",
    derive = "Default",
    crates(kube_core = "::kube_core")
)]
#[serde(rename_all = "camelCase")]
pub struct CpuModelPolicySpec {
    /// The oldest launch year a model may have (2007).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minimal_launch_year: Option<i32>,
    /// How many nodes have to support a model.
    #[serde(default)]
    pub threshold: Threshold,
    /// Which nodes count.
    #[serde(default)]
    pub nodes: NodeScope,
    /// What counts more: a new model or many nodes (`Newest`).
    #[serde(default)]
    pub bias: Bias,
    /// What is done with models of another vendor than that of the node (`Exclude`).
    #[serde(default)]
    pub foreign_vendors: ForeignVendors,
    /// Models that the built-in table does not know, or knows differently.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<ModelOverride>,
    /// Models that are never chosen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub excluded_models: Vec<String>,
}

/// How many nodes have to support a model.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Threshold {
    /// A number of nodes, or a share of those that are eligible; a third of them if it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub support: Option<Support>,
    /// The least that a share comes to (2).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minimum: Option<i32>,
    /// The most that a share comes to; 5 if no share is given, else no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maximum: Option<i32>,
}

/// A number of nodes or a share of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Support {
    /// So many nodes.
    Nodes(i32),
    /// A share such as `25%`.
    Share(String),
}

/// Which nodes count as places where a machine can go.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeScope {
    /// Nodes that are cordoned or whose virt-handler does not answer (`Ignore`).
    #[serde(default)]
    pub unschedulable: Counted,
    /// Nodes that are not Ready (`Ignore`).
    #[serde(default)]
    pub not_ready: Counted,
    /// Nodes with taints that the machine does not tolerate (`Ignore`).
    #[serde(default)]
    pub tainted: Counted,
}

/// Whether nodes of some sort count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Counted {
    /// They do not.
    #[default]
    Ignore,
    /// They do: they are expected back.
    Count,
}

/// What counts more among the models that enough nodes support.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Bias {
    /// The launch year.
    #[default]
    Newest,
    /// The number of nodes.
    Widest,
}

/// What is done with models of another vendor than that of the node. Emulators take many of them
/// for usable.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ForeignVendors {
    /// They are never chosen.
    #[default]
    Exclude,
    /// They are chosen if no model of the right vendor will do.
    LastResort,
}

/// A model that the built-in table does not know, or knows differently.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelOverride {
    /// What libvirt calls it.
    pub name: String,
    /// When it was launched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launch_year: Option<i32>,
    /// Its vendor, as in the labels of nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vendor: Option<String>,
    /// Its place among models of the same year and vendor: higher is newer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<i32>,
}
