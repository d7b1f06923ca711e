//! `hco.kubevirt.io`: the HyperConverged object, as far as golden images are concerned.
//!
//! It is served as `v1` and as `v1beta1`, which keep the same settings in different places. [`Images`]
//! is what both say.

mod images;
#[cfg(test)]
mod tests;
pub mod v1;
pub mod v1beta1;

pub use images::{Gate, GateName, Images, Version};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use serde::{Deserialize, Serialize};

use crate::Rest;
use crate::cdi::DataImportCronSpec;

/// The group of the kind.
pub const GROUP: &str = "hco.kubevirt.io";
/// What the one SSP is called that follows from a HyperConverged.
pub const SSP_NAME: &str = "ssp-kubevirt-hyperconverged";
/// The ConfigMap beside a HyperConverged that holds the templates which are built in.
pub const TEMPLATES: &str = "data-import-cron-templates";
/// Its entry with templates of images: a list in YAML.
pub const TEMPLATES_KEY: &str = "dataImportCronTemplates.yaml";
/// Its entry with templates of virtual machines: a list in YAML.
pub const MACHINES_KEY: &str = "virtualMachineTemplates.yaml";
/// The switch: a field, and before that a feature gate.
pub const MULTI_ARCH: &str = "enableMultiArchBootImageImport";
/// What the switch was called when it was proposed.
pub const MULTI_ARCH_PROPOSED: &str = "enableMultiArchCommonBootImageImport";

/// What is seen, in both versions.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HyperConvergedStatus {
    /// What nodes there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_info: Option<NodeInfo>,
    /// Whether there are two workers or more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub infrastructure_highly_available: Option<bool>,
    /// When built-in images are looked for: made up once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_import_schedule: Option<String>,
    /// All images, and what became of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub data_import_cron_templates: Vec<TemplateWithStatus>,
    /// Fields that are not looked at.
    #[serde(flatten)]
    pub rest: Rest,
}

/// The architectures of the nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeInfo {
    /// Of those that run virtual machines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workloads_architectures: Vec<String>,
    /// Of those that run the cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub control_plane_architectures: Vec<String>,
    /// The one of a virtual machine that names none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_workload_architecture: Option<String>,
    /// Fields that are not looked at.
    #[serde(flatten)]
    pub rest: Rest,
}

/// A template, and what became of it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TemplateWithStatus {
    /// Its name, namespace and annotations.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What is imported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec: Option<DataImportCronSpec>,
    /// What became of it.
    #[serde(default)]
    pub status: TemplateStatus,
    /// Fields that are not looked at.
    #[serde(flatten)]
    pub rest: Rest,
}

/// What became of a template.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TemplateStatus {
    /// Only what is wrong: `Deployed` is false, or absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Whether it is built in.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub common_template: bool,
    /// Whether it is built in and was changed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub modified: bool,
    /// The architectures before those were removed that the cluster does not have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub original_supported_architectures: Option<String>,
    /// Fields that are not looked at.
    #[serde(flatten)]
    pub rest: Rest,
}
