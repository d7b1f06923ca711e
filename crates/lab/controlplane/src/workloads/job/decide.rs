//! Decisions and status of a Job.
//!
//! A reconcile has these steps, and may be interrupted after any of them: pods are created or
//! deleted; the status records terminated pods; their finalizers are removed; the status counts
//! them and completes the Job. The next reconcile resumes: a pod with its finalizer is not counted,
//! and a recorded one is not recorded again.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::batch::v1::JobStatus;
use k8s_openapi::api::core::v1::Pod;

use super::super::pods::{BURST, first_to_go, is_ready, is_terminating};
use super::backoff;
use super::indexes::Indexes;
use super::inputs::{JobInputs, JobVerdict, many, phase};
use super::pod::{self, Wanted};
use super::policy::{Failure, judge};
use super::status;
use crate::object::{NewEvent, uid};

/// Maximum number of recorded pods in a status.
// `MaxUncountedPods` in `pkg/controller/job/job_controller.go`: the list is part of the status,
// which has to stay below the size of an object.
const MOST_NAMED: usize = 500;

/// Action on pods.
#[derive(Debug, PartialEq)]
pub(super) enum PodAction {
    /// None.
    Nothing,
    /// The Job is being deleted and must not touch pods.
    Leave,
    /// Create these.
    Create(Vec<Wanted>),
    /// Delete these. Their finalizers are removed first, so they are not counted.
    Drop(Vec<Arc<Pod>>),
    /// Delete these: the Job is finished.
    End(Vec<Arc<Pod>>),
}

/// The action, and the delay before the next one.
#[derive(Debug, PartialEq)]
pub(super) struct Plan {
    pub(super) act: PodAction,
    pub(super) wait: Option<Duration>,
}

impl Plan {
    fn at_once(act: PodAction) -> Self {
        Self { act, wait: None }
    }
}

/// Outcome of the action.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// UIDs of deleted pods.
    pub(super) removed: HashSet<String>,
    /// Number of created pods.
    pub(super) created: i32,
}

/// Status changes to write.
#[derive(Debug)]
pub(super) struct Report {
    /// The status to write before finalizers are removed.
    pub(super) status: JobStatus,
    /// Pods whose finalizers are removed.
    pub(super) release: Vec<Arc<Pod>>,
    /// How the Job ends, once all pods are counted.
    pub(super) verdict: Option<JobVerdict>,
    /// Whether there are more pods to release in a later reconcile.
    pub(super) more: bool,
    pub(super) new_event: Option<NewEvent>,
}

/// Decides the action on pods.
pub(super) fn plan(inputs: &JobInputs<'_>) -> Plan {
    let deadline = inputs.until_deadline().filter(|_| inputs.verdict.is_none());
    if inputs.verdict.is_some() {
        return Plan::at_once(PodAction::End(inputs.active.clone()));
    }
    if inputs.job.metadata.deletion_timestamp.is_some() {
        return Plan::at_once(PodAction::Leave);
    }
    let Plan { act, wait } = manage(inputs);
    Plan {
        act,
        wait: wait.into_iter().chain(deadline).min(),
    }
}

fn manage(inputs: &JobInputs<'_>) -> Plan {
    let active = many(inputs.active.iter());
    if inputs.is_suspended() {
        return Plan::at_once(match active {
            0 => PodAction::Nothing,
            _ => PodAction::Drop(inputs.active.clone()),
        });
    }
    let parallelism = inputs.spec.parallelism.unwrap_or(1);
    let wanted = match inputs.spec.completions {
        // After the first success running pods may finish, but none is added.
        None if inputs.succeeded > 0 => active,
        None => parallelism,
        Some(completions) => (completions - inputs.succeeded).clamp(0, parallelism.max(0)),
    };
    let mut surplus = surplus(inputs, usize::try_from(active - wanted).unwrap_or(0));
    surplus.truncate(BURST);
    // One kind of action per reconcile: pods created and deleted at once could be of the same
    // index.
    if !surplus.is_empty() {
        return Plan::at_once(PodAction::Drop(surplus));
    }
    let leaving = if inputs.replaces_only_failed() {
        inputs.terminating
    } else {
        0
    };
    let missing = usize::try_from(wanted - leaving - active).unwrap_or(0);
    if missing == 0 {
        return Plan::at_once(PodAction::Nothing);
    }
    let own_limits = inputs.failed.is_some();
    let wait = inputs.backoff.remaining(inputs.now);
    if !own_limits && !wait.is_zero() {
        return Plan {
            act: PodAction::Nothing,
            wait: Some(wait),
        };
    }
    create(inputs, missing.min(BURST))
}

