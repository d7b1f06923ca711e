//! Annotations of a Deployment on its ReplicaSets.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};

use super::wanted::Wanted;
use crate::object::annotation;

/// Revision of the template, counted from one.
pub(super) const REVISION: &str = "deployment.kubernetes.io/revision";
/// Former revisions of the template.
const REVISION_HISTORY: &str = "deployment.kubernetes.io/revision-history";
/// Replicas of the deployment when the set was scaled.
const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
/// Maximum replicas of the deployment when the set was scaled.
const MAX_REPLICAS: &str = "deployment.kubernetes.io/max-replicas";

/// Annotations that sets do not inherit from their deployment.
const NOT_INHERITED: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    "deprecated.deployment.rollback.to",
    REVISION,
    REVISION_HISTORY,
    DESIRED,
    MAX_REPLICAS,
];

/// Maximum length of the revision history.
const HISTORY_MAX: usize = 2000;

/// The revision of a set; `None` if it is invalid.
pub(super) fn revision(set: &ReplicaSet) -> Option<i64> {
    match annotation(&set.metadata, REVISION) {
        None => Some(0),
        Some(text) => text.parse().ok(),
    }
}

/// The highest revision of the sets.
pub(super) fn last_revision(sets: &[ReplicaSet]) -> i64 {
    let revisions = sets.iter().filter_map(revision);
    revisions.max().unwrap_or_default().max(0)
}

/// Replicas of the deployment when the set was scaled.
pub(super) fn desired(set: &ReplicaSet) -> Option<i32> {
    number(set, DESIRED)
}

/// Maximum replicas of the deployment when the set was scaled.
pub(super) fn most(set: &ReplicaSet) -> Option<i32> {
    number(set, MAX_REPLICAS)
}

fn number(set: &ReplicaSet, key: &str) -> Option<i32> {
    let value: u32 = annotation(&set.metadata, key)?.parse().ok()?;
    i32::try_from(value).ok()
}

/// Records the deployment's size when a set is scaled.
pub(super) fn note_sizes(set: &mut ReplicaSet, wanted: &Wanted) {
    let annotations = set.metadata.annotations.get_or_insert_default();
    annotations.insert(DESIRED.to_owned(), wanted.replicas.to_string());
    annotations.insert(MAX_REPLICAS.to_owned(), wanted.most().to_string());
}

/// Sets the revision of the current set, and copies the annotations of its deployment.
pub(super) fn note_revision(set: &mut ReplicaSet, deployment: &Deployment, revision: i64) {
    let annotations = set.metadata.annotations.get_or_insert_default();
    for (key, value) in deployment.metadata.annotations.iter().flatten() {
        if !NOT_INHERITED.contains(&key.as_str()) {
            annotations.insert(key.clone(), value.clone());
        }
    }
    let before = annotations.get(REVISION).cloned();
    let known = match before.as_deref() {
        None | Some("") => 0,
        Some(text) => match text.parse::<i64>() {
            Ok(number) => number,
            Err(_) => return,
        },
    };
    if known >= revision {
        return;
    }
    annotations.insert(REVISION.to_owned(), revision.to_string());
    if let Some(before) = before {
        remember(annotations, &before);
    }
}

/// Adds a former revision to the history, dropping the oldest beyond the maximum length.
fn remember(annotations: &mut BTreeMap<String, String>, revision: &str) {
    let list = annotations.entry(REVISION_HISTORY.to_owned()).or_default();
    if list.is_empty() {
        revision.clone_into(list);
        return;
    }
    let mut kept = format!("{list},{revision}");
    while kept.len() > HISTORY_MAX {
        match kept.find(',') {
            Some(end) => drop(kept.drain(..=end)),
            None => return,
        }
    }
    *list = kept;
}
