//! A DataVolume that is a clone of a PVC, of a snapshot, or of what a DataSource refers to.
//!
//! The storage provisioner clones. A pointer DataSource is resolved by `status.source`, which stays
//! empty until there is something to clone; other DataSources by their spec.
//!
//! Storage clones within a namespace. From another namespace, the clone is created there and its
//! volume is transferred:
//!
//! ```text
//! there:  source --storage--> interim PVC --bound--> PersistentVolume
//! here:                       PVC that names it <--claimRef--'
//! ```
//!
//! The PVC exists before the volume is transferred to it, and its DataVolume owns it: if the
//! transfer is interrupted at any step, nothing is left behind.

#[cfg(test)]
mod tests;

use api::cdi::{DataSource, DataSourceRef, DataVolume, DataVolumeStatus, Named, Source};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

use super::data_volume::Claim;
use super::failure::Reason;
use crate::action::{annotation, label, name_of, named};
use crate::conditions::ConditionUpdate;

/// Annotation of an interim PVC: the DataVolume that it is created for, as `namespace/name`.
const COPY_FOR: &str = "medley.dev/copy-for";
/// Label of an interim PVC: the uid of that DataVolume.
const COPY_UID: &str = "medley.dev/copy-for-uid";
/// CDI's phase for the transfer of a volume between namespaces.
const TRANSFER_PHASE: &str = "NamespaceTransferInProgress";

/// The inputs of the decision.
#[derive(Debug, Clone, Copy)]
pub struct CloneInputs<'a> {
    /// The DataVolume.
    pub volume: &'a DataVolume,
    /// The DataSource that it names, if it exists.
    pub source: Option<&'a DataSource>,
    /// The state of its PVC.
    pub claim: Claim,
    /// The state in the namespace of the source, if that is another one.
    pub transfer: Option<&'a Transfer>,
    /// The current time.
    pub now: Timestamp,
}

/// The state of a clone in the namespace of its source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transfer {
    /// The state of the interim PVC.
    pub interim: Claim,
    /// The PersistentVolume of that PVC, once it is bound.
    pub volume: Option<String>,
    /// Whether the volume refers to the DataVolume's own PVC by now.
    pub is_handed_over: bool,
    /// Why the clone is not permitted, if it is not.
    pub denied: Option<String>,
}

impl Transfer {
    /// Why the interim PVC cannot be bound, if it cannot.
    fn unbindable_reason(&self) -> String {
        if self.interim != Claim::WaitsForConsumer {
            return String::new();
        }
        "the storage class has volumeBindingMode WaitForFirstConsumer, and no pod uses the PVC in the namespace of the source; use a storage class with volumeBindingMode Immediate".to_owned()
    }
}

/// The next step of a clone.
#[derive(Debug, Clone, PartialEq)]
pub enum CloneStep {
    /// Create the PVC as a clone of this.
    Make(Source),
    /// Create the interim PVC as a clone of this, in its namespace.
    MakeThere(Source),
    /// Create the PVC for this volume.
    Take(String),
    /// Transfer this volume to the PVC.
    HandOver(String),
    /// Delete the interim PVC.
    Clean,
}

/// The decision about a clone.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// The next step, if any.
    pub step: Option<CloneStep>,
    /// The desired status.
    pub status: DataVolumeStatus,
    /// Whether it differs from the current one.
    pub status_changed: bool,
}

/// The DataSource that a DataVolume names.
pub fn source_of(volume: &DataVolume) -> Option<Named> {
    let reference = volume.spec.source_ref.as_ref()?;
    // KubeVirt compares this field without case (`setDefaultArchitectureFromDataSource` in
    // pkg/defaults/defaults.go).
    if !reference.kind.eq_ignore_ascii_case("DataSource") {
        return None;
    }
    let home = name_of(&volume.metadata).namespace;
    let namespace = reference.namespace.clone().filter(|it| !it.is_empty());
    Some(named(&namespace.unwrap_or(home), &reference.name))
}

