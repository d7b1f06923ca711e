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
use serde_json::Value;

use super::failure::{Failure, Reason, Trouble};
use crate::action::{Wanted, label, metadata_patch};
use crate::conditions::ConditionUpdate;
use crate::policy::Policy;

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
pub enum Run {
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
    pub run: Run,
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
    let known = Trouble::read(&volume.metadata);
    let mut trouble = known;
    let mut report = None;
    let mut phase = "Pending";
    let mut running = ConditionUpdate::new("Running", false, "Pending", "");
    let bound = facts.claim == Claim::Bound;
    let attempt = known.map_or(0, |it| it.failures).saturating_add(1);

    let run = if before.phase.as_deref() == Some("Succeeded")
        || before.phase.as_deref() == Some("Failed")
    {
        // Both phases are final.
        return Decision {
            run: facts.importer.map_or(Run::Nothing, |_| Run::Remove),
            status,
            status_changed: false,
            patch: None,
            claim: None,
        };
    } else if facts.claim == Claim::Missing {
        Run::MakeClaim
    } else if facts.claim == Claim::WaitsForConsumer {
        phase = "WaitForFirstConsumer";
        Run::Nothing
    } else {
        phase = "ImportScheduled";
        match facts.importer {
            None => start(facts, known, attempt, &mut running),
            Some(importer) => match &importer.state {
                State::Scheduled => {
                    running =
                        ConditionUpdate::new("Running", false, "Pending", "Importer is scheduled");
                    Run::Nothing
                }
                State::Unschedulable(message) => {
                    let failure = unschedulable(facts, message);
                    running = ConditionUpdate::new(
                        "Running",
                        false,
                        failure.reason.as_str(),
                        failure.message,
                    );
                    Run::Nothing
                }
                State::Running(progress) => {
                    phase = "ImportInProgress";
                    running = ConditionUpdate::new("Running", true, "Pod is running", "");
                    if let Some(parts) = progress {
                        status.progress = Some(percent(*parts));
                    }
                    Run::Nothing
                }
                State::Failed(failure) => {
                    // An attempt is counted once, however often it is reconciled.
                    if known.is_none_or(|it| it.failures < importer.attempt) {
                        let retry = &facts.policy.retry;
                        trouble = Some(Trouble::after(known, failure.reason, facts.now, retry));
                        status.restart_count = i32::try_from(importer.attempt).ok();
                    }
                    running = ConditionUpdate::new(
                        "Running",
                        false,
                        failure.reason.as_str(),
                        failure.message.clone(),
                    );
                    if is_final(facts, failure) {
                        phase = "Failed";
                    }
                    Run::Remove
                }
                State::Succeeded(found) => {
                    phase = "Succeeded";
                    running =
                        ConditionUpdate::new("Running", false, "Completed", "Import Complete");
                    status.progress = Some("100.0%".to_owned());
                    trouble = None;
                    report = Some(found.clone());
                    Run::Remove
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

    let mut wanted: Wanted<'_> = Wanted::new();
    if trouble != known {
        wanted.extend(Trouble::annotations(trouble.as_ref()));
    }
    if let Some(found) = &report {
        wanted.insert(names::CONTENT, found.content.clone());
        let sniffed: Vec<String> = found.sniffed.iter().cloned().collect();
        if !sniffed.is_empty() {
            wanted.insert(names::SNIFFED, Some(sniffed.join(",")));
        }
        if found.content.is_none() {
            wanted.remove(names::CONTENT);
        }
    }
    Decision {
        run,
        status_changed: status != before,
        status,
        patch: metadata_patch(&volume.metadata, &Wanted::new(), &wanted),
        claim: report,
    }
}

/// Whether the importer is started now, later, or not at all.
fn start(
    facts: &ImportInputs<'_>,
    known: Option<Trouble>,
    attempt: u32,
    running: &mut ConditionUpdate,
) -> Run {
    let node = node_of(facts.volume);
    if let Some(architecture) = &node
        && !facts.nodes.contains(architecture)
    {
        *running = ConditionUpdate::new(
            "Running",
            false,
            Reason::NoMatchingNode.as_str(),
            format!("no node has kubernetes.io/arch={architecture}"),
        );
        return Run::Nothing;
    }
    if let Some(trouble) = known {
        let status = facts.volume.status.as_ref();
        let previous = status.and_then(|it| crate::conditions::get(&it.conditions, "Running"));
        let message = previous
            .filter(|it| it.reason.as_deref() == Some(trouble.reason.as_str()))
            .and_then(|it| it.message.clone())
            .unwrap_or_else(|| "import failed".to_owned());
        *running = ConditionUpdate::new("Running", false, trouble.reason.as_str(), message);
        if trouble.next > facts.now {
            return Run::Wait(trouble.next);
        }
    }
    Run::Start { attempt, node }
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
