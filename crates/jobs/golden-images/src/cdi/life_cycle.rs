//! The life cycle of a PVC in CDI's annotations.
//!
//! CDI keeps the state of an import or clone on the PVC, not on the DataVolume: it imports into every PVC that has
//! instructions and is not marked as complete (`shouldReconcilePVC` in pkg/controller/import-controller.go), whatever
//! the phase of the DataVolume. Writing and reading its annotations lets either resume what the other began.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use api::cdi::{DataVolume, annotations};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;

use crate::action::{MetadataValues, annotation};

/// The pod phase of a complete PVC.
const SUCCEEDED: &str = "Succeeded";
/// The kinds of CDI's volume populators.
const POPULATORS: [&str; 2] = ["VolumeImportSource", "VolumeCloneSource"];

/// The annotations of a new PVC, which is for a disk: archives are not imported.
pub(super) fn created(volume: &DataVolume) -> BTreeMap<String, String> {
    let uid = volume.metadata.uid.as_deref().unwrap_or_default();
    let preallocation = volume.spec.rest.get("preallocation");
    let preallocation = preallocation.and_then(serde_json::Value::as_bool);
    [
        (annotations::POD_RESTARTS, "0"),
        (annotations::CONTENT_TYPE, "kubevirt"),
        (
            annotations::PREALLOCATION_REQUESTED,
            if preallocation == Some(true) {
                "true"
            } else {
                "false"
            },
        ),
        (annotations::CREATED_FOR, uid),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .collect()
}

/// The annotations of a PVC whose import succeeded.
pub(super) fn completed(pod: String, restarts: i32) -> MetadataValues<'static> {
    [
        (annotations::POD_PHASE, SUCCEEDED.to_owned()),
        (annotations::POD_RESTARTS, restarts.to_string()),
        (annotations::POD_SCHEDULABLE, "true".to_owned()),
        (annotations::RUNNING, "false".to_owned()),
        (annotations::RUNNING_MESSAGE, "Import Complete".to_owned()),
        (annotations::RUNNING_REASON, "Completed".to_owned()),
        (annotations::IMPORT_POD, pod),
    ]
    .into_iter()
    .map(|(name, value)| (name, Some(value)))
    .collect()
}

/// Whether a PVC is marked as complete.
pub(super) fn is_complete(claim: &PersistentVolumeClaim) -> bool {
    annotation(&claim.metadata, annotations::POD_PHASE) == Some(SUCCEEDED)
}

/// Whether a PVC has annotations of the life cycle. Those of earlier versions of Medley have none.
pub(super) fn is_recorded(claim: &PersistentVolumeClaim) -> bool {
    let names = [annotations::POD_PHASE, annotations::POD_RESTARTS];
    names
        .iter()
        .any(|name| annotation(&claim.metadata, name).is_some())
}

/// Whether CDI fills a PVC by means that its importer pod alone does not show: a pod copies the source of a clone into
/// it, or a populator fills another PVC first and then binds its volume to this one.
pub(super) fn is_filled_by_cdi(claim: &PersistentVolumeClaim, bound: bool) -> bool {
    if annotation(&claim.metadata, annotations::CLONE_REQUEST).is_some() {
        return !(bound && is_complete(claim));
    }
    let spec = claim.spec.as_ref();
    let populator = spec.and_then(|it| it.data_source_ref.as_ref());
    populator.is_some_and(|it| {
        it.api_group.as_deref() == Some(api::cdi::GROUP) && POPULATORS.contains(&&*it.kind)
    }) && !bound
}