/// Whether a DataVolume is a clone.
pub fn is_clone(volume: &DataVolume) -> bool {
    let source = volume.spec.source.as_ref();
    volume.spec.source_ref.is_some()
        || source.is_some_and(|it| it.pvc.is_some() || it.rest.contains_key("snapshot"))
}

/// The source of a clone, given the DataSource that it names; the error states what is missing.
pub fn original(volume: &DataVolume, source: Option<&DataSource>) -> Result<Source, String> {
    if let Some(source) = &volume.spec.source {
        if let Some(of) = &source.pvc {
            return Ok(Source::of_pvc(&of.namespace, &of.name));
        }
        let snapshot = source.rest.get("snapshot").cloned();
        let snapshot = snapshot.and_then(|it| serde_json::from_value::<Named>(it).ok());
        if let Some(of) = snapshot {
            return Ok(Source::of_snapshot(&of.namespace, &of.name));
        }
    }
    let Some(name) = source_of(volume) else {
        return Err(
            "spec.sourceRef does not name a DataSource; only kind DataSource is supported"
                .to_owned(),
        );
    };
    let Some(source) = source else {
        return Err(format!(
            "DataSource {}/{} not found",
            name.namespace, name.name
        ));
    };
    let stands_for = if source.spec.source.data_source.is_some() {
        source.status.as_ref().map(|status| &status.source)
    } else {
        Some(&source.spec.source)
    };
    let here = |of: &Named| of.or_in(&name.namespace).namespace;
    match stands_for.and_then(Source::which) {
        Some(DataSourceRef::Pvc(of)) => Ok(Source::of_pvc(&here(of), &of.name)),
        Some(DataSourceRef::Snapshot(of)) => Ok(Source::of_snapshot(&here(of), &of.name)),
        Some(DataSourceRef::DataSource(_)) | None => Err(format!(
            "Empty source field in '{}'. DataSource may not be ready yet",
            name.name
        )),
    }
}

/// The namespace of a source, if it differs from that of its clone.
pub fn elsewhere(original: &Source, volume: &DataVolume) -> Option<String> {
    let Some(DataSourceRef::Pvc(of) | DataSourceRef::Snapshot(of)) = original.which() else {
        return None;
    };
    let home = name_of(&volume.metadata).namespace;
    let other = Some(&of.namespace).filter(|it| !it.is_empty() && **it != home);
    other.cloned()
}

/// The name of the interim PVC. Users cannot choose the uid of a DataVolume, so they cannot choose
/// the name.
pub fn interim_name(volume: &DataVolume) -> String {
    format!(
        "copy-{}",
        volume.metadata.uid.as_deref().unwrap_or_default()
    )
}

/// The DataVolume that an interim PVC is created for: its name and its uid.
pub fn made_for(claim: &ObjectMeta) -> Option<(Named, &str)> {
    let (namespace, name) = annotation(claim, COPY_FOR)?.split_once('/')?;
    Some((named(namespace, name), label(claim, COPY_UID)?))
}

/// The interim PVC, with the spec of the DataVolume's own.
pub fn interim(volume: &DataVolume, claim: &Value, namespace: &str) -> Value {
    let meta = &volume.metadata;
    let Named {
        namespace: home,
        name,
    } = name_of(meta);
    json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        // Owner references do not cross namespaces, so the controller of the DataVolume deletes it.
        "metadata": {
            "name": interim_name(volume),
            "namespace": namespace,
            "labels": { "app": "containerized-data-importer", COPY_UID: meta.uid },
            "annotations": { COPY_FOR: format!("{home}/{name}") },
        },
        "spec": claim["spec"],
    })
}

/// The DataVolume's PVC for an existing volume: bound by name, without a clone source.
pub fn taking(mut claim: Value, volume: &str) -> Value {
    if let Some(spec) = claim["spec"].as_object_mut() {
        spec.remove("dataSource");
        spec.insert("volumeName".to_owned(), json!(volume));
    }
    claim
}

/// The patch that binds a PersistentVolume to another PVC.
pub fn hand_over(claim: &ObjectMeta) -> Value {
    json!({ "spec": { "claimRef": {
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "namespace": claim.namespace, "name": claim.name, "uid": claim.uid,
        // Those of the interim PVC would stay in a merge patch.
        "resourceVersion": null, "fieldPath": null,
    } } })
}