fn create(inputs: &JobInputs<'_>, missing: usize) -> Plan {
    let Some(completions) = inputs.indexed() else {
        return Plan::at_once(PodAction::Create(vec![Wanted::default(); missing]));
    };
    let pending = pending(inputs, completions, missing);
    if inputs.failed.is_none() {
        let wanted = pending.into_iter().map(|index| Wanted {
            index: Some(index),
            failures: None,
        });
        return Plan::at_once(PodAction::Create(wanted.collect()));
    }
    let mut waits = Vec::new();
    let mut wanted = Vec::new();
    for index in pending {
        let failed = inputs.carriers.get(&index).map(|pod| &**pod);
        let wait = failed.map_or(Duration::ZERO, |failed| {
            let failures = pod::all_failures_before(failed).saturating_add(1);
            backoff::remaining(failures, backoff::ended_at(failed), inputs.now)
        });
        if wait.is_zero() {
            wanted.push(Wanted::instead(inputs.job, index, failed));
        } else {
            waits.push(wait);
        }
    }
    Plan {
        act: match wanted.len() {
            0 => PodAction::Nothing,
            _ => PodAction::Create(wanted),
        },
        wait: waits.into_iter().min(),
    }
}

/// The first indexes without a pod.
fn pending(inputs: &JobInputs<'_>, completions: i32, count: usize) -> Vec<i32> {
    let waited_for = |pod: &&Arc<Pod>| inputs.replaces_only_failed() && is_terminating(pod);
    let active = inputs.active.iter();
    let taken: Indexes = active
        .chain(inputs.pods.iter().filter(waited_for))
        .filter_map(|pod| pod::index(pod))
        .collect();
    let mut settled = inputs.completed.union(&taken);
    if let Some(failed) = &inputs.failed {
        settled = settled.union(failed);
    }
    settled.first_missing(completions, count)
}

/// The pods to delete: at least this many, and all with a duplicate or invalid index.
fn surplus(inputs: &JobInputs<'_>, at_least: usize) -> Vec<Arc<Pod>> {
    let (mut gone, mut left) = (Vec::new(), Vec::new());
    if inputs.indexed().is_some() {
        let mut by_index: BTreeMap<i32, Vec<Arc<Pod>>> = BTreeMap::new();
        for pod in &inputs.active {
            match inputs.valid_index(pod) {
                Some(index) => by_index.entry(index).or_default().push(Arc::clone(pod)),
                None => gone.push(Arc::clone(pod)),
            }
        }
        for pods in by_index.into_values() {
            let doubled = first_to_go(pods.clone(), &[], pods.len() - 1, inputs.now);
            left.extend(pods.into_iter().filter(|pod| !doubled.contains(pod)));
            gone.extend(doubled);
        }
    } else {
        left.clone_from(&inputs.active);
    }
    let more = at_least.saturating_sub(gone.len());
    if more > 0 {
        gone.extend(first_to_go(left, &[], more, inputs.now));
    }
    gone
}

/// The status changes after pods were created or deleted.
pub(super) fn report(inputs: &JobInputs<'_>, plan: &Plan, outcome: &Outcome) -> Report {
    let mut status = inputs.status.clone();
    let removed: Vec<_> = inputs
        .active
        .iter()
        .filter(|pod| outcome.removed.contains(uid(&pod.metadata)))
        .collect();
    let active = many(inputs.active.iter()) - many(removed.iter()) + outcome.created;
    status.active = Some(active).filter(|active| *active != 0);
    status.ready = Some(inputs.ready - many(removed.iter().filter(|pod| is_ready(pod))));
    status.terminating = Some(inputs.terminating + many(removed.iter()));

    let mut new_event = None;
    let verdict = match &plan.act {
        // A Job is not finished while pods run that could not be deleted.
        PodAction::End(_) => inputs.verdict.clone().filter(|_| active == 0),
        act => {
            let done = match inputs.spec.completions {
                None => inputs.succeeded > 0,
                Some(completions) => inputs.succeeded >= completions,
            };
            if done && active == 0 {
                Some(JobVerdict::completed())
            } else {
                if *act != PodAction::Leave {
                    new_event = suspend(inputs, &mut status);
                }
                None
            }
        }
    };
    let (release, more) = name_ended(inputs, &mut status, verdict.as_ref());
    if inputs.indexed().is_some() {
        status.succeeded = Some(inputs.completed.len()).filter(|count| *count != 0);
        let completed = inputs.completed.to_string();
        status.completed_indexes = Some(completed).filter(|list| !list.is_empty());
        status.failed_indexes = inputs.failed.as_ref().map(Indexes::to_string);
    }
    if let Some(verdict) = &verdict {
        let type_ = if verdict.success {
            "SuccessCriteriaMet"
        } else {
            "FailureTarget"
        };
        if status::find_true(&status, type_).is_none() {
            let why = (verdict.reason.as_str(), verdict.message.as_str());
            status::set_condition(&mut status, (type_, true), why, inputs.now);
        }
    }
    Report {
        status,
        release,
        verdict,
        more,
        new_event,
    }
}

