//! `hco.kubevirt.io/v1beta1`: flat settings, feature gates as fields.

use kube_derive::CustomResource;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{BootImages, HyperConvergedStatus, MultiArchSwitch};
use crate::Rest;

/// The desired configuration.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "hco.kubevirt.io",
    version = "v1beta1",
    kind = "HyperConverged",
    plural = "hyperconvergeds",
    namespaced,
    status = "HyperConvergedStatus",
    schema = "disabled",
    crates(kube_core = "::kube_core")
)]
#[serde(rename_all = "camelCase")]
pub struct HyperConvergedSpec {
    /// The boot images.
    #[serde(flatten)]
    pub boot_images: BootImages,
    /// The placement of virtual machines.
    #[serde(default)]
    pub workloads: Workloads,
    /// The feature gates.
    #[serde(default)]
    pub feature_gates: FeatureGates,
    /// Other fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: Rest,
}

/// The placement of virtual machines.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Workloads {
    /// `nodeSelector`, `affinity`, `tolerations`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_placement: Option<Value>,
    /// Other fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: Rest,
}

/// The feature gates.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FeatureGates {
    /// Whether boot images are imported for every architecture.
    #[serde(flatten)]
    pub multi_arch: MultiArchSwitch,
    /// Other fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: Rest,
}
