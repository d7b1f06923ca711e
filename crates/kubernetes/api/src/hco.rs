//! `hco.kubevirt.io`: the HyperConverged object, as far as golden images are concerned.
//!
//! It is served as `v1` and as `v1beta1`, which keep the same settings in different places. [`Images`]
//! is independent of the version.

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
use crate::ssp::DataImportCronTemplate;

/// The API group.
pub const GROUP: &str = "hco.kubevirt.io";
/// The name of the SSP that HCO creates.
pub const SSP_NAME: &str = "ssp-kubevirt-hyperconverged";
/// The ConfigMap in HCO's namespace with the built-in templates.
pub const TEMPLATES: &str = "data-import-cron-templates";
/// Its key with boot image templates: a YAML list.
pub const TEMPLATES_KEY: &str = "dataImportCronTemplates.yaml";
/// Its key with VM templates: a YAML list.
pub const MACHINES_KEY: &str = "virtualMachineTemplates.yaml";
/// The switch: a field, formerly a feature gate.
pub const MULTI_ARCH: &str = "enableMultiArchBootImageImport";
/// The proposed name of the switch.
pub const MULTI_ARCH_PROPOSED: &str = "enableMultiArchCommonBootImageImport";

/// The settings of boot images, which both versions keep in another place.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BootImages {
    /// Whether built-in boot images are imported (default true).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enable_common_boot_image_import: Option<bool>,
    /// Custom boot image templates, and overrides of built-in ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub data_import_cron_templates: Vec<DataImportCronTemplate>,
    /// The namespace of built-in boot images.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub common_boot_image_namespace: Option<String>,
    /// The namespace of VM templates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub common_templates_namespace: Option<String>,
}

/// Whether boot images are imported for every architecture: a setting in `v1`, a feature gate in `v1beta1`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MultiArchSwitch {
    /// The switch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enable_multi_arch_boot_image_import: Option<bool>,
    /// The same switch under its first proposed name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enable_multi_arch_common_boot_image_import: Option<bool>,
}

/// The status, in both versions.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HyperConvergedStatus {
    /// The architectures of the nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_info: Option<NodeInfo>,
    /// Whether there are two workers or more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub infrastructure_highly_available: Option<bool>,
    /// The schedule of built-in images, randomized once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_import_schedule: Option<String>,
    /// All templates with their status.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub data_import_cron_templates: Vec<TemplateWithStatus>,
    /// Other fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: Rest,
}

/// The architectures of the nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeInfo {
    /// The architectures of nodes that run virtual machines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workloads_architectures: Vec<String>,
    /// The architectures of control plane nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub control_plane_architectures: Vec<String>,
    /// The architecture of a VM that does not specify one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_workload_architecture: Option<String>,
    /// Other fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: Rest,
}

/// A template with its status.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TemplateWithStatus {
    /// Its name, namespace and annotations.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// The DataImportCron spec.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec: Option<DataImportCronSpec>,
    /// Its status.
    #[serde(default)]
    pub status: TemplateStatus,
    /// Other fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: Rest,
}

/// The status of a template.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TemplateStatus {
    /// Only failures: `Deployed` is false, or absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Whether it is built in.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub common_template: bool,
    /// Whether it is built in and was modified.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub modified: bool,
    /// The architectures before those missing in the cluster were removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub original_supported_architectures: Option<String>,
    /// Other fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: Rest,
}
