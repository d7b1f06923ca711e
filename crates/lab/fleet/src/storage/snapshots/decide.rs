//! Desired state of snapshots and contents.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ObjectReference, PersistentVolume};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::jiff::Timestamp;
use machinery::quantity::{Format, Quantity as Amount};

use super::kinds::{
    ContentSource, SnapshotError, VolumeSnapshot, VolumeSnapshotClass, VolumeSnapshotContent,
    VolumeSnapshotContentSpec, VolumeSnapshotStatus,
};
use crate::names::annotation;
use crate::storage::names::{CONTENT_BOUND, DEFAULT_SNAPSHOT_CLASS, DRIVER};

/// The claim that a snapshot is taken of.
pub(super) fn claim_name(snapshot: &VolumeSnapshot) -> Option<&String> {
    snapshot.spec.source.persistent_volume_claim_name.as_ref()
}

/// The content of a snapshot: the one it names, or the one created for it.
pub(super) fn content_name(snapshot: &VolumeSnapshot) -> Option<String> {
    let named = snapshot.spec.source.volume_snapshot_content_name.clone();
    named.or_else(|| Some(format!("snapcontent-{}", snapshot.metadata.uid.as_deref()?)))
}

/// Whether claims can be restored from a snapshot.
pub(super) fn is_ready(snapshot: &VolumeSnapshot) -> bool {
    let status = snapshot.status.as_ref();
    status.and_then(|status| status.ready_to_use) == Some(true)
}

/// The class of a snapshot, or why there is none.
pub(super) fn class<'a>(
    snapshot: &VolumeSnapshot,
    classes: &'a [Arc<VolumeSnapshotClass>],
    driver: &str,
) -> Result<&'a Arc<VolumeSnapshotClass>, String> {
    if let Some(name) = &snapshot.spec.volume_snapshot_class_name {
        let found = classes
            .iter()
            .find(|class| class.metadata.name.as_ref() == Some(name));
        return found.ok_or_else(|| {
            format!("volumesnapshotclass.snapshot.storage.k8s.io {name:?} not found")
        });
    }
    let mut defaults = classes.iter().filter(|class| {
        class.driver == driver
            && annotation(&class.metadata, DEFAULT_SNAPSHOT_CLASS) == Some("true")
    });
    // Several defaults are an error and not a choice, as in the external-snapshotter.
    match (defaults.next(), defaults.count()) {
        (None, _) => Err("cannot find default snapshot class".to_owned()),
        (Some(only), 0) => Ok(only),
        (Some(_), more) => Err(format!("{} default snapshot classes were found", more + 1)),
    }
}

/// The content created for a snapshot of a volume.
pub(super) fn content(
    snapshot: &VolumeSnapshot,
    volume: &PersistentVolume,
    class: &VolumeSnapshotClass,
) -> Result<VolumeSnapshotContent, String> {
    let spec = volume.spec.as_ref();
    let name = volume.metadata.name.as_deref().unwrap_or_default();
    let Some(csi) = spec.and_then(|spec| spec.csi.as_ref()) else {
        return Err(format!(
            "cannot find CSI PersistentVolumeSource for volume {name}"
        ));
    };
    if csi.driver != class.driver {
        return Err(format!(
            "snapshot driver {} does not match volume driver {}",
            class.driver, csi.driver
        ));
    }
    Ok(VolumeSnapshotContent {
        metadata: ObjectMeta {
            name: content_name(snapshot),
            finalizers: Some(vec![CONTENT_BOUND.to_owned()]),
            ..ObjectMeta::default()
        },
        spec: VolumeSnapshotContentSpec {
            deletion_policy: class.deletion_policy.clone(),
            driver: class.driver.clone(),
            source: ContentSource {
                volume_handle: Some(csi.volume_handle.clone()),
                snapshot_handle: None,
            },
            source_volume_mode: spec.and_then(|spec| spec.volume_mode.clone()),
            volume_snapshot_class_name: class.metadata.name.clone(),
            volume_snapshot_ref: reference(snapshot),
        },
        status: None,
    })
}

/// The reference of a content to its snapshot.
pub(super) fn reference(snapshot: &VolumeSnapshot) -> ObjectReference {
    ObjectReference {
        api_version: Some("snapshot.storage.k8s.io/v1".to_owned()),
        kind: Some("VolumeSnapshot".to_owned()),
        namespace: snapshot.metadata.namespace.clone(),
        name: snapshot.metadata.name.clone(),
        uid: snapshot.metadata.uid.clone(),
        resource_version: snapshot.metadata.resource_version.clone(),
        field_path: None,
    }
}

/// Whether a content belongs to a snapshot, or is reserved for it.
pub(super) fn belongs(content: &VolumeSnapshotContent, snapshot: &VolumeSnapshot) -> bool {
    let of = &content.spec.volume_snapshot_ref;
    of.name == snapshot.metadata.name
        && of.namespace == snapshot.metadata.namespace
        && (of.uid.as_deref().is_none_or(str::is_empty) || of.uid == snapshot.metadata.uid)
}

/// The status of a snapshot with a content.
pub(super) fn status(content: &VolumeSnapshotContent) -> VolumeSnapshotStatus {
    let current = content.status.clone().unwrap_or_default();
    let created = current.creation_time.map(i128::from);
    let created = created.and_then(|nanoseconds| Timestamp::from_nanosecond(nanoseconds).ok());
    // Stored times are truncated to seconds, so the compared one has to be, too.
    let whole = created.and_then(|time| Timestamp::from_second(time.as_second()).ok());
    let size = current
        .restore_size
        .map(|bytes| Amount::from_i64(bytes, Format::BinarySi));
    VolumeSnapshotStatus {
        bound_volume_snapshot_content_name: content.metadata.name.clone(),
        creation_time: whole.map(Time),
        error: current.error,
        ready_to_use: Some(current.ready_to_use.unwrap_or(false)),
        restore_size: size.map(|size| Quantity(size.canonical())),
    }
}

/// The status of a snapshot with an error. The same error keeps its time.
pub(super) fn trouble(
    snapshot: &VolumeSnapshot,
    message: String,
    now: Time,
) -> VolumeSnapshotStatus {
    let mut status = snapshot.status.clone().unwrap_or_default();
    status.ready_to_use = Some(false);
    let current = status
        .error
        .as_ref()
        .and_then(|error| error.message.as_ref());
    if current != Some(&message) {
        status.error = Some(SnapshotError {
            message: Some(message),
            time: Some(now),
        });
    }
    status
}

/// Whether the content belongs to this driver.
pub(super) fn is_ours(content: &VolumeSnapshotContent) -> bool {
    content.spec.driver == DRIVER
}

#[cfg(test)]
mod tests;
