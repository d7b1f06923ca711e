//! A DataVolume that is a copy: of a volume, of a snapshot, or of what a DataSource stands for.
//!
//! The storage copies, whoever it is. A pointer is followed by `status.source`, which is empty for as
//! long as there is nothing to copy; other DataSources by what they say themselves.

#[cfg(test)]
mod tests;

use api::cdi::{DataSource, DataSourceRef, DataVolume, DataVolumeStatus, Named, Source};
use jiff::Timestamp;

use super::data_volume::Claim;
use crate::action::{name_of, named};
use crate::conditions::Said;

/// What is known.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// The DataVolume.
    pub volume: &'a DataVolume,
    /// The DataSource that it names, if it names one that is there.
    pub source: Option<&'a DataSource>,
    /// The volume that it becomes.
    pub claim: Claim,
    /// Now.
    pub now: Timestamp,
}

/// What follows.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// The volume is to be made, as a copy of this.
    pub make: Option<Source>,
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

/// What a DataVolume is a copy of.
fn original(facts: &Facts<'_>) -> Result<Source, String> {
    let volume = facts.volume;
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
    let Some(source) = facts.source else {
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

/// What a copy from another namespace waits for, if it is one: not every storage can do that.
fn elsewhere(original: &Source, volume: &DataVolume) -> String {
    let Some(DataSourceRef::Pvc(of) | DataSourceRef::Snapshot(of)) = original.which() else {
        return String::new();
    };
    let home = name_of(&volume.metadata).namespace;
    if of.namespace.is_empty() || of.namespace == home {
        return String::new();
    }
    format!(
        "the storage has to copy from namespace {}, which takes the feature CrossNamespaceVolumeDataSource and a ReferenceGrant there",
        of.namespace
    )
}

/// Decides about a DataVolume that is a copy.
pub fn decide(facts: &Facts<'_>) -> Decision {
    let volume = facts.volume;
    let before = volume.status.clone().unwrap_or_default();
    let mut status = before.clone();
    if before.phase.as_deref() == Some("Succeeded") {
        // Whatever becomes of the original.
        return Decision {
            make: None,
            status,
            status_changed: false,
        };
    }
    let original = original(facts);
    let mut make = None;
    let (phase, message) = match (facts.claim, &original) {
        (Claim::Bound, _) => ("Succeeded", String::new()),
        (Claim::Missing, Err(why)) => ("CloneScheduled", why.clone()),
        (Claim::Missing, Ok(original)) => {
            make = Some(original.clone());
            ("CloneScheduled", String::new())
        }
        (Claim::WaitsForConsumer, _) => ("WaitForFirstConsumer", String::new()),
        (Claim::Pending, Ok(original @ Source { snapshot, .. })) if snapshot.is_some() => (
            "CloneFromSnapshotSourceInProgress",
            elsewhere(original, volume),
        ),
        (Claim::Pending, Ok(original)) => ("CSICloneInProgress", elsewhere(original, volume)),
        (Claim::Pending, Err(_)) => ("CSICloneInProgress", String::new()),
    };
    let done = phase == "Succeeded";
    status.phase = Some(phase.to_owned());
    status.claim_name.clone_from(&volume.metadata.name);
    let progress = if done { "100.0%" } else { "N/A" };
    status.progress = Some(progress.to_owned());
    let copying = facts.claim == Claim::Pending;
    let reason = if done { "Completed" } else { phase };
    Said::new("Running", copying, reason, message).put(&mut status.conditions, facts.now);
    let reason = if done { "Ready" } else { phase };
    Said::new("Ready", done, reason, "").put(&mut status.conditions, facts.now);
    let reason = if done { "Bound" } else { "Pending" };
    Said::new("Bound", done, reason, "").put(&mut status.conditions, facts.now);
    Decision {
        make,
        status_changed: status != before,
        status,
    }
}
