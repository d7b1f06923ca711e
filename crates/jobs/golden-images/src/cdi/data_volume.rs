//! The import of a DataVolume: its phase, whether an importer has to run, and when it is retried.
//!
//! A failed importer is restarted with backoff. What it wrote to the volume stays, so that the next
//! attempt can resume.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use api::cdi::{DataVolume, DataVolumeStatus, labels};
use api::golden::names;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::api::storage::v1::StorageClass;
use serde_json::Value;

use super::claim::{binds_immediately, is_of};
use super::failure::{Failure, Reason, RetryState};
use super::{life_cycle, pod};
use crate::action::{Action, Kind, MetadataValues, annotation, label, metadata_patch, name_of};
use crate::conditions::{self, ConditionUpdate};
use crate::policy::Policy;

/// The condition with the state of the importer.
const RUNNING: &str = "Running";

/// The inputs of the decision.
#[derive(Debug, Clone, Copy)]
pub struct ImportInputs<'a> {
    /// The DataVolume.
    pub volume: &'a DataVolume,
    /// The state of its PVC.
    pub claim: Claim,
    /// The running or finished importer.
    pub importer: Option<&'a Importer>,
    /// The architectures of the nodes that could pull.
    pub nodes: &'a BTreeSet<String>,
    /// The policy in force.
    pub policy: &'a Policy,
    /// The current time.
    pub now: Timestamp,
}

/// The state of the PVC of a DataVolume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// It does not exist.
    Missing,
    /// It waits for a pod that uses it (WaitForFirstConsumer).
    WaitsForConsumer,
    /// It is not bound yet; the importer pod binds it.
    Pending,
    /// It is bound.
    Bound,
    /// Pods or a populator of CDI fill it; only CDI knows when it is complete.
    FilledByCdi,
    /// It is bound, and marked as complete.
    Complete,
}

impl Claim {
    /// The state of a PVC with its storage class. A PVC `beside` the original of a clone has no consumer.
    pub fn of(
        volume: &DataVolume,
        claim: Option<&PersistentVolumeClaim>,
        class: Option<&StorageClass>,
        beside: bool,
    ) -> Self {
        let Some(claim) = claim else {
            return Self::Missing;
        };
        let status = claim.status.as_ref();
        let bound = status.and_then(|it| it.phase.as_deref()) == Some("Bound");
        if life_cycle::is_filled_by_cdi(claim, bound) {
            return Self::FilledByCdi;
        }
        if bound && life_cycle::is_complete(claim) {
            return Self::Complete;
        }
        if bound {
            return Self::Bound;
        }
        let mode = class.and_then(|it| it.volume_binding_mode.as_deref());
        let waits = mode == Some("WaitForFirstConsumer");
        if waits && (beside || !binds_immediately(volume)) {
            Self::WaitsForConsumer
        } else {
            Self::Pending
        }
    }
}

/// An importer: a pod, or a task of this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Importer {
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// Its state.
    pub state: State,
}

/// The state of an importer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// It has not started.
    Scheduled,
    /// It cannot be scheduled; the message of the scheduler.
    Unschedulable(String),
    /// It is running; its progress in hundredths of a percent, if known.
    Running(Option<u16>),
    /// It failed.
    Failed(Failure),
    /// It succeeded.
    Succeeded(Report),
}

/// What a successful importer reports.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// The digest of the disk content.
    pub content: Option<String>,
    /// The architectures detected on the disk.
    pub sniffed: BTreeSet<String>,
    /// Labels that the image declares.
    pub labels: BTreeMap<String, String>,
}

/// What the controller has to do about the importer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImporterAction {
    /// Nothing.
    Nothing,
    /// Create the PVC first.
    MakeClaim,
    /// Start it.
    Start {
        /// The number of the attempt.
        attempt: u32,
        /// The architecture of the node, if a node pulls.
        node: Option<String>,
    },
    /// Remove it: it has ended.
    Remove,
    /// Start it at this time, when its backoff is over.
    Wait(Timestamp),
}

