//! The status of a Job: conditions, and the tracking of terminated pods.

use std::collections::HashSet;

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{JobCondition, JobStatus, UncountedTerminatedPods};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// A time truncated to seconds, as in the API.
pub(super) fn time(now: Timestamp) -> Time {
    // Times of the API have whole seconds; a finer one would differ from the status that is read
    // back.
    Time(Timestamp::from_second(now.as_second()).unwrap_or(now))
}

/// A status with all optional fields filled in.
pub(super) fn complete(status: Option<&JobStatus>) -> JobStatus {
    let mut status = status.cloned().unwrap_or_default();
    // Empty and absent are the same to Go. In one form the old and the new status can be compared,
    // and an unchanged one is not written.
    let uncounted = status.uncounted_terminated_pods.get_or_insert_default();
    for list in [&mut uncounted.succeeded, &mut uncounted.failed] {
        list.take_if(|uids| uids.is_empty());
    }
    for count in [
        &mut status.active,
        &mut status.succeeded,
        &mut status.failed,
    ] {
        count.take_if(|count| *count == 0);
    }
    status.completed_indexes.take_if(|list| list.is_empty());
    status.conditions.take_if(|list| list.is_empty());
    status
}

/// The UIDs of recorded pods: succeeded, and failed.
pub(super) fn uncounted(status: &JobStatus) -> (HashSet<String>, HashSet<String>) {
    let set = |list: Option<&Vec<String>>| list.into_iter().flatten().cloned().collect();
    let named = status.uncounted_terminated_pods.as_ref();
    (
        set(named.and_then(|named| named.succeeded.as_ref())),
        set(named.and_then(|named| named.failed.as_ref())),
    )
}

/// Records a terminated pod, so that its finalizer may be removed: it is counted after that.
pub(super) fn name_ended(status: &mut JobStatus, uid: &str, succeeded: bool) {
    let named = status.uncounted_terminated_pods.get_or_insert_default();
    let list = if succeeded {
        &mut named.succeeded
    } else {
        &mut named.failed
    };
    list.get_or_insert_default().push(uid.to_owned());
}

/// Counts the recorded pods without finalizer: they cannot be recorded again.
pub(super) fn count_released(status: &mut JobStatus, tracked: &HashSet<String>) {
    let Some(UncountedTerminatedPods { succeeded, failed }) = &mut status.uncounted_terminated_pods
    else {
        return;
    };
    for (list, count) in [
        (succeeded, &mut status.succeeded),
        (failed, &mut status.failed),
    ] {
        let Some(uids) = list else { continue };
        let before = uids.len();
        uids.retain(|uid| tracked.contains(uid));
        let released = i32::try_from(before - uids.len()).unwrap_or(i32::MAX);
        if released > 0 {
            *count = Some(count.unwrap_or(0).saturating_add(released));
        }
        list.take_if(|uids| uids.is_empty());
    }
}

/// Number of recorded pods that are not counted yet.
pub(super) fn named(status: &JobStatus) -> usize {
    let lists = status.uncounted_terminated_pods.iter();
    lists
        .flat_map(|named| [&named.succeeded, &named.failed])
        .flatten()
        .map(Vec::len)
        .sum()
}

/// A condition with status `True`.
pub(super) fn find_true<'a>(status: &'a JobStatus, type_: &str) -> Option<&'a JobCondition> {
    let mut conditions = status.conditions.iter().flatten();
    conditions.find(|condition| condition.type_ == type_ && condition.status == "True")
}

/// The final condition of a Job, if it has one.
pub(in super::super) fn end(status: Option<&JobStatus>) -> Option<&JobCondition> {
    let status = status?;
    find_true(status, "Complete").or_else(|| find_true(status, "Failed"))
}

/// Whether a Job is finished.
pub(in super::super) fn is_finished(status: Option<&JobStatus>) -> bool {
    end(status).is_some()
}

/// Sets a condition; returns whether it changed. A condition that was never true is not added as
/// false.
pub(super) fn set_condition(
    status: &mut JobStatus,
    (type_, holds): (&str, bool),
    (reason, message): (&str, &str),
    now: Timestamp,
) -> bool {
    let value = if holds { "True" } else { "False" };
    let fresh = JobCondition {
        type_: type_.to_owned(),
        status: value.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_probe_time: Some(time(now)),
        last_transition_time: Some(time(now)),
    };
    let conditions = status.conditions.get_or_insert_default();
    let known = conditions
        .iter_mut()
        .find(|condition| condition.type_ == type_);
    let changed = known.as_ref().map_or(holds, |known| {
        known.status != fresh.status
            || known.reason != fresh.reason
            || known.message != fresh.message
    });
    match known {
        _ if !changed => {}
        Some(known) => *known = fresh,
        None => conditions.push(fresh),
    }
    status.conditions.take_if(|list| list.is_empty());
    changed
}
