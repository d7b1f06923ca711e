//! `ssp.kubevirt.io/v1beta3`: the operator that turns templates into DataImportCrons.

#[cfg(test)]
mod tests;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_derive::CustomResource;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Rest;
use crate::cdi::DataImportCronSpec;

/// On templates: the architectures of an image, separated by commas.
pub const ARCHITECTURES: &str = "ssp.kubevirt.io/dict.architectures";
/// Whether a template is enabled: `true` or `false`.
pub const ENABLE: &str = "dataimportcrontemplate.kubevirt.io/enable";
/// On an SSP: pauses everything but deletion.
pub const PAUSED: &str = "kubevirt.io/operator.paused";
/// The default namespace of images.
pub const GOLDEN_NAMESPACE: &str = "kubevirt-os-images";
/// The owner of an object across namespaces, as `namespace/name`.
pub const OWNER: &str = "operator-sdk/primary-resource";
/// The kind and group of the owner across namespaces.
pub const OWNER_TYPE: &str = "operator-sdk/primary-resource-type";

/// The images and templates of a cluster.
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
    /// Whether images are imported for every architecture.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enable_multiple_architectures: Option<bool>,
    /// The architectures of the nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<Cluster>,
    /// The templates.
    #[serde(default)]
    pub common_templates: CommonTemplates,
    /// Other fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: Rest,
}

/// The architectures of the nodes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cluster {
    /// The architectures of nodes that run virtual machines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workload_architectures: Vec<String>,
    /// The architectures of control plane nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub control_plane_architectures: Vec<String>,
    /// Other fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: Rest,
}

/// Templates of VMs, and of the images they boot from.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CommonTemplates {
    /// The namespace of VM templates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The image templates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub data_import_cron_templates: Vec<DataImportCronTemplate>,
    /// Other fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: Rest,
}

/// The template of an image; one DataImportCron is created per architecture.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DataImportCronTemplate {
    /// Its name, namespace and annotations.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// The DataImportCron spec; absent in a template that only disables another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec: Option<DataImportCronSpec>,
    /// Other fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: Rest,
}

impl DataImportCronTemplate {
    /// The name.
    pub fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    /// An annotation.
    pub fn annotation(&self, name: &str) -> Option<&str> {
        let annotations = self.metadata.annotations.as_ref()?;
        annotations.get(name).map(String::as_str)
    }
}

/// The status of SSP, which is not used here.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SspStatus {
    /// Conditions, as they are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Value>,
    /// Other fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: Rest,
}