/// Sets the `Suspended` condition; returns an event if it changed.
fn suspend(inputs: &JobInputs<'_>, status: &mut JobStatus) -> Option<NewEvent> {
    let holds = inputs.is_suspended();
    let (reason, event, message) = if holds {
        ("JobSuspended", "Suspended", "Job suspended")
    } else {
        ("JobResumed", "Resumed", "Job resumed")
    };
    if !status::set_condition(status, ("Suspended", holds), (reason, message), inputs.now) {
        return None;
    }
    status.start_time = (!holds).then(|| status::time(inputs.now));
    Some(NewEvent::normal(event, message))
}

/// Records terminated pods, and those that end with the Job; returns the pods to release, and
/// whether there are more than can be recorded at once.
fn name_ended(
    inputs: &JobInputs<'_>,
    status: &mut JobStatus,
    verdict: Option<&JobVerdict>,
) -> (Vec<Arc<Pod>>, bool) {
    status::count_released(status, &tracked(inputs));
    let (succeeded, failed) = status::uncounted(status);
    let over = verdict.is_some() || inputs.job.metadata.deletion_timestamp.is_some();
    let lost = verdict.is_some_and(|verdict| !verdict.success);
    let mut release = Vec::new();
    let mut pods: Vec<_> = inputs.tracked().collect();
    if inputs.indexed().is_some() {
        pods.sort_by_key(|pod| pod::index(pod).unwrap_or(-1));
    }
    for pod in pods {
        let has_failed = inputs.has_failed(pod);
        let has_succeeded = phase(pod) == "Succeeded";
        let uid = uid(&pod.metadata);
        let carries = pod::index(pod)
            .and_then(|index| inputs.carriers.get(&index))
            .is_some_and(|carrier| carrier.metadata.uid == pod.metadata.uid);
        if !(over || has_succeeded || has_failed && !carries) {
            continue;
        }
        release.push(Arc::clone(pod));
        if has_succeeded && !failed.contains(uid) {
            // With indexes, the index is counted and not the pod.
            if inputs.indexed().is_none() && !succeeded.contains(uid) {
                status::name_ended(status, uid, true);
            }
        } else if (has_failed || lost)
            && !failed.contains(uid)
            && (inputs.indexed().is_none() || inputs.valid_index(pod).is_some())
            && judge(inputs.spec.pod_failure_policy.as_ref(), pod) != Failure::Ignored
        {
            status::name_ended(status, uid, false);
        }
        if status::named(status) >= MOST_NAMED {
            return (release, true);
        }
    }
    (release, false)
}

/// UIDs of pods that wait to be counted.
pub(super) fn tracked(inputs: &JobInputs<'_>) -> HashSet<String> {
    inputs
        .tracked()
        .filter_map(|pod| pod.metadata.uid.clone())
        .collect()
}

/// Sets the final condition, unless pods have still to be counted or to terminate; returns whether
/// it did.
pub(super) fn finish(inputs: &JobInputs<'_>, status: &mut JobStatus, verdict: &JobVerdict) -> bool {
    if status::named(status) > 0 || status.terminating.is_some_and(|many| many > 0) {
        return false;
    }
    let type_ = if verdict.success {
        "Complete"
    } else {
        "Failed"
    };
    let why = (verdict.reason.as_str(), verdict.message.as_str());
    status::set_condition(status, (type_, true), why, inputs.now);
    if verdict.success {
        status.completion_time = Some(status::time(inputs.now));
    }
    true
}