/// The decision about a DataVolume.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// What to do about the importer.
    pub run: ImporterAction,
    /// The desired status.
    pub status: DataVolumeStatus,
    /// Whether it differs from the current one.
    pub status_changed: bool,
    /// The merge patch for the DataVolume, if it differs.
    pub patch: Option<Value>,
    /// The report to record on the PVC when the import has succeeded; existing values stay.
    pub claim: Option<Report>,
}

/// Decides about a DataVolume that imports an image.
pub fn decide(facts: &ImportInputs<'_>) -> Decision {
    let volume = facts.volume;
    let before = volume.status.clone().unwrap_or_default();
    let mut status = before.clone();
    let known = RetryState::read(&volume.metadata);
    let mut trouble = known;
    let mut report = None;
    let mut phase = "Pending";
    let mut running = ConditionUpdate::new(RUNNING, false, "Pending", "");
    let bound = matches!(facts.claim, Claim::Bound | Claim::Complete);
    let attempt = known.map_or(0, |it| it.failures).saturating_add(1);

    let run = if before.phase.as_deref() == Some("Succeeded")
        || before.phase.as_deref() == Some("Failed")
        || facts.claim == Claim::FilledByCdi
    {
        // Both phases are final. While CDI fills the PVC, its status counts; an importer would write to the same disk.
        return Decision {
            run: facts
                .importer
                .map_or(ImporterAction::Nothing, |_| ImporterAction::Remove),
            status,
            status_changed: false,
            patch: None,
            claim: None,
        };
    } else if facts.claim == Claim::Missing {
        ImporterAction::MakeClaim
    } else if facts.claim == Claim::WaitsForConsumer {
        phase = "WaitForFirstConsumer";
        ImporterAction::Nothing
    } else if facts.claim == Claim::Complete {
        // Imported, but the controller that did it ended before it reported the phase.
        let found = facts.importer.and_then(|importer| match &importer.state {
            State::Succeeded(found) => Some(found.clone()),
            _ => None,
        });
        (phase, running) = succeed(&mut status);
        trouble = None;
        report = Some(found.unwrap_or_default());
        facts
            .importer
            .map_or(ImporterAction::Nothing, |_| ImporterAction::Remove)
    } else {
        phase = "ImportScheduled";
        match facts.importer {
            None => start(facts, known, attempt, &mut running),
            Some(importer) => match &importer.state {
                State::Scheduled => {
                    running =
                        ConditionUpdate::new(RUNNING, false, "Pending", "Importer is scheduled");
                    ImporterAction::Nothing
                }
                // Reported, but not a failed attempt: the scheduler retries by itself as soon as a
                // node fits.
                State::Unschedulable(message) => {
                    let failure = unschedulable(facts, message);
                    running = ConditionUpdate::new(
                        RUNNING,
                        false,
                        failure.reason.as_str(),
                        failure.message,
                    );
                    ImporterAction::Nothing
                }
                State::Running(progress) => {
                    phase = "ImportInProgress";
                    running = ConditionUpdate::new(RUNNING, true, "Pod is running", "");
                    if let Some(parts) = progress {
                        status.progress = Some(percent(*parts));
                    }
                    ImporterAction::Nothing
                }
                State::Failed(failure) => {
                    // An attempt is counted once, however often it is reconciled.
                    if known.is_none_or(|it| it.failures < importer.attempt) {
                        let retry = &facts.policy.retry;
                        trouble = Some(RetryState::after(known, failure.reason, facts.now, retry));
                        status.restart_count = i32::try_from(importer.attempt).ok();
                    }
                    running = ConditionUpdate::new(
                        RUNNING,
                        false,
                        failure.reason.as_str(),
                        failure.message.clone(),
                    );
                    if is_final(facts, failure) {
                        phase = "Failed";
                    }
                    ImporterAction::Remove
                }
                State::Succeeded(found) => {
                    (phase, running) = succeed(&mut status);
                    trouble = None;
                    report = Some(found.clone());
                    ImporterAction::Remove
                }
            },
        }
    };
    if status.progress.is_none() {
        status.progress = Some("N/A".to_owned());
    }
    status.phase = Some(phase.to_owned());
    status.claim_name.clone_from(&volume.metadata.name);
    running.put(&mut status.conditions, facts.now);
    let ready = phase == "Succeeded";
    ConditionUpdate::new("Ready", ready, if ready { "Ready" } else { phase }, "")
        .put(&mut status.conditions, facts.now);
    let bound_reason = if bound { "Bound" } else { "Pending" };
    ConditionUpdate::new("Bound", bound, bound_reason, "").put(&mut status.conditions, facts.now);

    let mut wanted: MetadataValues<'_> = MetadataValues::new();
    if trouble != known {
        wanted.extend(RetryState::annotations(trouble.as_ref()));
    }
    if let Some(found) = &report {
        wanted.insert(names::CONTENT, found.content.clone());
        let sniffed: Vec<String> = found.sniffed.iter().cloned().collect();
        if !sniffed.is_empty() {
            wanted.insert(names::SNIFFED, Some(sniffed.join(",")));
        }
        // `None` would remove the digest that the DataImportCron recorded.
        if found.content.is_none() {
            wanted.remove(names::CONTENT);
        }
    }
    Decision {
        run,
        status_changed: status != before,
        status,
        patch: metadata_patch(&volume.metadata, &MetadataValues::new(), &wanted),
        claim: report,
    }
}

