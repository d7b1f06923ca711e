//! The names storage goes by.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// The simulated driver: what classes name as their provisioner.
pub const DRIVER: &str = "storage.fleet.medley.dev";

/// Says who is to make the volume of a claim.
pub(super) const PROVISIONER: &str = "volume.kubernetes.io/storage-provisioner";
/// Says who made a volume.
pub(super) const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
/// Says which node a volume is made for.
pub(super) const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// Keeps a volume object until what it stands for is deleted.
pub(super) const VOLUME_FINALIZER: &str = "external-provisioner.volume.kubernetes.io/finalizer";
/// A parameter of classes: `node` or `zone` if volumes cannot be reached from elsewhere.
pub(crate) const TOPOLOGY: &str = "topology";

/// The group of snapshots.
pub(super) const SNAPSHOT_GROUP: &str = "snapshot.storage.k8s.io";
pub(crate) const DEFAULT_SNAPSHOT_CLASS: &str = "snapshot.storage.kubernetes.io/is-default-class";
pub(super) const SNAPSHOT_LEAVING: &str =
    "snapshot.storage.kubernetes.io/volumesnapshot-being-deleted";
/// Keeps a snapshot while claims are made from it.
pub(super) const SNAPSHOT_AS_SOURCE: &str =
    "snapshot.storage.kubernetes.io/volumesnapshot-as-source-protection";
/// Keeps a snapshot while there is something behind it.
pub(super) const SNAPSHOT_BOUND: &str =
    "snapshot.storage.kubernetes.io/volumesnapshot-bound-protection";
/// Keeps what is behind a snapshot until it is deleted.
pub(super) const CONTENT_BOUND: &str =
    "snapshot.storage.kubernetes.io/volumesnapshotcontent-bound-protection";
/// Keeps a claim while a snapshot is made of it.
pub(super) const CLAIM_AS_SOURCE: &str = "snapshot.storage.kubernetes.io/pvc-as-source-protection";

/// An annotation of an object.
pub(super) fn annotation<'a>(meta: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    let annotations = meta.annotations.as_ref()?;
    annotations.get(key).map(String::as_str)
}

/// Whether an object has a finalizer.
pub(super) fn has_finalizer(meta: &ObjectMeta, finalizer: &str) -> bool {
    meta.finalizers.iter().flatten().any(|it| it == finalizer)
}
