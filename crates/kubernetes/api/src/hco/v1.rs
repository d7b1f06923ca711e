//! `hco.kubevirt.io/v1`: settings in groups, feature gates as a list.

use kube_derive::CustomResource;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{BootImages, HyperConvergedStatus, MultiArchSwitch};
use crate::Rest;

/// The desired configuration.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "hco.kubevirt.io",
    version = "v1",
    kind = "HyperConverged",
    plural = "hyperconvergeds",
    namespaced,
    status = "HyperConvergedStatus",
    schema = "disabled",
    crates(kube_core = "::kube_core")
)]
#[serde(rename_all = "camelCase")]
pub struct HyperConvergedSpec {
    /// The sources of virtual machines.
    #[serde(default)]
    pub workload_sources: WorkloadSources,
    /// The placement of components.
    #[serde(default)]
    pub deployment: Deployment,
    /// The feature gates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub feature_gates: Vec<FeatureGate>,
    /// Other fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: Rest,
}

/// The sources of virtual machines.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadSources {
    /// The boot images.
    #[serde(flatten)]
    pub boot_images: BootImages,
    /// Whether boot images are imported for every architecture.
    #[serde(flatten)]
    pub multi_arch: MultiArchSwitch,
    /// Other fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: Rest,
}

/// The placement of components.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Deployment {
    /// The placement by component.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_placements: Option<NodePlacements>,
    /// Other fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: Rest,
}

/// The placement by component.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NodePlacements {
    /// The placement of virtual machines: `nodeSelector`, `affinity`, `tolerations`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<Value>,
    /// Other fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: Rest,
}

/// A feature gate.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FeatureGate {
    /// The name of the feature.
    #[serde(default)]
    pub name: String,
    /// `Enabled` (the default) or `Disabled`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Other fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: Rest,
}
