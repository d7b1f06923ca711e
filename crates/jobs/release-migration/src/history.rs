//! The update history of a cluster: adding entries, pruning, and classification of changes.

mod classify;
mod prune;
#[cfg(test)]
mod tests;

use api::openshift::{Release, UpdateHistory};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::evaluate::Phase;

pub use classify::{Change, KnownPayloads, PayloadFacts, classify};
pub use prune::{MAX_ENTRIES, prune};

/// The progress of the current or target release.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Progress<'a> {
    /// Whether it is complete.
    pub completed: bool,
    /// Whether its signature was verified.
    pub verified: bool,
    /// Risks that the user accepted for it, if any.
    pub accepted_risks: Option<&'a str>,
}

/// The phase of a release by the history: installing while no release was ever completed; reconciling if the newest
/// entry is this one and completed.
pub fn phase(history: &[UpdateHistory], image: &str) -> Phase {
    if !history.iter().any(UpdateHistory::is_completed) {
        return Phase::Initializing;
    }
    match history.first() {
        Some(newest) if newest.is_completed() && newest.image == image => Phase::Reconciling,
        _ => Phase::Updating,
    }
}

/// Merges the current state into a history, newest first. A release equal to the newest entry (by image, or by version
/// where one of both has no image) updates that entry; any other, even with the same version, adds a new entry and ends
/// the previous one. A release without an image is not recorded, as it could not be returned to.
pub fn merge(
    history: &mut Vec<UpdateHistory>,
    desired: &Release,
    progress: &Progress<'_>,
    now: Timestamp,
) {
    if desired.image.is_empty() {
        return;
    }
    let now = Some(Time(now));
    let is_same = match history.first_mut() {
        None => false,
        Some(newest) => {
            if newest.state.is_empty() {
                UpdateHistory::PARTIAL.clone_into(&mut newest.state);
            }
            is_same(newest, desired)
        }
    };
    if !is_same {
        if let Some(newest) = history.first_mut()
            // It stays Partial: it was replaced, not completed.
            && newest.completion_time.is_none()
        {
            newest.completion_time.clone_from(&now);
        }
        let entry = UpdateHistory {
            state: UpdateHistory::PARTIAL.to_owned(),
            started_time: now.clone(),
            version: desired.version.clone(),
            image: desired.image.clone(),
            ..UpdateHistory::default()
        };
        history.insert(0, entry);
    }
    if let Some(newest) = history.first_mut() {
        if progress.completed {
            UpdateHistory::COMPLETED.clone_into(&mut newest.state);
            if newest.completion_time.is_none() {
                newest.completion_time = now;
            }
        }
        newest.verified |= progress.verified;
        if let Some(risks) = progress.accepted_risks {
            risks.clone_into(&mut newest.accepted_risks);
        }
        if newest.version.is_empty() {
            newest.version.clone_from(&desired.version);
        }
        if newest.image.is_empty() {
            newest.image.clone_from(&desired.image);
        }
    }
    prune(history, MAX_ENTRIES);
}

/// Whether an entry is for a release.
fn is_same(entry: &UpdateHistory, desired: &Release) -> bool {
    let agree = |one: &str, other: &str| one.is_empty() || other.is_empty() || one == other;
    // By the whole pull specification, as `mergeEqualVersions` in pkg/cvo/status.go: the same version from another
    // image is another entry, which is how a migration to multi-arch becomes visible.
    if desired.image == entry.image {
        return agree(&desired.version, &entry.version);
    }
    entry.image.is_empty() && !desired.version.is_empty() && desired.version == entry.version
}
