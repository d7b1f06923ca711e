//! `hco.kubevirt.io/v1`: settings in groups, feature gates as a list.

use kube_derive::CustomResource;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::HyperConvergedStatus;
use crate::Rest;
use crate::ssp::DataImportCronTemplate;

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
    derive = "PartialEq",
    derive = "Default",
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
    /// Whether built-in boot images are imported (default true).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enable_common_boot_image_import: Option<bool>,
    /// Whether boot images are imported for every architecture.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enable_multi_arch_boot_image_import: Option<bool>,
    /// The same switch under its first proposed name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enable_multi_arch_common_boot_image_import: Option<bool>,
    /// Custom boot image templates, and overrides of built-in ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub data_import_cron_templates: Vec<DataImportCronTemplate>,
    /// The namespace of built-in boot images.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub common_boot_image_namespace: Option<String>,
    /// The namespace of VM templates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub common_templates_namespace: Option<String>,
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
