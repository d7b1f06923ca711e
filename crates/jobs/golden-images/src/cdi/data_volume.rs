//! How far the import of a DataVolume is, whether an importer has to run, and when it runs again.
//!
//! An importer that fails is started again, later and later. What it wrote stays, so that it can go
//! on from there.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use api::cdi::{DataVolume, DataVolumeStatus, labels};
use api::golden::names;
use jiff::Timestamp;
use serde_json::Value;

use super::failure::{Failure, Reason, Trouble};
use crate::action::{Wanted, label, metadata_patch};
use crate::conditions::Said;
use crate::policy::Policy;

/// What is known.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// The DataVolume.
    pub volume: &'a DataVolume,
    /// The volume that it becomes.
    pub claim: Claim,
    /// The importer.
    pub importer: Option<&'a Importer>,
    /// The architectures of the nodes that could pull.
    pub nodes: &'a BTreeSet<String>,
    /// How images are kept.
    pub policy: &'a Policy,
    /// Now.
    pub now: Timestamp,
}

/// The volume that a DataVolume becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// It is not there.
    Missing,
    /// It waits for somebody who uses it.
    WaitsForConsumer,
    /// It is not bound yet; an importer binds it.
    Pending,
    /// It is bound.
    Bound,
}

/// An importer: a pod, or a task of this program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Importer {
    /// Which try it is, from 1.
    pub attempt: u32,
    /// How far it is.
    pub state: State,
}

/// How far an importer is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// It has not begun.
    Scheduled,
    /// It cannot be scheduled, in the words of the scheduler.
    Unschedulable(String),
    /// It runs; in parts of ten thousand, if that is known.
    Running(Option<u16>),
    /// It failed.
    Failed(Failure),
    /// It succeeded.
    Succeeded(Report),
}

/// What an importer found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// What the disk holds.
    pub content: Option<String>,
    /// The architectures that were found on the disk.
    pub sniffed: BTreeSet<String>,
    /// Labels that the image brings.
    pub labels: BTreeMap<String, String>,
}

/// What is to be done about the importer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Run {
    /// Nothing.
    Nothing,
    /// The volume has to be made first.
    MakeClaim,
    /// It has to be started.
    Start {
        /// Which try it is.
        attempt: u32,
        /// The architecture that its node must have, if a node pulls.
        node: Option<String>,
    },
    /// It has to be removed: it has ended.
    Remove,
    /// It has to be started then.
    Wait(Timestamp),
}

/// What follows.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// What to do.
    pub run: Run,
    /// What the status has to be.
    pub status: DataVolumeStatus,
    /// Whether it is not so.
    pub status_changed: bool,
    /// What has to change about the DataVolume, as a merge patch.
    pub patch: Option<Value>,
    /// What has to be written to the volume when the import has succeeded; what is there stays.
    pub claim: Option<Report>,
}

/// Decides about a DataVolume that imports an image.
pub fn decide(facts: &Facts<'_>) -> Decision {
    let volume = facts.volume;
    let before = volume.status.clone().unwrap_or_default();
    let mut status = before.clone();
    let known = Trouble::read(&volume.metadata);
    let mut trouble = known;
    let mut report = None;
    let mut phase = "Pending";
    let mut running = Said::new("Running", false, "Pending", "");
    let bound = facts.claim == Claim::Bound;
    let attempt = known.map_or(0, |it| it.failures).saturating_add(1);

    let run = if before.phase.as_deref() == Some("Succeeded")
        || before.phase.as_deref() == Some("Failed")
    {
        // It is over, and stays so.
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
                    running = Said::new("Running", false, "Pending", "Importer is scheduled");
                    Run::Nothing
                }
                State::Unschedulable(message) => {
                    let failure = unschedulable(facts, message);
                    running = Said::new("Running", false, failure.reason.as_str(), failure.message);
                    Run::Nothing
                }
                State::Running(progress) => {
                    phase = "ImportInProgress";
                    running = Said::new("Running", true, "Pod is running", "");
                    if let Some(parts) = progress {
                        status.progress = Some(percent(*parts));
                    }
                    Run::Nothing
                }
                State::Failed(failure) => {
                    // Counted once, however often it is looked at.
                    if known.is_none_or(|it| it.failures < importer.attempt) {
                        let retry = &facts.policy.retry;
                        trouble = Some(Trouble::after(known, failure.reason, facts.now, retry));
                        status.restart_count = i32::try_from(importer.attempt).ok();
                    }
                    running = Said::new(
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
                    running = Said::new("Running", false, "Completed", "Import Complete");
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
    Said::new("Ready", ready, if ready { "Ready" } else { phase }, "")
        .put(&mut status.conditions, facts.now);
    let bound_reason = if bound { "Bound" } else { "Pending" };
    Said::new("Bound", bound, bound_reason, "").put(&mut status.conditions, facts.now);

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

/// Whether an importer is started now, or later, or not.
fn start(facts: &Facts<'_>, known: Option<Trouble>, attempt: u32, running: &mut Said) -> Run {
    let node = node_of(facts.volume);
    if let Some(architecture) = &node
        && !facts.nodes.contains(architecture)
    {
        *running = Said::new(
            "Running",
            false,
            Reason::NoMatchingNode.as_str(),
            format!("no node has kubernetes.io/arch={architecture}"),
        );
        return Run::Nothing;
    }
    if let Some(trouble) = known {
        let status = facts.volume.status.as_ref();
        let said = status.and_then(|it| crate::conditions::get(&it.conditions, "Running"));
        let message = said
            .filter(|it| it.reason.as_deref() == Some(trouble.reason.as_str()))
            .and_then(|it| it.message.clone())
            .unwrap_or_else(|| "the import failed".to_owned());
        *running = Said::new("Running", false, trouble.reason.as_str(), message);
        if trouble.next > facts.now {
            return Run::Wait(trouble.next);
        }
    }
    Run::Start { attempt, node }
}

/// The architecture that a node must have, if a node pulls.
pub fn node_of(volume: &DataVolume) -> Option<String> {
    let registry = volume.spec.source.as_ref()?.registry.as_ref()?;
    if registry.pull_method.as_deref() != Some("node") {
        return None;
    }
    let platform = registry.platform.as_ref()?;
    platform.architecture.clone().filter(|it| !it.is_empty())
}

fn unschedulable(facts: &Facts<'_>, message: &str) -> Failure {
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

/// A file that is not the one that somebody asked for by its checksum will not become it. Who wants
/// it kept current goes on asking: mirrors get their files one after the other.
fn is_final(facts: &Facts<'_>, failure: &Failure) -> bool {
    let source = facts.volume.spec.source.as_ref();
    let http = source.and_then(|source| source.http.as_ref());
    failure.reason == Reason::DigestMismatch
        && http.is_some_and(|http| http.checksum.as_ref().is_some_and(|it| !it.is_empty()))
        && label(&facts.volume.metadata, labels::DATA_IMPORT_CRON).is_none()
}

/// `42.17%`.
fn percent(parts: u16) -> String {
    let parts = parts.min(10_000);
    format!("{}.{:02}%", parts / 100, parts % 100)
}