/// The phase of a successful import, and its condition.
fn succeed(status: &mut DataVolumeStatus) -> (&'static str, ConditionUpdate) {
    status.progress = Some("100.0%".to_owned());
    let running = ConditionUpdate::new(RUNNING, false, "Completed", "Import Complete");
    ("Succeeded", running)
}

/// Whether the importer is started now, later, or not at all.
fn start(
    facts: &ImportInputs<'_>,
    known: Option<RetryState>,
    attempt: u32,
    running: &mut ConditionUpdate,
) -> ImporterAction {
    let node = node_of(facts.volume);
    if let Some(architecture) = &node
        && !facts.nodes.contains(architecture)
    {
        *running = ConditionUpdate::new(
            RUNNING,
            false,
            Reason::NoMatchingNode.as_str(),
            format!("no node has kubernetes.io/arch={architecture}"),
        );
        return ImporterAction::Nothing;
    }
    // The condition keeps the last failure during the backoff, otherwise the reason would vanish
    // between attempts.
    if let Some(trouble) = known {
        let status = facts.volume.status.as_ref();
        let previous = status.and_then(|it| conditions::get(&it.conditions, RUNNING));
        let message = previous
            .filter(|it| it.reason.as_deref() == Some(trouble.reason.as_str()))
            .and_then(|it| it.message.clone())
            .unwrap_or_else(|| "import failed".to_owned());
        *running = ConditionUpdate::new(RUNNING, false, trouble.reason.as_str(), message);
        if trouble.next > facts.now {
            return ImporterAction::Wait(trouble.next);
        }
    }
    ImporterAction::Start { attempt, node }
}

/// The architecture that the node must have, if a node pulls.
pub fn node_of(volume: &DataVolume) -> Option<String> {
    let registry = volume.spec.source.as_ref()?.registry.as_ref()?;
    if registry.pull_method.as_deref() != Some("node") {
        return None;
    }
    let platform = registry.platform.as_ref()?;
    platform.architecture.clone().filter(|it| !it.is_empty())
}

fn unschedulable(facts: &ImportInputs<'_>, message: &str) -> Failure {
    let node = node_of(facts.volume);
    let missing = node.filter(|architecture| !facts.nodes.contains(architecture));
    match missing {
        Some(architecture) => Failure::new(
            Reason::NoMatchingNode,
            format!("no node has kubernetes.io/arch={architecture}: {message}"),
        ),
        None => Failure::new(
            Reason::Unschedulable,
            format!("Importer pod cannot be scheduled: {message}"),
        ),
    }
}

