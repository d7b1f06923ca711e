//! The status of CpuModelPolicy.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde::{Deserialize, Serialize};

/// The observed nodes and virtual machines.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CpuModelPolicyStatus {
    /// The `metadata.generation` this status was computed from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The conditions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Nodes grouped by architecture, vendor and host model.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<NodeGroup>,
    /// The virtual machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machines: Option<Machines>,
    /// Models that nodes support but that are in no table.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown_models: Vec<String>,
}

/// Nodes with the same architecture, vendor and host model.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeGroup {
    /// Their architecture.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub architecture: Option<String>,
    /// Their vendor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vendor: Option<String>,
    /// The host model of their CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_model: Option<String>,
    /// The number of nodes.
    pub nodes: i32,
    /// The newest model that all of them support.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub newest_model: Option<String>,
}

/// The virtual machines whose CPU model Medley chooses.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Machines {
    /// VMs that run with a chosen model.
    pub resolved: i32,
    /// VMs that run with the host model, because no other model is suitable.
    pub host_model: i32,
    /// VMs that would get a newer model after a restart.
    pub stale: i32,
    /// VMs whose model too few nodes support.
    pub stranded: i32,
}
