//! The releases that a cluster had: how one is added, which are forgotten, and what each change was.

mod classify;
mod prune;
#[cfg(test)]
mod tests;

use api::openshift::{Release, UpdateHistory};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::evaluate::Phase;

pub use classify::{Change, KnownPayloads, PayloadFacts, classify};
pub use prune::{MOST, prune};

/// What is told of the release that a cluster runs or is on its way to.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Progress<'a> {
    /// Whether it is all there.
    pub completed: bool,
    /// Whether its signature was checked.
    pub verified: bool,
    /// Risks that somebody took for it; none if nobody says.
    pub accepted_risks: Option<&'a str>,
}

/// What a cluster does with a release, by its history: it is installed as long as no release was ever all
/// there; it has arrived if the newest is this one and all there.
pub fn phase(history: &[UpdateHistory], image: &str) -> Phase {
    if !history.iter().any(UpdateHistory::is_completed) {
        return Phase::Initializing;
    }
    match history.first() {
        Some(newest) if newest.is_completed() && newest.image == image => Phase::Reconciling,
        _ => Phase::Updating,
    }
}

/// Adds what is known now to a history, newest first. A release that is the same as the newest entry
/// (its image, or its version where one of both has no image) is told there; any other is a new entry, also
/// with the same version, and the one before ends. A release without an image is nothing that could be
/// returned to, and is not remembered.
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
    prune(history, MOST);
}

/// Whether an entry is about a release.
fn is_same(entry: &UpdateHistory, desired: &Release) -> bool {
    let agree = |one: &str, other: &str| one.is_empty() || other.is_empty() || one == other;
    if desired.image == entry.image {
        return agree(&desired.version, &entry.version);
    }
    entry.image.is_empty() && !desired.version.is_empty() && desired.version == entry.version
}
