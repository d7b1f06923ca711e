//! `DataImportCron`: keeps the newest version of an image imported.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube_derive::CustomResource;
use serde::{Deserialize, Serialize};

use super::volume::DataVolumeSpec;
use super::{Condition, Named};
use crate::Rest;

/// What is imported, on which schedule, and how earlier imports are retained.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "cdi.kubevirt.io",
    version = "v1beta1",
    kind = "DataImportCron",
    plural = "dataimportcrons",
    namespaced,
    status = "DataImportCronStatus",
    schema = "disabled",
    derive = "PartialEq",
    derive = "Default",
    crates(kube_core = "::kube_core")
)]
#[serde(rename_all = "camelCase")]
pub struct DataImportCronSpec {
    /// The DataVolume of each import.
    #[serde(default)]
    pub template: DataVolumeTemplate,
    /// When to poll for a new version, as cron schedule; never if empty.
    #[serde(default)]
    pub schedule: String,
    /// Whether old imports are deleted: `Outdated` (the default) or `Never`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub garbage_collect: Option<String>,
    /// How many imports are kept (3).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub imports_to_keep: Option<i32>,
    /// The DataSource that points to the newest import.
    #[serde(default)]
    pub managed_data_source: String,
    /// Whether imports outlive the object: `All` (the default) or `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retention_policy: Option<String>,
    /// The service account in whose name volumes are cloned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account_name: Option<String>,
    /// Other fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: Rest,
}

impl DataImportCronSpec {
    /// Whether old imports are deleted.
    pub fn collects_garbage(&self) -> bool {
        self.garbage_collect.as_deref() != Some("Never")
    }

    /// Whether imports are deleted with the object.
    pub fn cleans_up(&self) -> bool {
        self.retention_policy.as_deref() == Some("None")
    }

    /// The requested architecture, if any.
    pub fn architecture(&self) -> Option<&str> {
        let registry = self.template.spec.source.as_ref()?.registry.as_ref()?;
        let architecture = registry.platform.as_ref()?.architecture.as_deref()?;
        (!architecture.is_empty()).then_some(architecture)
    }
}

/// The template of a DataVolume.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DataVolumeTemplate {
    /// Its annotations and labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<ObjectMeta>,
    /// Its spec.
    #[serde(default)]
    pub spec: DataVolumeSpec,
    /// Other fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: Rest,
}

/// The imports of a DataImportCron and its conditions.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DataImportCronStatus {
    /// The current or last import: at most one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub current_imports: Vec<ImportStatus>,
    /// The volume of the last import that succeeded.
    #[serde(
        default,
        rename = "lastImportedPVC",
        skip_serializing_if = "Option::is_none"
    )]
    pub last_imported_pvc: Option<Named>,
    /// When the source was last polled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_execution_timestamp: Option<Time>,
    /// When an import last succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_import_timestamp: Option<Time>,
    /// The format of imports: `pvc` or `snapshot`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_format: Option<String>,
    /// The conditions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Other fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: Rest,
}

/// An import.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportStatus {
    /// The DataVolume, whose name the PVC and the snapshot share.
    #[serde(rename = "DataVolumeName", default)]
    pub data_volume_name: String,
    /// The digest of the imported version.
    #[serde(rename = "Digest", default)]
    pub digest: String,
}
