//! The status of a Deployment.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::{
    Deployment, DeploymentCondition, DeploymentStatus, ReplicaSet, ReplicaSetCondition,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::sets::{replicas, size};
use super::wanted::Wanted;
use crate::object::name;
use crate::workloads::pods::unless_zero;

pub(super) const PROGRESSING: &str = "Progressing";
const AVAILABLE: &str = "Available";
const REPLICA_FAILURE: &str = "ReplicaFailure";

pub(super) const PAUSED: &str = "DeploymentPaused";
pub(super) const RESUMED: &str = "DeploymentResumed";
pub(super) const CREATED: &str = "NewReplicaSetCreated";
pub(super) const FOUND: &str = "FoundNewReplicaSet";
pub(super) const CREATE_FAILED: &str = "ReplicaSetCreateError";
pub(super) const TIMED_OUT: &str = "ProgressDeadlineExceeded";
const COMPLETE: &str = "NewReplicaSetAvailable";
const UPDATED: &str = "ReplicaSetUpdated";

/// A new condition with the current time.
pub(super) fn condition(
    kind: &str,
    status: &str,
    reason: &str,
    message: String,
    now: Timestamp,
) -> DeploymentCondition {
    DeploymentCondition {
        type_: kind.to_owned(),
        status: status.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message),
        last_update_time: Some(Time(now)),
        last_transition_time: Some(Time(now)),
    }
}

/// A condition of a status.
pub(super) fn find<'a>(
    status: &'a DeploymentStatus,
    kind: &str,
) -> Option<&'a DeploymentCondition> {
    let conditions = status.conditions.as_deref()?;
    conditions.iter().find(|condition| condition.type_ == kind)
}

/// Sets a condition, unless status and reason are unchanged.
pub(super) fn put(status: &mut DeploymentStatus, mut condition: DeploymentCondition) {
    if let Some(known) = find(status, &condition.type_)
        && known.status == condition.status
    {
        if known.reason == condition.reason {
            return;
        }
        condition
            .last_transition_time
            .clone_from(&known.last_transition_time);
    }
    remove(status, &condition.type_);
    status.conditions.get_or_insert_default().push(condition);
}

fn remove(status: &mut DeploymentStatus, kind: &str) {
    if let Some(conditions) = &mut status.conditions {
        conditions.retain(|condition| condition.type_ != kind);
        if conditions.is_empty() {
            status.conditions = None;
        }
    }
}

/// Counts pods, and sets the `Available` condition.
pub(super) fn count(
    deployment: &Deployment,
    wanted: &Wanted,
    new: Option<&ReplicaSet>,
    old: &[ReplicaSet],
    now: Timestamp,
) -> DeploymentStatus {
    let all: Vec<&ReplicaSet> = old.iter().chain(new).collect();
    let sum = |of: fn(&ReplicaSet) -> i32| all.iter().map(|set| of(set)).sum::<i32>();
    let available = sum(|set| size(set).available);
    let before = deployment.status.clone().unwrap_or_default();
    let mut status = DeploymentStatus {
        observed_generation: deployment.metadata.generation,
        replicas: unless_zero(sum(actual_replicas)),
        updated_replicas: unless_zero(new.map_or(0, actual_replicas)),
        ready_replicas: unless_zero(sum(ready_replicas)),
        available_replicas: unless_zero(available),
        unavailable_replicas: unless_zero((sum(replicas) - available).max(0)),
        terminating_replicas: terminating(&all),
        collision_count: before.collision_count,
        conditions: before.conditions.filter(|list| !list.is_empty()),
    };
    let (value, reason, has) = if available >= wanted.min_available() {
        ("True", "MinimumReplicasAvailable", "has")
    } else {
        ("False", "MinimumReplicasUnavailable", "does not have")
    };
    let message = format!("Deployment {has} minimum availability.");
    put(
        &mut status,
        condition(AVAILABLE, value, reason, message, now),
    );
    status
}

/// Sets the `Progressing` condition: progressing, complete or timed out.
pub(super) fn follow(
    deployment: &Deployment,
    wanted: &Wanted,
    new: Option<&ReplicaSet>,
    old: &[ReplicaSet],
    now: Timestamp,
) -> DeploymentStatus {
    let mut status = count(deployment, wanted, new, old, now);
    let before = deployment.status.clone().unwrap_or_default();
    let known = find(&before, PROGRESSING);
    let settled = status.replicas == status.updated_replicas
        && known.is_some_and(|condition| condition.reason.as_deref() == Some(COMPLETE));
    // Without a deadline progress is not tracked at all, as `HasProgressDeadline` in
    // `pkg/controller/deployment/util`.
    if wanted.deadline.is_none() {
        remove(&mut status, PROGRESSING);
    } else if !settled {
        let subject = new.map_or_else(
            || format!("Deployment {:?}", name(&deployment.metadata)),
            |set| format!("ReplicaSet {:?}", name(&set.metadata)),
        );
        if is_complete(deployment, wanted, &status) {
            let message = format!("{subject} has successfully progressed.");
            put(
                &mut status,
                condition(PROGRESSING, "True", COMPLETE, message, now),
            );
        } else if is_better(&before, &status) {
            let message = format!("{subject} is progressing.");
            let mut better = condition(PROGRESSING, "True", UPDATED, message, now);
            if let Some(known) = known.filter(|known| known.status == "True") {
                better
                    .last_transition_time
                    .clone_from(&known.last_transition_time);
            }
            // Each step restarts the progress deadline.
            remove(&mut status, PROGRESSING);
            put(&mut status, better);
        } else if is_late(wanted, &status, now) {
            let message = format!("{subject} has timed out progressing.");
            put(
                &mut status,
                condition(PROGRESSING, "False", TIMED_OUT, message, now),
            );
        }
    }
    match failure(new, old) {
        Some(failure) => put(&mut status, failure),
        None => remove(&mut status, REPLICA_FAILURE),
    }
    status
}

