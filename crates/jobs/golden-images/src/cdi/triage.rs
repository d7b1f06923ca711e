//! What is done about a DataVolume: imported, cloned, left to CDI, or reported.

#[cfg(test)]
mod tests;

use api::cdi::DataVolume;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;

use super::claim::is_of;
use super::clone::is_clone;
use super::origin::Origin;
use crate::action::name_of;

/// Content type for which CDI unpacks an archive of files into a volume instead of writing a disk.
const ARCHIVE: &str = "archive";

/// What is done about a DataVolume.
#[derive(Debug, Clone, PartialEq)]
pub enum VolumeTask {
    /// Its image or file is imported.
    Import(Origin),
    /// A volume or snapshot is cloned.
    Clone,
    /// It cannot be populated.
    Unavailable {
        /// The event reason.
        reason: &'static str,
        /// The event message.
        message: String,
    },
    /// Nothing: uploads, blank disks and other sources are left to CDI.
    None,
}

/// Decides what is done about a DataVolume. `claim` is the PVC of its name.
pub fn triage(volume: &DataVolume, claim: Option<&PersistentVolumeClaim>) -> VolumeTask {
    let phase = volume.status.as_ref().and_then(|it| it.phase.as_deref());
    let is_over = matches!(phase, Some("Succeeded" | "Failed"));
    // A PVC of the same name may hold data of a user; importing into it would overwrite that. The
    // reason is CDI's.
    if claim.is_some_and(|claim| !is_of(claim, volume)) && !is_over {
        let of = name_of(&volume.metadata);
        return VolumeTask::Unavailable {
            reason: "ErrResourceExists",
            message: format!(
                "PersistentVolumeClaim {}/{} already exists and is not owned by the DataVolume",
                of.namespace, of.name
            ),
        };
    }
    if volume.spec.content_type.as_deref() == Some(ARCHIVE) && !is_over {
        return VolumeTask::Unavailable {
            reason: "UnsupportedContentType",
            message: "contentType archive is not supported; kubevirt is accepted".to_owned(),
        };
    }
    match Origin::of(volume) {
        Some(origin) => VolumeTask::Import(origin),
        None if is_clone(volume) => VolumeTask::Clone,
        None => VolumeTask::None,
    }
}
