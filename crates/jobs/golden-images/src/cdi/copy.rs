//! A DataVolume that is a copy: of a volume, of a snapshot, or of what a DataSource stands for.
//!
//! The storage copies, whoever it is. A pointer is followed by `status.source`, which is empty for as
//! long as there is nothing to copy; other DataSources by what they say themselves.
//!
//! Storage copies within a namespace. From another one, the copy is made there, and handed over:
//!
//! ```text
//! there:  original --storage--> interim claim --bound--> volume
//! here:                         claim that names it <--claimRef--'
//! ```
//!
//! The claim is there before the volume is its own, and goes with its DataVolume: whatever is broken
//! off, nothing is left behind.

#[cfg(test)]
mod tests;

use api::cdi::{DataSource, DataSourceRef, DataVolume, DataVolumeStatus, Named, Source};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

use super::data_volume::Claim;
use super::failure::Reason;
use crate::action::{annotation, label, name_of, named};
use crate::conditions::Said;

/// On a claim beside an original: the DataVolume that it is made for, as `namespace/name`.
const COPY_FOR: &str = "medley.dev/copy-for";
/// The same by its uid, as a label.
const COPY_UID: &str = "medley.dev/copy-for-uid";
/// The phase in which a volume moves from one namespace to another, as CDI calls it.
const HANDING_OVER: &str = "NamespaceTransferInProgress";

/// What is known.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// The DataVolume.
    pub volume: &'a DataVolume,
    /// The DataSource that it names, if it names one that is there.
    pub source: Option<&'a DataSource>,
    /// The volume that it becomes.
    pub claim: Claim,
    /// What there is in the namespace of the original, if that is another one.
    pub transfer: Option<&'a Transfer>,
    /// Now.
    pub now: Timestamp,
}

/// What there is of a copy in the namespace of its original.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transfer {
    /// How it is with the claim there.
    pub interim: Claim,
    /// The volume of that claim, when it has one.
    pub volume: Option<String>,
    /// Whether the volume belongs to the claim of the DataVolume by now.
    pub is_handed_over: bool,
    /// Why it may not be copied, if nobody allows that.
    pub denied: Option<String>,
}

impl Transfer {
    /// What the claim there waits for, if nothing will come of it.
    fn waits(&self) -> String {
        if self.interim != Claim::WaitsForConsumer {
            return String::new();
        }
        "the storage class binds volumes when somebody uses them, and nobody does in the namespace of the original; one that binds them at once is needed".to_owned()
    }
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// The claim is to be made, as a copy of this.
    Make(Source),
    /// A claim is to be made beside the original, as a copy of it.
    MakeThere(Source),
    /// The claim is to be made, for this volume.
    Take(String),
    /// This volume is to be handed over to the claim.
    HandOver(String),
    /// The claim beside the original is not needed any more.
    Clean,
}

/// What follows.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// What to do.
    pub step: Option<Step>,
    /// What the status has to be.
    pub status: DataVolumeStatus,
    /// Whether it is not so.
    pub status_changed: bool,
}

/// The DataSource that a DataVolume names.
pub fn source_of(volume: &DataVolume) -> Option<Named> {
    let reference = volume.spec.source_ref.as_ref()?;
    if !reference.kind.eq_ignore_ascii_case("DataSource") {
        return None;
    }
    let home = name_of(&volume.metadata).namespace;
    let namespace = reference.namespace.clone().filter(|it| !it.is_empty());
    Some(named(&namespace.unwrap_or(home), &reference.name))
}

/// Whether a DataVolume is a copy.
pub fn is_copy(volume: &DataVolume) -> bool {
    let source = volume.spec.source.as_ref();
    volume.spec.source_ref.is_some()
        || source.is_some_and(|it| it.pvc.is_some() || it.rest.contains_key("snapshot"))
}

/// What a DataVolume is a copy of, given the DataSource that it names; the error says what is missing.
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
        return Err("sourceRef names no DataSource; kind DataSource is accepted".to_owned());
    };
    let Some(source) = source else {
        return Err(format!(
            "DataSource {}/{} is not there",
            name.namespace, name.name
        ));
    };
    let stands_for = if source.spec.source.data_source.is_some() {
        source.status.as_ref().map(|status| &status.source)
    } else {
        Some(&source.spec.source)
    };
    let here = |of: &Named| {
        let given = Some(&of.namespace).filter(|it| !it.is_empty());
        given.unwrap_or(&name.namespace).clone()
    };
    match stands_for.and_then(Source::which) {
        Some(DataSourceRef::Pvc(of)) => Ok(Source::of_pvc(&here(of), &of.name)),
        Some(DataSourceRef::Snapshot(of)) => Ok(Source::of_snapshot(&here(of), &of.name)),
        Some(DataSourceRef::DataSource(_)) | None => Err(format!(
            "Empty source field in '{}'. DataSource may not be ready yet",
            name.name
        )),
    }
}

