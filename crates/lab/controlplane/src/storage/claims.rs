//! The next step of a claim.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{
    Node, PersistentVolume, PersistentVolumeClaim, PersistentVolumeClaimStatus,
};
use k8s_openapi::api::storage::v1::StorageClass;

use super::{BIND_COMPLETED, BOUND_BY_CONTROLLER, SELECTED_NODE};
use super::{annotation, asked_class, claim_class, claim_ref, matching, volume_of};
use crate::object::{NewEvent, name};

const DEFAULT_CLASS: [&str; 2] = [
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
];

/// Inputs of the decision about a claim.
#[derive(Default)]
pub(super) struct ClaimInputs<'a> {
    /// The volume the claim references, those that reference the claim, and unbound ones.
    pub(super) volumes: &'a [Arc<PersistentVolume>],
    /// The class of the claim, if it exists.
    pub(super) class: Option<&'a StorageClass>,
    /// The default class.
    pub(super) default_class: Option<&'a str>,
    /// The node selected by the scheduler for the first consumer.
    pub(super) node: Option<&'a Node>,
    /// Pods that use the claim and are not scheduled.
    pub(super) waiting_pods: &'a [String],
}

/// The next step of a claim.
#[derive(Debug, PartialEq)]
pub(super) enum Step {
    /// Bind it, or complete its binding.
    Bind(Arc<PersistentVolume>),
    /// Set the default class.
    Assign(String),
    /// Request a volume from a provisioner.
    Provision(String),
    /// Leave it pending.
    Pend(Option<NewEvent>),
    /// Report an error; its status is left alone.
    Refuse(NewEvent),
    /// Its volume is gone: set it to Lost.
    Lose(NewEvent),
}

/// Decides the next step of a claim.
pub(super) fn decide(claim: &PersistentVolumeClaim, around: &ClaimInputs<'_>) -> Step {
    let named = volume_of(claim);
    let volume = named.and_then(|name| {
        let is_named =
            |volume: &&Arc<PersistentVolume>| volume.metadata.name.as_deref() == Some(name);
        around.volumes.iter().find(is_named)
    });
    let completed = annotation(&claim.metadata, BIND_COMPLETED).is_some();
    match (completed, named, volume) {
        (true, None, _) => {
            lose("Bound claim has lost reference to PersistentVolume. Data on the volume is lost!")
        }
        (true, Some(_), None) => {
            lose("Bound claim has lost its PersistentVolume. Data on the volume is lost!")
        }
        (true, Some(_), Some(volume)) => keep(claim, volume),
        (false, None, _) => find(claim, around),
        (false, Some(_), None) => Step::Pend(None),
        (false, Some(_), Some(volume)) => take(claim, volume),
    }
}

fn lose(message: &str) -> Step {
    Step::Lose(NewEvent::warning("ClaimLost", message))
}

/// A bound claim stays bound, unless its volume is bound to another claim.
fn keep(claim: &PersistentVolumeClaim, volume: &Arc<PersistentVolume>) -> Step {
    match claim_ref(volume) {
        Some(by) if by.uid != claim.metadata.uid => Step::Lose(NewEvent::warning(
            "ClaimMisbound",
            "Two claims are bound to the same volume, this one is bound incorrectly",
        )),
        _ => Step::Bind(Arc::clone(volume)),
    }
}

/// A claim with `spec.volumeName` gets that volume, if it is unbound and matches.
fn take(claim: &PersistentVolumeClaim, volume: &Arc<PersistentVolume>) -> Step {
    let name = name(&volume.metadata);
    if claim_ref(volume).is_none() {
        return match matching::mismatch(volume, claim) {
            None => Step::Bind(Arc::clone(volume)),
            Some(why) => {
                let text = format!("Cannot bind to requested volume {name:?}: {why}");
                Step::Pend(Some(NewEvent::warning("VolumeMismatch", text)))
            }
        };
    }
    if matching::is_meant_for(volume, claim) {
        return Step::Bind(Arc::clone(volume));
    }
    let text = format!("volume {name:?} already bound to a different claim.");
    let note = NewEvent::warning("FailedBinding", text);
    if annotation(&claim.metadata, BOUND_BY_CONTROLLER).is_some() {
        Step::Refuse(note)
    } else {
        Step::Pend(Some(note))
    }
}

