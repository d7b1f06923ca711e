//! Names used by the simulated storage.

use k8s_openapi::api::core::v1::PersistentVolume;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// Name of the simulated driver: the provisioner of its classes.
pub const DRIVER: &str = "storage.fleet.medley.dev";

/// Annotation of a claim with its provisioner.
pub(super) const PROVISIONER: &str = "volume.kubernetes.io/storage-provisioner";
/// Annotation of a volume with its provisioner.
pub(super) const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
/// Annotation of a claim with the node selected by the scheduler.
pub(super) const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// Keeps a volume until its storage is deleted.
pub(super) const VOLUME_FINALIZER: &str = "external-provisioner.volume.kubernetes.io/finalizer";
/// A parameter of classes: `node` or `zone` if volumes are not accessible from elsewhere.
pub(crate) const TOPOLOGY: &str = "topology";

/// API group of snapshots.
pub(super) const SNAPSHOT_GROUP: &str = "snapshot.storage.k8s.io";
pub(crate) const DEFAULT_SNAPSHOT_CLASS: &str = "snapshot.storage.kubernetes.io/is-default-class";
pub(super) const SNAPSHOT_LEAVING: &str =
    "snapshot.storage.kubernetes.io/volumesnapshot-being-deleted";
/// Keeps a snapshot while claims are restored from it.
pub(super) const SNAPSHOT_AS_SOURCE: &str =
    "snapshot.storage.kubernetes.io/volumesnapshot-as-source-protection";
/// Keeps a snapshot while it has a content.
pub(super) const SNAPSHOT_BOUND: &str =
    "snapshot.storage.kubernetes.io/volumesnapshot-bound-protection";
/// Keeps a content until its snapshot is deleted.
pub(super) const CONTENT_BOUND: &str =
    "snapshot.storage.kubernetes.io/volumesnapshotcontent-bound-protection";
/// Keeps a claim while it is being snapshotted.
pub(super) const CLAIM_AS_SOURCE: &str = "snapshot.storage.kubernetes.io/pvc-as-source-protection";

/// Whether an object has a finalizer.
pub(super) fn has_finalizer(meta: &ObjectMeta, finalizer: &str) -> bool {
    meta.finalizers.iter().flatten().any(|it| it == finalizer)
}

/// The driver of a volume.
pub(super) fn driver_of(volume: &PersistentVolume) -> Option<&str> {
    Some(volume.spec.as_ref()?.csi.as_ref()?.driver.as_str())
}
