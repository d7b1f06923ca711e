//! The status of GoldenImagePolicy.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use serde::{Deserialize, Serialize};

/// The observed nodes and images.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GoldenImagePolicyStatus {
    /// The `metadata.generation` this status was computed from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The conditions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// The architectures of the nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<NodeArchitectures>,
    /// The images.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<ImageState>,
    /// Whether the disks in use are for their architectures, while another operator imports them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub verifications: Vec<Verification>,
}

/// Whether the disk of a DataSource is for its architecture.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Verification {
    /// The namespace of the DataSource.
    pub namespace: String,
    /// The DataSource.
    pub data_source: String,
    /// The architecture; empty if it is unknown.
    #[serde(default)]
    pub architecture: String,
    /// The digest that was imported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// `Verified`, `Mismatch` or `NotVerifiable`.
    pub result: String,
    /// The machine-readable reason.
    #[serde(default)]
    pub reason: String,
    /// The message for people.
    #[serde(default)]
    pub message: String,
}

/// The architectures of the nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeArchitectures {
    /// The architectures of nodes that run virtual machines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workload: Vec<String>,
    /// The architectures of control plane nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub control_plane: Vec<String>,
    /// Architectures of nodes that no virtual machine can use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignored: Vec<String>,
    /// The architecture that names without architecture refer to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_architecture: Option<String>,
    /// Why this architecture was chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_reason: Option<String>,
}

/// The state of an image.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImageState {
    /// The namespace of its DataSource.
    pub namespace: String,
    /// The name of its DataSource without architecture.
    pub name: String,
    /// The architecture the name without architecture refers to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_architecture: Option<String>,
    /// Why this architecture was chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_reason: Option<String>,
    /// The state by architecture.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub architectures: Vec<ArchitectureState>,
}

/// The state of an image for one architecture.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ArchitectureState {
    /// The architecture; empty for an image without architecture.
    #[serde(default)]
    pub architecture: String,
    /// The DataSource of this architecture.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_source: Option<String>,
    /// `Ready`, `Pending`, `Failed` or `Leaving`.
    pub state: String,
    /// The machine-readable reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The digest in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// When it is deleted, unless a node of its architecture joins before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leaves_at: Option<Time>,
}
