//! `DataVolume`: one import.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube_derive::CustomResource;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Condition, Named};
use crate::Rest;

/// The source and the target volume of an import.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "cdi.kubevirt.io",
    version = "v1beta1",
    kind = "DataVolume",
    plural = "datavolumes",
    namespaced,
    status = "DataVolumeStatus",
    schema = "disabled",
    derive = "PartialEq",
    derive = "Default",
    crates(kube_core = "::kube_core")
)]
#[serde(rename_all = "camelCase")]
pub struct DataVolumeSpec {
    /// The source of the data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<DataVolumeSource>,
    /// The DataSource to clone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_ref: Option<DataVolumeSourceRef>,
    /// The PVC, completed from the StorageProfile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<StorageSpec>,
    /// The PVC as given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pvc: Option<StorageSpec>,
    /// The content type: `kubevirt` or `archive`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// The stages of a multi-stage import.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoints: Option<Value>,
    /// Whether the last stage is final.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub final_checkpoint: Option<bool>,
    /// Other fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: Rest,
}

/// The source of an import.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DataVolumeSource {
    /// A container image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registry: Option<RegistrySource>,
    /// A PVC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pvc: Option<Named>,
    /// A file on a web server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpSource>,
    /// Other sources: s3, gcs, upload, imageio, vddk, blank, snapshot.
    #[serde(flatten)]
    pub rest: Rest,
}

/// A container image with a disk in it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RegistrySource {
    /// The image URL: `docker://`. CDI's `oci-archive://` is rejected, as it would name a file of the
    /// importer pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The ImageStream that refers to the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_stream: Option<String>,
    /// What pulls the image: `pod` (the default) or `node`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pull_method: Option<String>,
    /// The Secret with credentials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<String>,
    /// The ConfigMap with CA certificates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cert_config_map: Option<String>,
    /// The platform to choose from an index.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform: Option<Platform>,
    /// Other fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: Rest,
}

/// A disk that is a file on a web server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpSource {
    /// The URL of the file: `http://` or `https://`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The expected checksum: algorithm, `:` and hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checksum: Option<String>,
    /// The Secret with credentials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<String>,
    /// The ConfigMap with CA certificates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cert_config_map: Option<String>,
    /// Additional request headers as `Name: value`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extra_headers: Vec<String>,
    /// Secrets whose values are additional headers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secret_extra_headers: Vec<String>,
    /// Other fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: Rest,
}

impl RegistrySource {
    /// The image a node has to pull, as container runtimes name it. Nodes pull only from registries.
    pub fn pulled_by_node(&self) -> Option<&str> {
        let image = self.url.as_deref()?.strip_prefix("docker://")?;
        let by_node = self.pull_method.as_deref() == Some("node");
        Some(image).filter(|image| by_node && !image.is_empty())
    }
}

/// The platform of an image.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Platform {
    /// The architecture as in GOARCH.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub architecture: Option<String>,
    /// Other fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: Rest,
}

/// The DataSource a volume is cloned from.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DataVolumeSourceRef {
    /// `DataSource`.
    #[serde(default)]
    pub kind: String,
    /// The namespace; that of the volume if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The name.
    #[serde(default)]
    pub name: String,
    /// Other fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: Rest,
}

/// The requested PVC.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StorageSpec {
    /// The access modes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub access_modes: Vec<String>,
    /// Its storage class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage_class_name: Option<String>,
    /// The requested size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
    /// Other fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: Rest,
}

/// The requested size of a PVC.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Resources {
    /// By resource: `storage`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub requests: BTreeMap<String, Quantity>,
    /// Other fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: Rest,
}

/// The progress of an import.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DataVolumeStatus {
    /// The name of the PVC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim_name: Option<String>,
    /// `ImportInProgress`, `Succeeded` and so on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// The percentage, as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<String>,
    /// How often the importer pod was restarted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restart_count: Option<i32>,
    /// The conditions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Other fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: Rest,
}