/// Whether a failure is final. A file that does not match the checksum of its DataVolume will not
/// change. One imported by a DataImportCron is retried: mirrors are updated one after the other.
fn is_final(facts: &ImportInputs<'_>, failure: &Failure) -> bool {
    let source = facts.volume.spec.source.as_ref();
    let http = source.and_then(|source| source.http.as_ref());
    failure.reason == Reason::DigestMismatch
        && http.is_some_and(|http| http.checksum.as_ref().is_some_and(|it| !it.is_empty()))
        && label(&facts.volume.metadata, labels::DATA_IMPORT_CRON).is_none()
}

/// Formats `42.17%`.
fn percent(parts: u16) -> String {
    let parts = parts.min(10_000);
    format!("{}.{:02}%", parts / 100, parts % 100)
}

/// Whether a failed attempt has not been counted yet.
pub fn is_new_failure(volume: &DataVolume, attempt: u32) -> bool {
    RetryState::read(&volume.metadata).is_none_or(|it| it.failures < attempt)
}

/// Reports in the condition `Running` why the claim cannot be created; an unchanged reason keeps its transition time.
pub fn set_running_condition(
    volume: &DataVolume,
    status: &mut DataVolumeStatus,
    failure: &Failure,
    now: Timestamp,
) {
    let before = volume.status.as_ref();
    let before = before.and_then(|it| conditions::get(&it.conditions, RUNNING));
    status.conditions.retain(|it| it.kind != RUNNING);
    status.conditions.extend(before.cloned());
    let (reason, message) = (failure.reason.as_str(), failure.message.clone());
    ConditionUpdate::new(RUNNING, false, reason, message).put(&mut status.conditions, now);
    status
        .conditions
        .sort_by(|one, other| one.kind.cmp(&other.kind));
}

/// Patch that marks the claim of a successful import as complete and records the result on it; labels and results that
/// exist stay.
pub fn describe_claim(
    volume: &DataVolume,
    claim: &PersistentVolumeClaim,
    found: &Report,
) -> Option<Action> {
    let mut labels = MetadataValues::new();
    for (name, value) in &found.labels {
        if label(&claim.metadata, name).is_none() {
            labels.insert(name, Some(value.clone()));
        }
    }
    let mut notes = if life_cycle::is_complete(claim) {
        MetadataValues::new()
    } else {
        let name = volume.metadata.name.as_deref().unwrap_or_default();
        let status = volume.status.as_ref();
        let restarts = status.and_then(|it| it.restart_count).unwrap_or_default();
        life_cycle::completed(pod::name(name), restarts)
    };
    let sniffed: Vec<String> = found.sniffed.iter().cloned().collect();
    for (name, value) in [
        (names::CONTENT, found.content.clone()),
        (
            names::SNIFFED,
            (!sniffed.is_empty()).then(|| sniffed.join(",")),
        ),
    ] {
        if value.is_some() && annotation(&claim.metadata, name).is_none() {
            notes.insert(name, value);
        }
    }
    let patch = metadata_patch(&claim.metadata, &labels, &notes)?;
    Some(Action::Patch {
        kind: Kind::Claim,
        of: name_of(&claim.metadata),
        patch,
        why: "it was imported",
    })
}

/// Patch that marks the claim of a DataVolume as complete if an earlier version of Medley imported it: that version
/// wrote none of CDI's annotations, so CDI would import again.
pub fn complete_claim(volume: &DataVolume, claim: &PersistentVolumeClaim) -> Option<Action> {
    let phase = volume.status.as_ref().and_then(|it| it.phase.as_deref());
    let is_unmarked = is_of(claim, volume) && !life_cycle::is_recorded(claim);
    (phase == Some("Succeeded") && is_unmarked)
        .then(|| describe_claim(volume, claim, &Report::default()))
        .flatten()
}
