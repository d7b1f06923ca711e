//! The spec of CpuModelPolicy.

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
    /// The earliest launch year of models that may be chosen (2007).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minimal_launch_year: Option<i32>,
    /// How many nodes have to support a model.
    #[serde(default)]
    pub threshold: Threshold,
    /// Which nodes are eligible.
    #[serde(default)]
    pub nodes: NodeScope,
    /// Whether a newer model or more nodes are preferred (`Newest`).
    #[serde(default)]
    pub bias: Bias,
    /// How models of another vendor than the node's are treated (`Exclude`).
    #[serde(default)]
    pub foreign_vendors: ForeignVendors,
    /// Models missing from the built-in table, or overrides of its entries.
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
    /// A number of nodes, or a percentage of the eligible ones; a third of them if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub support: Option<Support>,
    /// The lower bound of a percentage (2).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minimum: Option<i32>,
    /// The upper bound of a percentage; 5 if `support` is absent, else no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maximum: Option<i32>,
}

/// A number or a percentage of nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Support {
    /// A number of nodes.
    Nodes(i32),
    /// A percentage such as `25%`.
    Share(String),
}

/// Which nodes count as eligible for a virtual machine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeScope {
    /// Nodes that are cordoned or whose virt-handler is not responding (`Ignore`).
    #[serde(default)]
    pub unschedulable: Counted,
    /// Nodes that are not Ready (`Ignore`).
    #[serde(default)]
    pub not_ready: Counted,
    /// Nodes with taints that the virtual machine does not tolerate (`Ignore`).
    #[serde(default)]
    pub tainted: Counted,
}

/// Whether a category of nodes counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Counted {
    /// They do not count.
    #[default]
    Ignore,
    /// They count, as they are expected to become available again.
    Count,
}

/// What is preferred among the models that enough nodes support.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Bias {
    /// The latest launch year.
    #[default]
    Newest,
    /// The most nodes.
    Widest,
}

/// How models of another vendor than the node's are treated. Emulators report many of them as usable.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ForeignVendors {
    /// They are never chosen.
    #[default]
    Exclude,
    /// They are chosen only if no model of the node's vendor is suitable.
    LastResort,
}

/// A model missing from the built-in table, or an override of its entry.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelOverride {
    /// The libvirt name.
    pub name: String,
    /// The launch year.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launch_year: Option<i32>,
    /// The vendor, as in node labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vendor: Option<String>,
    /// The order among models of the same year and vendor; higher is newer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<i32>,
}
