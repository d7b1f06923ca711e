//! The number of pods to create or delete, and the status.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetCondition, ReplicaSetStatus};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::workloads::pods::{
    BURST, first_to_go, is_available, is_ready, matches_all, number_of, unless_zero,
};

const REPLICA_FAILURE: &str = "ReplicaFailure";

/// The next step for the pods of a set.
#[derive(Debug, PartialEq)]
pub(super) enum ReplicaSetStep {
    /// The number is right.
    Nothing,
    /// Create this many.
    Create(usize),
    /// Delete these.
    Delete(Vec<Arc<Pod>>),
}

/// Why pods could not be created or deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failure {
    reason: &'static str,
    message: String,
}

impl Failure {
    pub(super) fn new(reason: &'static str, message: String) -> Self {
        Self { reason, message }
    }
}

/// How long pods have to be ready to be available, in seconds.
pub(super) fn min_ready_seconds(set: &ReplicaSet) -> i32 {
    let spec = set.spec.as_ref();
    spec.and_then(|spec| spec.min_ready_seconds)
        .unwrap_or_default()
}

/// Compares the number of pods with the desired one. `related` returns the pods of the same
/// workload; it is only called if pods have to be deleted.
pub(super) fn step(
    set: &ReplicaSet,
    active: Vec<Arc<Pod>>,
    related: impl FnOnce() -> Vec<Arc<Pod>>,
    now: Timestamp,
) -> ReplicaSetStep {
    let replicas = set.spec.as_ref().and_then(|spec| spec.replicas);
    let desired = usize::try_from(replicas.unwrap_or(1)).unwrap_or_default();
    let missing = desired.saturating_sub(active.len());
    let surplus = active.len().saturating_sub(desired);
    if missing > 0 {
        ReplicaSetStep::Create(missing.min(BURST))
    } else if surplus > 0 {
        ReplicaSetStep::Delete(first_to_go(active, &related(), surplus.min(BURST), now))
    } else {
        ReplicaSetStep::Nothing
    }
}

/// The status of a set with these pods.
pub(super) fn status(
    set: &ReplicaSet,
    active: &[Arc<Pod>],
    terminating: usize,
    failure: Option<&Failure>,
    now: Timestamp,
) -> ReplicaSetStatus {
    let template = set.spec.as_ref().and_then(|spec| spec.template.as_ref());
    let labels = template
        .and_then(|template| template.metadata.as_ref())
        .and_then(|meta| meta.labels.as_ref());
    let min_ready = min_ready_seconds(set);
    let count = |counts: &dyn Fn(&Pod) -> bool| {
        let counted: Vec<_> = active.iter().filter(|pod| counts(pod)).collect();
        unless_zero(number_of(&counted))
    };
    ReplicaSetStatus {
        replicas: number_of(active),
        fully_labeled_replicas: count(&|pod| matches_all(labels, &pod.metadata)),
        ready_replicas: count(&is_ready),
        available_replicas: count(&|pod| is_available(pod, min_ready, now)),
        terminating_replicas: Some(i32::try_from(terminating).unwrap_or(i32::MAX)),
        observed_generation: set.metadata.generation,
        conditions: conditions(set, failure, now),
    }
}

/// The failure condition is set once, and removed when the failure ends.
fn conditions(
    set: &ReplicaSet,
    failure: Option<&Failure>,
    now: Timestamp,
) -> Option<Vec<ReplicaSetCondition>> {
    let status = set.status.as_ref();
    let mut conditions = status
        .and_then(|status| status.conditions.clone())
        .unwrap_or_default();
    let known = conditions
        .iter()
        .any(|condition| condition.type_ == REPLICA_FAILURE);
    match failure {
        None => conditions.retain(|condition| condition.type_ != REPLICA_FAILURE),
        Some(failure) if !known => conditions.push(ReplicaSetCondition {
            type_: REPLICA_FAILURE.to_owned(),
            status: "True".to_owned(),
            reason: Some(failure.reason.to_owned()),
            message: Some(failure.message.clone()),
            last_transition_time: Some(Time(now)),
        }),
        Some(_) => {}
    }
    (!conditions.is_empty()).then_some(conditions)
}
