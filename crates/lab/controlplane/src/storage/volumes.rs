//! The next step of a volume.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};

use super::{PROVISIONED_BY, annotation, claim_ref, matching, volume_of};
use crate::object::{NewEvent, name};

/// The next step of a volume.
#[derive(Debug, PartialEq)]
pub(super) enum Step {
    /// Set this phase.
    Phase(&'static str),
    /// Its claim is gone: release it, then reclaim it.
    Reclaim(Reclaim),
    /// Its claim is bound to another volume.
    Unbind,
    /// Reconcile its claim.
    AskClaim,
    /// The volume and the referenced claim do not match: events for the volume and the claim.
    Mismatch(NewEvent, NewEvent),
}

/// How a released volume is reclaimed.
#[derive(Debug, PartialEq)]
pub(super) enum Reclaim {
    /// It is kept, or deleted by its provisioner.
    Leave,
    /// It has no storage to delete.
    Delete,
    /// Deletion is not supported.
    Fail(NewEvent),
}

/// Decides the next step of a volume, given the claim it references, if that exists.
pub(super) fn decide(volume: &PersistentVolume, claim: Option<&PersistentVolumeClaim>) -> Step {
    let uid = claim_ref(volume).and_then(|wanted| wanted.uid.as_deref());
    let Some(uid) = uid.filter(|uid| !uid.is_empty()) else {
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
    let note = |message: String| NewEvent::warning("VolumeMismatch", message);
    let (claim, volume) = (name(&claim.metadata), name(&volume.metadata));
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
    let fail = |reason, message: &str| Reclaim::Fail(NewEvent::warning(reason, message));
    let by = annotation(&volume.metadata, PROVISIONED_BY);
    let is_csi = volume.spec.as_ref().is_some_and(|spec| spec.csi.is_some());
    let has_deleter = by.map_or(is_csi, |by| !by.starts_with("kubernetes.io/"));
    match policy(volume) {
        Some("Retain") | None => Reclaim::Leave,
        Some("Delete") if has_deleter => Reclaim::Leave,
        // Simulated nodes have no directories to delete; which paths may be deleted is upstream's
        // rule.
        Some("Delete") if host_path(volume).is_some_and(is_temporary) => Reclaim::Delete,
        Some("Delete") if let Some(path) = host_path(volume) => fail(
            "VolumeFailedDelete",
            &format!("host_path deleter only supports /tmp/.+ but received provided {path}"),
        ),
        Some("Delete") => {
            let name = name(&volume.metadata);
            let text = format!(
                "error getting deleter volume plugin for volume {name:?}: no deletable volume plugin matched"
            );
            fail("VolumeFailedDelete", &text)
        }
        Some("Recycle") => {
            let text = "No recycler plugin found for the volume!";
            fail("VolumeFailedRecycle", text)
        }
        Some(_) => {
            let text = "Volume has unrecognized PersistentVolumeReclaimPolicy";
            fail("VolumeUnknownReclaimPolicy", text)
        }
    }
}

#[cfg(test)]
mod tests;