/// A claim without a volume gets a matching one, or has one provisioned.
fn find(claim: &PersistentVolumeClaim, around: &ClaimInputs<'_>) -> Step {
    let mode = around
        .class
        .and_then(|it| it.volume_binding_mode.as_deref());
    let waits = mode == Some("WaitForFirstConsumer");
    if let Some(volume) = matching::best(claim, around.volumes, waits, around.node) {
        return Step::Bind(Arc::clone(volume));
    }
    // After matching: a claim without a class may be bound to a volume without one, and only
    // otherwise gets the default class.
    if asked_class(claim).is_none()
        && let Some(class) = around.default_class
    {
        return Step::Assign(class.to_owned());
    }
    if waits && annotation(&claim.metadata, SELECTED_NODE).is_none() {
        return Step::Pend(Some(waiting(around.waiting_pods)));
    }
    let class = claim_class(claim);
    if class.is_empty() {
        let text = "no persistent volumes available for this claim and no storage class is set";
        return Step::Pend(Some(NewEvent::normal("FailedBinding", text)));
    }
    match around.class.map(|class| class.provisioner.as_str()) {
        None => {
            let text = format!("storageclass.storage.k8s.io {class:?} not found");
            Step::Refuse(NewEvent::warning("ProvisioningFailed", text))
        }
        // In-tree provisioners, and `kubernetes.io/no-provisioner`.
        Some(builtin) if builtin.starts_with("kubernetes.io/") => {
            let text = format!("no volume plugin matched name: {builtin}");
            Step::Refuse(NewEvent::warning("ProvisioningFailed", text))
        }
        Some(provisioner) => Step::Provision(provisioner.to_owned()),
    }
}

fn waiting(pods: &[String]) -> NewEvent {
    match pods {
        [] => NewEvent::normal(
            "WaitForFirstConsumer",
            "waiting for first consumer to be created before binding",
        ),
        [pod] => NewEvent::normal(
            "WaitForPodScheduled",
            format!("waiting for pod {pod} to be scheduled"),
        ),
        pods => NewEvent::normal(
            "WaitForPodScheduled",
            format!("waiting for pods {} to be scheduled", pods.join(",")),
        ),
    }
}

/// The status of a claim in a phase. Its capacity is copied from the volume when it becomes bound;
/// later changes are up to the resizer.
pub(super) fn status(
    claim: &PersistentVolumeClaim,
    phase: &str,
    volume: Option<&PersistentVolume>,
) -> PersistentVolumeClaimStatus {
    let mut status = claim.status.clone().unwrap_or_default();
    let enters = status.phase.as_deref() != Some(phase);
    status.phase = Some(phase.to_owned());
    let Some(spec) = volume.and_then(|volume| volume.spec.as_ref()) else {
        status.access_modes = None;
        status.capacity = None;
        status.current_volume_attributes_class_name = None;
        return status;
    };
    status.access_modes.clone_from(&spec.access_modes);
    if enters {
        status.capacity.clone_from(&spec.capacity);
        let attributes = &spec.volume_attributes_class_name;
        status
            .current_volume_attributes_class_name
            .clone_from(attributes);
    }
    status
}

/// The default class: of several, the newest.
pub(super) fn default_class(classes: &[Arc<StorageClass>]) -> Option<String> {
    let defaults = classes.iter().filter(|class| {
        DEFAULT_CLASS
            .iter()
            .any(|mark| annotation(&class.metadata, mark) == Some("true"))
    });
    let newest = defaults.min_by_key(|class| {
        let meta = &class.metadata;
        let created = meta.creation_timestamp.as_ref().map(|time| time.0);
        (std::cmp::Reverse(created), meta.name.clone())
    });
    newest?.metadata.name.clone()
}

#[cfg(test)]
mod tests;
