//! `DataImportCron`: keeps the newest version of an image imported.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube_derive::CustomResource;
use serde::{Deserialize, Serialize};

use super::volume::DataVolumeSpec;
use super::{Condition, Named};
use crate::Rest;

/// What is imported, how often, and what becomes of what was imported before.
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
    /// What every import looks like.
    #[serde(default)]
    pub template: DataVolumeTemplate,
    /// When to look for a new version; never by itself if empty.
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
    /// In whose name volumes are cloned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account_name: Option<String>,
    /// Fields that are not looked at.
    #[serde(flatten)]
    pub rest: Rest,
}

impl DataImportCronSpec {
    /// Whether old imports are deleted.
    pub fn collects_garbage(&self) -> bool {
        self.garbage_collect.as_deref() != Some("Never")
    }

    /// Whether imports go with the object.
    pub fn cleans_up(&self) -> bool {
        self.retention_policy.as_deref() == Some("None")
    }

    /// The architecture that is imported, if one is asked for.
    pub fn architecture(&self) -> Option<&str> {
        let registry = self.template.spec.source.as_ref()?.registry.as_ref()?;
        let architecture = registry.platform.as_ref()?.architecture.as_deref()?;
        (!architecture.is_empty()).then_some(architecture)
    }
}

/// A DataVolume to be.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DataVolumeTemplate {
    /// Its annotations and labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<ObjectMeta>,
    /// What it is.
    #[serde(default)]
    pub spec: DataVolumeSpec,
    /// Fields that are not looked at.
    #[serde(flatten)]
    pub rest: Rest,
}

/// What was imported, and what holds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DataImportCronStatus {
    /// What is being imported or was imported last: at most one.
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
    /// What imports are kept as: `pvc` or `snapshot`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_format: Option<String>,
    /// What holds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Fields that are not looked at.
    #[serde(flatten)]
    pub rest: Rest,
}

/// An import.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportStatus {
    /// The DataVolume, which gives its name to the volume and to the snapshot.
    #[serde(rename = "DataVolumeName", default)]
    pub data_volume_name: String,
    /// What was imported.
    #[serde(rename = "Digest", default)]
    pub digest: String,
}
