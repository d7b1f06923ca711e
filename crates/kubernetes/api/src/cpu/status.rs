//! What is seen.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde::{Deserialize, Serialize};

/// What is seen of the nodes and of the machines.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CpuModelPolicyStatus {
    /// The generation that this is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// What holds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Nodes that are alike.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<NodeGroup>,
    /// The machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machines: Option<Machines>,
    /// Models that nodes support and that no table knows.
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
    /// What their own CPU is called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_model: Option<String>,
    /// How many there are.
    pub nodes: i32,
    /// The newest model that all of them support.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub newest_model: Option<String>,
}

/// How the machines that leave the choice to Medley fare.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Machines {
    /// Those that run with a model that was chosen.
    pub resolved: i32,
    /// Those that run with the model of their host, because no other would do.
    pub host_model: i32,
    /// Those that would get a newer model if they were restarted.
    pub stale: i32,
    /// Those whose model too few nodes support.
    pub stranded: i32,
}
