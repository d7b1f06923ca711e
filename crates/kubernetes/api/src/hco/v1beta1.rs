//! `hco.kubevirt.io/v1beta1`: settings side by side, feature gates as fields.

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
    version = "v1beta1",
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
    /// Whether there are built-in images (true).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enable_common_boot_image_import: Option<bool>,
    /// Images of the administrator, and changes to built-in ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub data_import_cron_templates: Vec<DataImportCronTemplate>,
    /// Where built-in images go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub common_boot_image_namespace: Option<String>,
    /// Where templates of virtual machines go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub common_templates_namespace: Option<String>,
    /// Where virtual machines run.
    #[serde(default)]
    pub workloads: Workloads,
    /// Features that are switched on or off.
    #[serde(default)]
    pub feature_gates: FeatureGates,
    /// Fields that are not looked at.
    #[serde(flatten)]
    pub rest: Rest,
}

/// Where virtual machines run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Workloads {
    /// `nodeSelector`, `affinity`, `tolerations`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_placement: Option<Value>,
    /// Fields that are not looked at.
    #[serde(flatten)]
    pub rest: Rest,
}

/// Features that are switched on or off.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FeatureGates {
    /// Whether there are images for every architecture.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enable_multi_arch_boot_image_import: Option<bool>,
    /// The same, as it was first proposed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enable_multi_arch_common_boot_image_import: Option<bool>,
    /// Fields that are not looked at.
    #[serde(flatten)]
    pub rest: Rest,
}
