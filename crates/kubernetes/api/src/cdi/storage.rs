//! Capabilities of storage classes, and volume snapshots.

use kube_derive::CustomResource;
use serde::{Deserialize, Serialize};

use crate::Rest;

/// An administrator's settings of a storage class.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "cdi.kubevirt.io",
    version = "v1beta1",
    kind = "StorageProfile",
    plural = "storageprofiles",
    status = "StorageProfileStatus",
    schema = "disabled",
    derive = "PartialEq",
    derive = "Default",
    crates(kube_core = "::kube_core")
)]
#[serde(rename_all = "camelCase")]
pub struct StorageProfileSpec {
    /// The format of imports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_import_cron_source_format: Option<String>,
    /// Other fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: Rest,
}

/// The detected properties of a storage class.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StorageProfileStatus {
    /// The storage class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage_class: Option<String>,
    /// The provisioner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provisioner: Option<String>,
    /// The format of imports: `pvc` or `snapshot`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_import_cron_source_format: Option<String>,
    /// The VolumeSnapshotClass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot_class: Option<String>,
    /// Other fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: Rest,
}

/// A snapshot of a PVC.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "snapshot.storage.k8s.io",
    version = "v1",
    kind = "VolumeSnapshot",
    plural = "volumesnapshots",
    namespaced,
    status = "VolumeSnapshotStatus",
    schema = "disabled",
    derive = "PartialEq",
    derive = "Default",
    crates(kube_core = "::kube_core")
)]
#[serde(rename_all = "camelCase")]
pub struct VolumeSnapshotSpec {
    /// The source of the snapshot.
    #[serde(default)]
    pub source: VolumeSnapshotSource,
    /// The VolumeSnapshotClass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_snapshot_class_name: Option<String>,
    /// Other fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: Rest,
}

/// The source of a snapshot.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VolumeSnapshotSource {
    /// The name of the PVC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub persistent_volume_claim_name: Option<String>,
    /// Other fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: Rest,
}

/// The progress of a snapshot.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VolumeSnapshotStatus {
    /// Whether it can be restored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_to_use: Option<bool>,
    /// Other fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: Rest,
}
