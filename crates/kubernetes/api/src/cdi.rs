//! `cdi.kubevirt.io/v1beta1`: the kinds that import disks into a cluster, and the volume snapshots they
//! use.
//!
//! Enumerations (`Outdated`, `node`, a phase) are strings here: an object with a value from a later
//! version can still be read, and the value is checked where it is used.

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

/// The API group.
pub const GROUP: &str = "cdi.kubevirt.io";
/// The API version.
pub const VERSION: &str = "v1beta1";

/// A condition of CDI. Unlike `metav1.Condition`, it may lack a reason and a message.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// The condition type.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    #[serde(default)]
    pub status: String,
    /// The machine-readable reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The message for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When the status last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
    /// When the condition was last written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_heartbeat_time: Option<Time>,
    /// Other fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: Rest,
}

/// An object by namespace and name.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Named {
    /// The namespace; that of the referring object if empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The name.
    #[serde(default)]
    pub name: String,
}

impl Named {
    /// The reference with a namespace: that of the referring object if it names none.
    #[must_use]
    pub fn or_in(&self, namespace: &str) -> Self {
        let given = Some(self.namespace.as_str()).filter(|it| !it.is_empty());
        Self {
            namespace: given.unwrap_or(namespace).to_owned(),
            name: self.name.clone(),
        }
    }
}

/// Labels.
pub mod labels {
    /// The architecture of an object.
    pub const ARCHITECTURE: &str = "template.kubevirt.io/architecture";
    /// The name of a DataSource without its architecture.
    pub const DATA_SOURCE_NAME: &str = "cdi.kubevirt.io/storage.import.datasource-name";
    /// The DataImportCron that created an object, or that updates a DataSource.
    pub const DATA_IMPORT_CRON: &str = "cdi.kubevirt.io/dataImportCron";
    /// Whether an object is deleted with its DataImportCron.
    pub const CLEANUP: &str = "cdi.kubevirt.io/dataImportCron.cleanup";
}

/// Annotations.
pub mod annotations {
    /// The digest a DataImportCron should import, written by the poller.
    pub const DESIRED_DIGEST: &str = "cdi.kubevirt.io/storage.import.sourceDesiredDigest";
    /// When the source was last polled.
    pub const LAST_CRON_TIME: &str = "cdi.kubevirt.io/storage.import.lastCronTime";
    /// When the source is to be polled next.
    pub const NEXT_CRON_TIME: &str = "cdi.kubevirt.io/storage.import.nextCronTime";
    /// The storage class of imports.
    pub const STORAGE_CLASS: &str = "cdi.kubevirt.io/storage.import.storageClass";
    /// When an import was last used.
    pub const LAST_USE_TIME: &str = "cdi.kubevirt.io/storage.import.lastUseTime";
    /// The volume mode of the PVC a snapshot was taken of.
    pub const SOURCE_VOLUME_MODE: &str = "cdi.kubevirt.io/storage.import.sourceVolumeMode";
    /// The size for volumes restored from a snapshot.
    pub const ADVISED_RESTORE_SIZE: &str = "cdi.kubevirt.io/storage.import.advisedRestoreSize";
    /// Binds a volume before its first consumer.
    pub const IMMEDIATE_BIND: &str = "cdi.kubevirt.io/storage.bind.immediate.requested";
    /// Keeps the importer pod after completion.
    pub const RETAIN_POD: &str = "cdi.kubevirt.io/storage.pod.retainAfterCompletion";
    /// On a StorageProfile: imports use access mode ReadWriteOnce.
    pub const READ_WRITE_ONCE: &str = "cdi.kubevirt.io/useReadWriteOnceForDataImportCron";
    /// On a StorageProfile: the VolumeSnapshotClass of imports.
    pub const SNAPSHOT_CLASS: &str = "cdi.kubevirt.io/snapshotClassForDataImportCron";
    /// On a PVC: the phase of the pod that fills it. CDI imports into every PVC on which it is not `Succeeded`.
    pub const POD_PHASE: &str = "cdi.kubevirt.io/storage.pod.phase";
    /// On a PVC: how often that pod was restarted.
    pub const POD_RESTARTS: &str = "cdi.kubevirt.io/storage.pod.restarts";
    /// On a PVC: whether that pod can be scheduled.
    pub const POD_SCHEDULABLE: &str = "cdi.kubevirt.io/storage.pod.schedulable";
    /// On a PVC: the status of the condition `Running` of its DataVolume.
    pub const RUNNING: &str = "cdi.kubevirt.io/storage.condition.running";
    /// On a PVC: the message of that condition.
    pub const RUNNING_MESSAGE: &str = "cdi.kubevirt.io/storage.condition.running.message";
    /// On a PVC: the reason of that condition.
    pub const RUNNING_REASON: &str = "cdi.kubevirt.io/storage.condition.running.reason";
    /// On a PVC: the name of the importer pod.
    pub const IMPORT_POD: &str = "cdi.kubevirt.io/storage.import.importPodName";
    /// On a PVC: the uid of the DataVolume that it was created for.
    pub const CREATED_FOR: &str = "cdi.kubevirt.io/createdForDataVolume";
    /// On a PVC: its content, `kubevirt` for a disk.
    pub const CONTENT_TYPE: &str = "cdi.kubevirt.io/storage.contentType";
    /// On a PVC: whether the disk is to be preallocated.
    pub const PREALLOCATION_REQUESTED: &str = "cdi.kubevirt.io/storage.preallocation.requested";
    /// On a PVC: the source that pods of CDI copy into it, as `namespace/name`.
    pub const CLONE_REQUEST: &str = "k8s.io/CloneRequest";
}
