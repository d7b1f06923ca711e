//! `ssp.kubevirt.io/v1beta3`: what turns templates into DataImportCrons.

#[cfg(test)]
mod tests;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_derive::CustomResource;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Rest;
use crate::cdi::DataImportCronSpec;

/// The architectures of an image, with commas between: on templates.
pub const ARCHITECTURES: &str = "ssp.kubevirt.io/dict.architectures";
/// Whether a template counts: `true` or `false`.
pub const ENABLE: &str = "dataimportcrontemplate.kubevirt.io/enable";
/// Stops everything but deletion: on an SSP.
pub const PAUSED: &str = "kubevirt.io/operator.paused";
/// Where images are, unless a template says otherwise.
pub const GOLDEN_NAMESPACE: &str = "kubevirt-os-images";
/// Who owns an object across namespaces, as `namespace/name`.
pub const OWNER: &str = "operator-sdk/primary-resource";
/// The kind and group of who owns an object across namespaces.
pub const OWNER_TYPE: &str = "operator-sdk/primary-resource-type";

/// What images and templates there are.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "ssp.kubevirt.io",
    version = "v1beta3",
    kind = "SSP",
    plural = "ssps",
    namespaced,
    status = "SspStatus",
    schema = "disabled",
    derive = "PartialEq",
    derive = "Default",
    crates(kube_core = "::kube_core")
)]
#[serde(rename_all = "camelCase")]
pub struct SspSpec {
    /// Whether there is an image for every architecture.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enable_multiple_architectures: Option<bool>,
    /// What nodes there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<Cluster>,
    /// The templates.
    #[serde(default)]
    pub common_templates: CommonTemplates,
    /// Fields that are not looked at.
    #[serde(flatten)]
    pub rest: Rest,
}

/// The architectures of the nodes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cluster {
    /// Of those that run virtual machines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workload_architectures: Vec<String>,
    /// Of those that run the cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub control_plane_architectures: Vec<String>,
    /// Fields that are not looked at.
    #[serde(flatten)]
    pub rest: Rest,
}

/// Templates of virtual machines, and of the images they start from.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CommonTemplates {
    /// Where templates of virtual machines go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Images.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub data_import_cron_templates: Vec<DataImportCronTemplate>,
    /// Fields that are not looked at.
    #[serde(flatten)]
    pub rest: Rest,
}

/// An image, from which DataImportCrons are made: one for every architecture.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DataImportCronTemplate {
    /// Its name, namespace and annotations.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What is imported; a template that only disables another has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec: Option<DataImportCronSpec>,
    /// Fields that are not looked at.
    #[serde(flatten)]
    pub rest: Rest,
}

impl DataImportCronTemplate {
    /// What it is called.
    pub fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    /// An annotation.
    pub fn annotation(&self, name: &str) -> Option<&str> {
        let annotations = self.metadata.annotations.as_ref()?;
        annotations.get(name).map(String::as_str)
    }
}

/// What SSP says of itself; nothing here looks at it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SspStatus {
    /// Conditions, as they are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Value>,
    /// Fields that are not looked at.
    #[serde(flatten)]
    pub rest: Rest,
}
