//! Matching of volumes to claims.

use std::cmp::Reverse;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim};
use machinery::node_affinity::volume_matches;
use machinery::quantity::Quantity;
use machinery::selector::LabelSelector;
use serde_json::json;

use super::{claim_class, claim_ref, volume_class, volume_phase};
use crate::object::{label, name};

/// Whether a volume is reserved for a claim: it references it, possibly without a UID.
pub(super) fn is_meant_for(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    claim_ref(volume).is_some_and(|wanted| {
        wanted.name == claim.metadata.name
            && wanted.namespace == claim.metadata.namespace
            && (wanted.uid.as_deref().is_none_or(str::is_empty) || wanted.uid == claim.metadata.uid)
    })
}

/// The volume for a claim: one reserved for it, or of the unbound ones that match those with the
/// fewest access modes, and of these the smallest (`pkg/controller/volume/persistentvolume/index.go`,
/// which tries exact access modes first). A claim that waits for a consumer gets an unbound one only
/// on the node selected for the consumer.
pub(super) fn best<'a>(
    claim: &PersistentVolumeClaim,
    volumes: &'a [Arc<PersistentVolume>],
    waits: bool,
    node: Option<&Node>,
) -> Option<&'a Arc<PersistentVolume>> {
    let fits: Vec<_> = volumes
        .iter()
        .filter(|volume| fits(claim, volume))
        .collect();
    if let Some(meant) = fits.iter().find(|volume| is_meant_for(volume, claim)) {
        return Some(meant);
    }
    // Until the scheduler has chosen a node any volume could turn out to be unreachable for the
    // pod.
    if waits && node.is_none() {
        return None;
    }
    fits.into_iter()
        .filter(|volume| volume_phase(volume) == Some("Available") && is_selected(claim, volume))
        .filter(|volume| volume_class(volume) == claim_class(claim))
        .filter(|volume| node.is_none_or(|node| reaches(volume, node)))
        .min_by_key(|volume| {
            (
                modes(volume),
                size(volume),
                Reverse(volume.metadata.uid.clone()),
            )
        })
}

/// Why a volume that is referenced by name cannot be bound.
pub(super) fn mismatch(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> Option<String> {
    let text = if volume.metadata.deletion_timestamp.is_some() {
        let name = name(&volume.metadata);
        return Some(format!("the volume is marked for deletion {name:?}"));
    } else if size(volume) < requested(claim) {
        "requested PV is too small"
    } else if volume_class(volume) != claim_class(claim) {
        "storageClassName does not match"
    } else if attributes_differ(claim, volume) {
        "volumeAttributesClassName does not match"
    } else if modes_differ(claim, volume) {
        "incompatible volumeMode"
    } else if !can_be_accessed(claim, volume) {
        "incompatible accessMode"
    } else {
        return None;
    };
    Some(text.to_owned())
}

fn fits(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> bool {
    (claim_ref(volume).is_none() || is_meant_for(volume, claim))
        && volume.metadata.deletion_timestamp.is_none()
        && size(volume) >= requested(claim)
        && !modes_differ(claim, volume)
        && !attributes_differ(claim, volume)
        && can_be_accessed(claim, volume)
}

fn is_selected(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> bool {
    let Some(selector) = claim.spec.as_ref().and_then(|spec| spec.selector.as_ref()) else {
        return true;
    };
    // The API server validates selectors; an invalid one matches nothing.
    LabelSelector::from_label_selector_object(&json!(selector))
        .is_ok_and(|selector| selector.matches(|key| label(&volume.metadata, key)))
}

/// Whether a volume is accessible from a node.
pub(super) fn reaches(volume: &PersistentVolume, node: &Node) -> bool {
    volume_matches(&json!(volume.spec), &json!(node)).unwrap_or(false)
}

/// Whether the volume modes differ.
pub(super) fn modes_differ(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> bool {
    let wanted = claim
        .spec
        .as_ref()
        .and_then(|spec| spec.volume_mode.as_deref());
    let given = volume
        .spec
        .as_ref()
        .and_then(|spec| spec.volume_mode.as_deref());
    wanted.unwrap_or("Filesystem") != given.unwrap_or("Filesystem")
}

fn attributes_differ(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> bool {
    let wanted = claim
        .spec
        .as_ref()
        .and_then(|spec| spec.volume_attributes_class_name.as_deref());
    let given = volume
        .spec
        .as_ref()
        .and_then(|spec| spec.volume_attributes_class_name.as_deref());
    wanted.unwrap_or_default() != given.unwrap_or_default()
}

fn can_be_accessed(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> bool {
    let wanted = claim
        .spec
        .as_ref()
        .and_then(|spec| spec.access_modes.as_deref());
    let given = volume
        .spec
        .as_ref()
        .and_then(|spec| spec.access_modes.as_deref());
    let given = given.unwrap_or_default();
    wanted
        .unwrap_or_default()
        .iter()
        .all(|mode| given.contains(mode))
}

fn modes(volume: &PersistentVolume) -> usize {
    let modes = volume
        .spec
        .as_ref()
        .and_then(|spec| spec.access_modes.as_ref());
    modes.map_or(0, Vec::len)
}

fn size(volume: &PersistentVolume) -> Option<Quantity> {
    let capacity = volume.spec.as_ref()?.capacity.as_ref()?;
    capacity.get("storage")?.0.parse().ok()
}

fn requested(claim: &PersistentVolumeClaim) -> Option<Quantity> {
    let requests = claim.spec.as_ref()?.resources.as_ref()?.requests.as_ref()?;
    requests.get("storage")?.0.parse().ok()
}

#[cfg(test)]
mod tests;