/// When the progress deadline passes.
pub(super) fn next_look(
    deployment: &Deployment,
    wanted: &Wanted,
    status: &DeploymentStatus,
    now: Timestamp,
) -> Option<Duration> {
    let known = find(status, PROGRESSING)?;
    if is_complete(deployment, wanted, status) || known.reason.as_deref() == Some(TIMED_OUT) {
        return None;
    }
    let from = known.last_update_time.as_ref()?.0;
    let due = from
        .checked_add(SignedDuration::from_secs(wanted.deadline?.into()))
        .ok()?;
    let wait = due.duration_since(now).max(SignedDuration::ZERO);
    // One second more, as upstream: conditions have whole seconds, and at the deadline itself it
    // has not passed yet.
    Some(wait.unsigned_abs() + Duration::from_secs(1))
}

/// Whether all pods are of the current template and available.
pub(super) fn is_complete(
    deployment: &Deployment,
    wanted: &Wanted,
    status: &DeploymentStatus,
) -> bool {
    let all = |count: Option<i32>| count.unwrap_or_default() == wanted.replicas;
    all(status.updated_replicas)
        && all(status.replicas)
        && all(status.available_replicas)
        && status.observed_generation >= deployment.metadata.generation
}

fn is_better(before: &DeploymentStatus, after: &DeploymentStatus) -> bool {
    let old = |status: &DeploymentStatus| {
        status.replicas.unwrap_or_default() - status.updated_replicas.unwrap_or_default()
    };
    after.updated_replicas > before.updated_replicas
        || old(after) < old(before)
        || after.ready_replicas > before.ready_replicas
        || after.available_replicas > before.available_replicas
}

fn is_late(wanted: &Wanted, status: &DeploymentStatus, now: Timestamp) -> bool {
    let (Some(deadline), Some(known)) = (wanted.deadline, find(status, PROGRESSING)) else {
        return false;
    };
    match known.reason.as_deref() {
        // Pods that are lost after a rollout has completed are not a failed rollout.
        Some(COMPLETE) => false,
        Some(TIMED_OUT) => true,
        _ => known.last_update_time.as_ref().is_some_and(|from| {
            now.duration_since(from.0) > SignedDuration::from_secs(deadline.into())
        }),
    }
}

/// The failure of the sets to create pods, the new set first.
fn failure(new: Option<&ReplicaSet>, old: &[ReplicaSet]) -> Option<DeploymentCondition> {
    let failed = |set: &ReplicaSet| -> Option<ReplicaSetCondition> {
        let conditions = set.status.as_ref()?.conditions.as_deref()?;
        let failed = conditions
            .iter()
            .find(|condition| condition.type_ == REPLICA_FAILURE);
        failed.cloned()
    };
    // The rollout waits for the new set, so that its failure is the one to show.
    let failed = new.into_iter().chain(old).find_map(failed)?;
    Some(DeploymentCondition {
        type_: failed.type_,
        status: failed.status,
        reason: failed.reason,
        message: failed.message,
        last_update_time: failed.last_transition_time.clone(),
        last_transition_time: failed.last_transition_time,
    })
}

/// Number of terminating pods; `None` if a set does not report it.
fn terminating(sets: &[&ReplicaSet]) -> Option<i32> {
    let mut sum = 0;
    for status in sets.iter().filter_map(|set| set.status.as_ref()) {
        match status.terminating_replicas {
            Some(count) => sum += count,
            // Not reconciled yet, so it has no pods that could be terminating.
            None if status.observed_generation.unwrap_or_default() == 0 => {}
            None => return None,
        }
    }
    Some(sum)
}

fn actual_replicas(set: &ReplicaSet) -> i32 {
    set.status.as_ref().map_or(0, |status| status.replicas)
}

fn ready_replicas(set: &ReplicaSet) -> i32 {
    let ready = set.status.as_ref().and_then(|it| it.ready_replicas);
    ready.unwrap_or_default()
}