/// The namespace of an original that is not in that of its copy.
pub fn elsewhere(original: &Source, volume: &DataVolume) -> Option<String> {
    let Some(DataSourceRef::Pvc(of) | DataSourceRef::Snapshot(of)) = original.which() else {
        return None;
    };
    let home = name_of(&volume.metadata).namespace;
    let there = Some(&of.namespace).filter(|it| !it.is_empty() && **it != home);
    there.cloned()
}

/// What the claim beside the original is called. Nobody chooses the uid of a DataVolume.
pub fn interim_name(volume: &DataVolume) -> String {
    format!(
        "copy-{}",
        volume.metadata.uid.as_deref().unwrap_or_default()
    )
}

/// The DataVolume that a claim beside an original is made for: its name and its uid.
pub fn made_for(claim: &ObjectMeta) -> Option<(Named, &str)> {
    let (namespace, name) = annotation(claim, COPY_FOR)?.split_once('/')?;
    Some((named(namespace, name), label(claim, COPY_UID)?))
}

/// The claim beside the original, made of that of the DataVolume.
pub fn interim(volume: &DataVolume, claim: &Value, namespace: &str) -> Value {
    let meta = &volume.metadata;
    let Named {
        namespace: home,
        name,
    } = name_of(meta);
    json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        // Owners have to be in the same namespace: whoever looks after the DataVolume removes it.
        "metadata": {
            "name": interim_name(volume),
            "namespace": namespace,
            "labels": { "app": "containerized-data-importer", COPY_UID: meta.uid },
            "annotations": { COPY_FOR: format!("{home}/{name}") },
        },
        "spec": claim["spec"],
    })
}

/// The claim of a DataVolume for a volume that is there already, which it does not have to fill.
pub fn taking(mut claim: Value, volume: &str) -> Value {
    if let Some(spec) = claim["spec"].as_object_mut() {
        spec.remove("dataSource");
        spec.insert("volumeName".to_owned(), json!(volume));
    }
    claim
}

/// What makes a volume that of a claim, whoever had it before.
pub fn hand_over(claim: &ObjectMeta) -> Value {
    json!({ "spec": { "claimRef": {
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "namespace": claim.namespace, "name": claim.name, "uid": claim.uid,
        "resourceVersion": null, "fieldPath": null,
    } } })
}

/// Decides about a DataVolume that is a copy.
pub fn decide(facts: &Facts<'_>) -> Decision {
    let volume = facts.volume;
    let before = volume.status.clone().unwrap_or_default();
    let mut status = before.clone();
    let clean = facts
        .transfer
        .is_some_and(|it| it.interim != Claim::Missing)
        .then_some(Step::Clean);
    if before.phase.as_deref() == Some("Succeeded") {
        // Whatever becomes of the original.
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
        (Claim::Bound, _, _) => {
            step = clean;
            ("Succeeded", String::new())
        }
        (Claim::Missing, Err(why), _) => ("CloneScheduled", why.clone()),
        (Claim::Missing, Ok(original), None) => {
            step = Some(Step::Make(original.clone()));
            ("CloneScheduled", String::new())
        }
        (Claim::Missing, Ok(original), Some(there)) => match (&there.volume, &there.denied) {
            (Some(of), _) => {
                step = Some(Step::Take(of.clone()));
                (HANDING_OVER, String::new())
            }
            (None, Some(why)) if there.interim == Claim::Missing => {
                denied = Some(why.clone());
                ("CloneScheduled", why.clone())
            }
            (None, _) => {
                if there.interim == Claim::Missing {
                    step = Some(Step::MakeThere(original.clone()));
                }
                (copying(original), there.waits())
            }
        },
        (Claim::Pending | Claim::WaitsForConsumer, _, Some(there)) => {
            let of = there.volume.clone().filter(|_| !there.is_handed_over);
            step = of.map(Step::HandOver);
            (HANDING_OVER, String::new())
        }
        (Claim::WaitsForConsumer, _, None) => ("WaitForFirstConsumer", String::new()),
        (Claim::Pending, Ok(original), None) => (copying(original), String::new()),
        (Claim::Pending, Err(_), None) => ("CSICloneInProgress", String::new()),
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
    Said::new("Running", running, reason, message).put(&mut status.conditions, facts.now);
    let reason = if done { "Ready" } else { phase };
    Said::new("Ready", done, reason, "").put(&mut status.conditions, facts.now);
    let reason = if done { "Bound" } else { "Pending" };
    Said::new("Bound", done, reason, "").put(&mut status.conditions, facts.now);
    Decision {
        step,
        status_changed: status != before,
        status,
    }
}

/// How the storage makes a copy.
fn copying(original: &Source) -> &'static str {
    if original.snapshot.is_some() {
        "CloneFromSnapshotSourceInProgress"
    } else {
        "CSICloneInProgress"
    }
}
