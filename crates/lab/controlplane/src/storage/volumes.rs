//! What becomes of a volume.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};

use super::claims::Note;
use super::{PROVISIONED_BY, annotation, matching, volume_of};

/// What is to be done about a volume.
#[derive(Debug, PartialEq)]
pub(super) enum Step {
    /// It is in this phase.
    Phase(&'static str),
    /// Its claim is gone: it is released, and then this.
    Reclaim(Reclaim),
    /// Its claim has another volume.
    Unbind,
    /// Its claim has to be looked at.
    AskClaim,
    /// It and the claim it names cannot be bound: what to tell the volume and the claim.
    Mismatch(Note, Note),
}

/// What to do with a volume nobody claims any more.
#[derive(Debug, PartialEq)]
pub(super) enum Reclaim {
    /// It stays, or whoever made it deletes it.
    Leave,
    /// There is nothing behind it to delete.
    Delete,
    /// Nobody can.
    Fail(Note),
}

/// Decides what becomes of a volume, given the claim it names, if that is there.
pub(super) fn decide(volume: &PersistentVolume, claim: Option<&PersistentVolumeClaim>) -> Step {
    let wanted = volume
        .spec
        .as_ref()
        .and_then(|spec| spec.claim_ref.as_ref());
    let Some(uid) = wanted
        .and_then(|wanted| wanted.uid.as_deref())
        .filter(|uid| !uid.is_empty())
    else {
        return Step::Phase("Available");
    };
    let Some(claim) = claim.filter(|claim| claim.metadata.uid.as_deref() == Some(uid)) else {
        return Step::Reclaim(reclaim(volume));
    };
    let name = volume.metadata.name.as_deref();
    match volume_of(claim) {
        None if matching::modes_differ(claim, volume) => mismatch(volume, claim),
        None => Step::AskClaim,
        named if named == name => Step::Phase("Bound"),
        Some(_) if is_provisioned(volume) && policy(volume) == Some("Delete") => {
            Step::Reclaim(reclaim(volume))
        }
        Some(_) => Step::Unbind,
    }
}

fn mismatch(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> Step {
    let note = |message| Note {
        warning: true,
        reason: "VolumeMismatch",
        message,
    };
    let claim = claim.metadata.name.as_deref().unwrap_or_default();
    let volume = volume.metadata.name.as_deref().unwrap_or_default();
    Step::Mismatch(
        note(format!(
            "Cannot bind PersistentVolume to requested PersistentVolumeClaim {claim:?} due to incompatible volumeMode."
        )),
        note(format!(
            "Cannot bind PersistentVolume {volume:?} to requested PersistentVolumeClaim due to incompatible volumeMode."
        )),
    )
}

fn policy(volume: &PersistentVolume) -> Option<&str> {
    let spec = volume.spec.as_ref()?;
    spec.persistent_volume_reclaim_policy.as_deref()
}

fn is_provisioned(volume: &PersistentVolume) -> bool {
    annotation(&volume.metadata, PROVISIONED_BY).is_some()
}

fn host_path(volume: &PersistentVolume) -> Option<&str> {
    let path = volume.spec.as_ref()?.host_path.as_ref()?;
    Some(&path.path)
}

fn is_temporary(path: &str) -> bool {
    path.split_once("/tmp/")
        .is_some_and(|(_, rest)| !rest.is_empty())
}

fn reclaim(volume: &PersistentVolume) -> Reclaim {
    let fail = |reason, message: String| {
        Reclaim::Fail(Note {
            warning: true,
            reason,
            message,
        })
    };
    let by = annotation(&volume.metadata, PROVISIONED_BY);
    let is_csi = volume.spec.as_ref().is_some_and(|spec| spec.csi.is_some());
    let has_deleter = by.map_or(is_csi, |by| !by.starts_with("kubernetes.io/"));
    match policy(volume) {
        Some("Retain") | None => Reclaim::Leave,
        Some("Delete") if has_deleter => Reclaim::Leave,
        // Folders of nodes that are not there need no deleting; which ones may be, is upstream's rule.
        Some("Delete") if host_path(volume).is_some_and(is_temporary) => Reclaim::Delete,
        Some("Delete") if let Some(path) = host_path(volume) => fail(
            "VolumeFailedDelete",
            format!("host_path deleter only supports /tmp/.+ but received provided {path}"),
        ),
        Some("Delete") => {
            let name = volume.metadata.name.as_deref().unwrap_or_default();
            let text = format!(
                "error getting deleter volume plugin for volume {name:?}: no deletable volume plugin matched"
            );
            fail("VolumeFailedDelete", text)
        }
        Some("Recycle") => fail(
            "VolumeFailedRecycle",
            "No recycler plugin found for the volume!".to_owned(),
        ),
        Some(_) => fail(
            "VolumeUnknownReclaimPolicy",
            "Volume has unrecognized PersistentVolumeReclaimPolicy".to_owned(),
        ),
    }
}

#[cfg(test)]
mod tests;
