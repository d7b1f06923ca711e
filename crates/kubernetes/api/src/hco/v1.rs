//! `hco.kubevirt.io/v1`: settings in groups, feature gates as a list.

use kube_derive::CustomResource;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::HyperConvergedStatus;
use crate::Rest;
use crate::ssp::DataImportCronTemplate;

/// What an administrator asks for.
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
    /// Where virtual machines come from.
    #[serde(default)]
    pub workload_sources: WorkloadSources,
    /// Where things run.
    #[serde(default)]
    pub deployment: Deployment,
    /// Features that are switched on or off.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub feature_gates: Vec<FeatureGate>,
    /// Fields that are not looked at.
    #[serde(flatten)]
    pub rest: Rest,
}

/// Where virtual machines come from.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadSources {
    /// Whether there are built-in images (true).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enable_common_boot_image_import: Option<bool>,
    /// Whether there are images for every architecture.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enable_multi_arch_boot_image_import: Option<bool>,
    /// The same, as it was first proposed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enable_multi_arch_common_boot_image_import: Option<bool>,
    /// Images of the administrator, and changes to built-in ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub data_import_cron_templates: Vec<DataImportCronTemplate>,
    /// Where built-in images go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub common_boot_image_namespace: Option<String>,
    /// Where templates of virtual machines go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub common_templates_namespace: Option<String>,
    /// Fields that are not looked at.
    #[serde(flatten)]
    pub rest: Rest,
}

/// Where things run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Deployment {
    /// By what runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_placements: Option<NodePlacements>,
    /// Fields that are not looked at.
    #[serde(flatten)]
    pub rest: Rest,
}

/// Where things run, by what runs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NodePlacements {
    /// Virtual machines: `nodeSelector`, `affinity`, `tolerations`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<Value>,
    /// Fields that are not looked at.
    #[serde(flatten)]
    pub rest: Rest,
}

/// A feature that is switched on or off.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FeatureGate {
    /// The feature.
    #[serde(default)]
    pub name: String,
    /// `Enabled` (the default) or `Disabled`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Fields that are not looked at.
    #[serde(flatten)]
    pub rest: Rest,
}