/// Decides about a DataVolume that is a clone.
pub fn decide(facts: &CloneInputs<'_>) -> Decision {
    let volume = facts.volume;
    let before = volume.status.clone().unwrap_or_default();
    let mut status = before.clone();
    let clean = facts
        .transfer
        .is_some_and(|it| it.interim != Claim::Missing)
        .then_some(CloneStep::Clean);
    if before.phase.as_deref() == Some("Succeeded") || facts.claim == Claim::FilledByCdi {
        // A finished clone no longer depends on its source. While CDI fills the PVC, its status counts: a PVC that pods
        // of CDI copy to is bound long before it is complete.
        return Decision {
            step: clean,
            status,
            status_changed: false,
        };
    }
    let original = original(volume, facts.source);
    let mut step = None;
    let mut denied = None;
    let (phase, message) = match (facts.claim, &original, facts.transfer) {
        (Claim::Bound | Claim::Complete, _, _) => {
            step = clean;
            ("Succeeded", String::new())
        }
        (Claim::Missing, Err(why), _) => ("CloneScheduled", why.clone()),
        (Claim::Missing, Ok(original), None) => {
            step = Some(CloneStep::Make(original.clone()));
            ("CloneScheduled", String::new())
        }
        (Claim::Missing, Ok(original), Some(transfer)) => {
            match (&transfer.volume, &transfer.denied) {
                // Before the permission: it was checked when the clone began. Revoked since, it
                // must not strand a volume that exists.
                (Some(of), _) => {
                    step = Some(CloneStep::Take(of.clone()));
                    (TRANSFER_PHASE, String::new())
                }
                (None, Some(why)) if transfer.interim == Claim::Missing => {
                    denied = Some(why.clone());
                    ("CloneScheduled", why.clone())
                }
                (None, _) => {
                    if transfer.interim == Claim::Missing {
                        step = Some(CloneStep::MakeThere(original.clone()));
                    }
                    (copying(original), transfer.unbindable_reason())
                }
            }
        }
        (Claim::Pending | Claim::WaitsForConsumer | Claim::FilledByCdi, _, Some(transfer)) => {
            let of = transfer.volume.clone().filter(|_| !transfer.is_handed_over);
            step = of.map(CloneStep::HandOver);
            (TRANSFER_PHASE, String::new())
        }
        (Claim::WaitsForConsumer, _, None) => ("WaitForFirstConsumer", String::new()),
        (Claim::Pending | Claim::FilledByCdi, Ok(original), None) => {
            (copying(original), String::new())
        }
        (Claim::Pending | Claim::FilledByCdi, Err(_), None) => {
            ("CSICloneInProgress", String::new())
        }
    };
    let done = phase == "Succeeded";
    status.phase = Some(phase.to_owned());
    status.claim_name.clone_from(&volume.metadata.name);
    let progress = if done { "100.0%" } else { "N/A" };
    status.progress = Some(progress.to_owned());
    let running = !done && phase != "CloneScheduled" && phase != "WaitForFirstConsumer";
    let reason = match (done, &denied) {
        (true, _) => "Completed",
        (false, Some(_)) => Reason::NotAuthorized.as_str(),
        (false, None) => phase,
    };
    ConditionUpdate::new("Running", running, reason, message)
        .put(&mut status.conditions, facts.now);
    let reason = if done { "Ready" } else { phase };
    ConditionUpdate::new("Ready", done, reason, "").put(&mut status.conditions, facts.now);
    let reason = if done { "Bound" } else { "Pending" };
    ConditionUpdate::new("Bound", done, reason, "").put(&mut status.conditions, facts.now);
    Decision {
        step,
        status_changed: status != before,
        status,
    }
}

/// The phase of a clone in progress.
fn copying(original: &Source) -> &'static str {
    if original.snapshot.is_some() {
        "CloneFromSnapshotSourceInProgress"
    } else {
        "CSICloneInProgress"
    }
}
