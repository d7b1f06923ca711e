//! `cdi.kubevirt.io/v1beta1`: what imports disks into a cluster, and the volume snapshots it uses.
//!
//! Words that are a choice of few (`Outdated`, `node`, a phase) are texts here: an object with a word
//! from a later version can still be read, and is judged where it matters.

mod cron;
mod data_source;
mod storage;
mod volume;

#[cfg(test)]
mod tests;

pub use cron::{
    DataImportCron, DataImportCronSpec, DataImportCronStatus, DataVolumeTemplate, ImportStatus,
};
pub use data_source::{DataSource, DataSourceRef, DataSourceSpec, DataSourceStatus, Source};
pub use storage::{
    StorageProfile, StorageProfileSpec, StorageProfileStatus, VolumeSnapshot, VolumeSnapshotSource,
    VolumeSnapshotSpec, VolumeSnapshotStatus,
};
pub use volume::{
    DataVolume, DataVolumeSource, DataVolumeSourceRef, DataVolumeSpec, DataVolumeStatus,
    HttpSource, Platform, RegistrySource, Resources, StorageSpec,
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::{Deserialize, Serialize};

use crate::Rest;

/// The group of the kinds.
pub const GROUP: &str = "cdi.kubevirt.io";
/// The version of the kinds.
pub const VERSION: &str = "v1beta1";

/// What holds of an object of CDI. Unlike `metav1.Condition`, it may lack a reason and a message.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// What it is about.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    #[serde(default)]
    pub status: String,
    /// Why, in a word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Why, in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When the status became what it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
    /// When anything about it was last written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_heartbeat_time: Option<Time>,
    /// Fields that are not looked at.
    #[serde(flatten)]
    pub rest: Rest,
}

/// An object by namespace and name.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Named {
    /// Where it is; where the referrer is, if empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// What it is called.
    #[serde(default)]
    pub name: String,
}

/// Labels.
pub mod labels {
    /// Which architecture an object is for.
    pub const ARCHITECTURE: &str = "template.kubevirt.io/architecture";
    /// What a DataSource is called without its architecture.
    pub const DATA_SOURCE_NAME: &str = "cdi.kubevirt.io/storage.import.datasource-name";
    /// The DataImportCron that made an object, or that keeps a DataSource current.
    pub const DATA_IMPORT_CRON: &str = "cdi.kubevirt.io/dataImportCron";
    /// Whether an object goes with its DataImportCron.
    pub const CLEANUP: &str = "cdi.kubevirt.io/dataImportCron.cleanup";
}

/// Annotations.
pub mod annotations {
    /// What a DataImportCron should import: written by whoever polls.
    pub const DESIRED_DIGEST: &str = "cdi.kubevirt.io/storage.import.sourceDesiredDigest";
    /// When the source was last polled.
    pub const LAST_CRON_TIME: &str = "cdi.kubevirt.io/storage.import.lastCronTime";
    /// When the source is to be polled next.
    pub const NEXT_CRON_TIME: &str = "cdi.kubevirt.io/storage.import.nextCronTime";
    /// The storage class that imports use.
    pub const STORAGE_CLASS: &str = "cdi.kubevirt.io/storage.import.storageClass";
    /// When an import was last used.
    pub const LAST_USE_TIME: &str = "cdi.kubevirt.io/storage.import.lastUseTime";
    /// The mode of the volume that a snapshot was made of.
    pub const SOURCE_VOLUME_MODE: &str = "cdi.kubevirt.io/storage.import.sourceVolumeMode";
    /// How big a volume from a snapshot should be.
    pub const ADVISED_RESTORE_SIZE: &str = "cdi.kubevirt.io/storage.import.advisedRestoreSize";
    /// Binds a volume although nobody uses it yet.
    pub const IMMEDIATE_BIND: &str = "cdi.kubevirt.io/storage.bind.immediate.requested";
    /// Keeps the pod of an import.
    pub const RETAIN_POD: &str = "cdi.kubevirt.io/storage.pod.retainAfterCompletion";
    /// On a StorageProfile: imports are mounted by one node.
    pub const READ_WRITE_ONCE: &str = "cdi.kubevirt.io/useReadWriteOnceForDataImportCron";
    /// On a StorageProfile: the class of snapshots of imports.
    pub const SNAPSHOT_CLASS: &str = "cdi.kubevirt.io/snapshotClassForDataImportCron";
}
