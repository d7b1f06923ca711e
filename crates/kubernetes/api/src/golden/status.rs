//! What is seen.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use serde::{Deserialize, Serialize};

/// What is seen of the nodes and of the images.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GoldenImagePolicyStatus {
    /// The generation that this is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// What holds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// The nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<NodeArchitectures>,
    /// The images.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<ImageState>,
}

/// The architectures of the nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeArchitectures {
    /// Of those that run virtual machines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workload: Vec<String>,
    /// Of those that run the cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub control_plane: Vec<String>,
    /// Those that no virtual machine can have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignored: Vec<String>,
    /// The one that names without architecture stand for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_architecture: Option<String>,
    /// Why this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_reason: Option<String>,
}

/// An image.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImageState {
    /// Where its DataSource is.
    pub namespace: String,
    /// What its DataSource is called without architecture.
    pub name: String,
    /// The one that the name stands for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_architecture: Option<String>,
    /// Why this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_reason: Option<String>,
    /// By architecture.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub architectures: Vec<ArchitectureState>,
}

/// An image for one architecture.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ArchitectureState {
    /// Which; none for an image that is as it comes.
    #[serde(default)]
    pub architecture: String,
    /// The DataSource for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_source: Option<String>,
    /// `Ready`, `Pending`, `Failed` or `Leaving`.
    pub state: String,
    /// Why, in a word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The version in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// When it goes, if no node of its architecture comes back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leaves_at: Option<Time>,
}
