//! What a Job does next, and what it then reports.
//!
//! A round has these parts, and may end after any of them: pods are made or taken away; the status
//! names the pods that have ended; they are let go; the status counts them, and says that the Job is
//! over. Whatever a round leaves undone, the next one finds: a pod that is not let go is not counted,
//! and one that is named is not named again.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::batch::v1::JobStatus;
use k8s_openapi::api::core::v1::Pod;

use super::super::pods::{BURST, first_to_go, is_ready, is_terminating};
use super::backoff;
use super::facts::{Facts, Verdict, many, phase};
use super::indexes::Indexes;
use super::pod::{self, Wanted};
use super::policy::{Failure, judge};
use super::status;

/// The most pods named in a status.
const MOST_NAMED: usize = 500;

/// What to do about pods.
#[derive(Debug, PartialEq)]
pub(super) enum Act {
    /// Nothing.
    Nothing,
    /// The Job may do nothing about pods: it is to go.
    Leave,
    /// Make these.
    Create(Vec<Wanted>),
    /// Take these away. They are let go first, and so count for nothing.
    Drop(Vec<Arc<Pod>>),
    /// Take these away: the Job is over.
    End(Vec<Arc<Pod>>),
}

/// What to do, and how long to wait before doing more.
#[derive(Debug, PartialEq)]
pub(super) struct Plan {
    pub(super) act: Act,
    pub(super) wait: Option<Duration>,
}

/// What came of it.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// The uids of the pods that were taken away.
    pub(super) removed: HashSet<String>,
    /// How many pods were made.
    pub(super) created: i32,
}

/// Something to say about the Job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) reason: &'static str,
    pub(super) message: &'static str,
}

/// What to report.
#[derive(Debug)]
pub(super) struct Report {
    /// What to write before pods are let go.
    pub(super) status: JobStatus,
    /// Pods to let go.
    pub(super) release: Vec<Arc<Pod>>,
    /// How the Job ends, as soon as nothing is left to be counted.
    pub(super) verdict: Option<Verdict>,
    /// Whether there are more pods to let go, in a later round.
    pub(super) more: bool,
    pub(super) said: Option<Said>,
}

/// Decides what to do about pods.
pub(super) fn plan(facts: &Facts<'_>) -> Plan {
    let deadline = facts.until_deadline().filter(|_| facts.verdict.is_none());
    if facts.verdict.is_some() {
        return Plan {
            act: Act::End(facts.active.clone()),
            wait: None,
        };
    }
    if facts.job.metadata.deletion_timestamp.is_some() {
        return Plan {
            act: Act::Leave,
            wait: None,
        };
    }
    let Plan { act, wait } = manage(facts);
    Plan {
        act,
        wait: wait.into_iter().chain(deadline).min(),
    }
}

fn manage(facts: &Facts<'_>) -> Plan {
    let at_once = |act| Plan { act, wait: None };
    let active = many(facts.active.iter());
    if facts.is_suspended() {
        return at_once(match active {
            0 => Act::Nothing,
            _ => Act::Drop(facts.active.clone()),
        });
    }
    let parallelism = facts.spec.parallelism.unwrap_or(1);
    let wanted = match facts.spec.completions {
        // The first success is the end of it: those that run may go on, none is added.
        None if facts.succeeded > 0 => active,
        None => parallelism,
        Some(completions) => (completions - facts.succeeded).clamp(0, parallelism.max(0)),
    };
    let mut surplus = surplus(facts, usize::try_from(active - wanted).unwrap_or(0));
    surplus.truncate(BURST);
    if !surplus.is_empty() {
        return at_once(Act::Drop(surplus));
    }
    let leaving = if facts.replaces_only_failed() {
        facts.terminating
    } else {
        0
    };
    let missing = usize::try_from(wanted - leaving - active).unwrap_or(0);
    if missing == 0 {
        return at_once(Act::Nothing);
    }
    let own_limits = facts.failed.is_some();
    let wait = facts.backoff.remaining(facts.now);
    if !own_limits && !wait.is_zero() {
        return Plan {
            act: Act::Nothing,
            wait: Some(wait),
        };
    }
    create(facts, missing.min(BURST))
}

fn create(facts: &Facts<'_>, missing: usize) -> Plan {
    let Some(completions) = facts.indexed() else {
        return Plan {
            act: Act::Create(vec![Wanted::default(); missing]),
            wait: None,
        };
    };
    let pending = pending(facts, completions, missing);
    if facts.failed.is_none() {
        let wanted = pending.into_iter().map(|index| Wanted {
            index: Some(index),
            failures: None,
        });
        return Plan {
            act: Act::Create(wanted.collect()),
            wait: None,
        };
    }
    let mut waits = Vec::new();
    let mut wanted = Vec::new();
    for index in pending {
        let failed = facts.carriers.get(&index).map(|pod| &**pod);
        let wait = failed.map_or(Duration::ZERO, |failed| {
            let failures = pod::all_failures_before(failed).saturating_add(1);
            backoff::remaining(failures, backoff::ended_at(failed), facts.now)
        });
        if wait.is_zero() {
            wanted.push(Wanted::instead(facts.job, index, failed));
        } else {
            waits.push(wait);
        }
    }
    Plan {
        act: match wanted.len() {
            0 => Act::Nothing,
            _ => Act::Create(wanted),
        },
        wait: waits.into_iter().min(),
    }
}

/// The first indexes that nothing runs for.
fn pending(facts: &Facts<'_>, completions: i32, count: usize) -> Vec<i32> {
    let waited_for = |pod: &&Arc<Pod>| facts.replaces_only_failed() && is_terminating(pod);
    let active = facts.active.iter();
    let taken: Indexes = active
        .chain(facts.pods.iter().filter(waited_for))
        .filter_map(|pod| pod::index(pod))
        .collect();
    let mut settled = facts.completed.union(&taken);
    if let Some(failed) = &facts.failed {
        settled = settled.union(failed);
    }
    settled.first_missing(completions, count)
}

/// The pods to take away: at least so many, and all that share an index or have none of the Job's.
fn surplus(facts: &Facts<'_>, at_least: usize) -> Vec<Arc<Pod>> {
    let (mut gone, mut left) = (Vec::new(), Vec::new());
    if facts.indexed().is_some() {
        let mut by_index: BTreeMap<i32, Vec<Arc<Pod>>> = BTreeMap::new();
        for pod in &facts.active {
            match facts.valid_index(pod) {
                Some(index) => by_index.entry(index).or_default().push(Arc::clone(pod)),
                None => gone.push(Arc::clone(pod)),
            }
        }
        for pods in by_index.into_values() {
            let doubled = first_to_go(pods.clone(), &[], pods.len() - 1, facts.now);
            left.extend(pods.into_iter().filter(|pod| !doubled.contains(pod)));
            gone.extend(doubled);
        }
    } else {
        left.clone_from(&facts.active);
    }
    let more = at_least.saturating_sub(gone.len());
    if more > 0 {
        gone.extend(first_to_go(left, &[], more, facts.now));
    }
    gone
}

/// What to report after pods have been made or taken away.
pub(super) fn report(facts: &Facts<'_>, plan: &Plan, outcome: &Outcome) -> Report {
    let mut status = facts.status.clone();
    let removed: Vec<_> = facts
        .active
        .iter()
        .filter(|pod| {
            outcome
                .removed
                .contains(pod.metadata.uid.as_deref().unwrap_or_default())
        })
        .collect();
    let active = many(facts.active.iter()) - many(removed.iter()) + outcome.created;
    status.active = Some(active).filter(|active| *active != 0);
    status.ready = Some(facts.ready - many(removed.iter().filter(|pod| is_ready(pod))));
    status.terminating = Some(facts.terminating + many(removed.iter()));

    let mut said = None;
    let verdict = match &plan.act {
        // A Job is not over while something runs that could not be taken away.
        Act::End(_) => facts.verdict.clone().filter(|_| active == 0),
        act => {
            let done = match facts.spec.completions {
                None => facts.succeeded > 0,
                Some(completions) => facts.succeeded >= completions,
            };
            if done && active == 0 {
                Some(Verdict::completed())
            } else {
                if *act != Act::Leave {
                    said = suspend(facts, &mut status);
                }
                None
            }
        }
    };
    let (release, more) = name_ended(facts, &mut status, verdict.as_ref());
    if facts.indexed().is_some() {
        status.succeeded = Some(facts.completed.len()).filter(|count| *count != 0);
        let completed = facts.completed.to_string();
        status.completed_indexes = Some(completed).filter(|list| !list.is_empty());
        status.failed_indexes = facts.failed.as_ref().map(Indexes::to_string);
    }
    if let Some(verdict) = &verdict {
        let type_ = if verdict.success {
            "SuccessCriteriaMet"
        } else {
            "FailureTarget"
        };
        if status::find_true(&status, type_).is_none() {
            let why = (verdict.reason.as_str(), verdict.message.as_str());
            status::set_condition(&mut status, (type_, true), why, facts.now);
        }
    }
    Report {
        status,
        release,
        verdict,
        more,
        said,
    }
}

/// Says whether the Job is suspended, if that is news.
fn suspend(facts: &Facts<'_>, status: &mut JobStatus) -> Option<Said> {
    let (holds, why, said) = if facts.is_suspended() {
        let said = Said {
            reason: "Suspended",
            message: "Job suspended",
        };
        (true, ("JobSuspended", "Job suspended"), said)
    } else {
        let said = Said {
            reason: "Resumed",
            message: "Job resumed",
        };
        (false, ("JobResumed", "Job resumed"), said)
    };
    if !status::set_condition(status, ("Suspended", holds), why, facts.now) {
        return None;
    }
    status.start_time = (!holds).then(|| status::time(facts.now));
    Some(said)
}

/// Names the pods that have ended, and those that end with the Job; which may be let go, and whether
/// there are more than can be named at once.
fn name_ended(
    facts: &Facts<'_>,
    status: &mut JobStatus,
    verdict: Option<&Verdict>,
) -> (Vec<Arc<Pod>>, bool) {
    status::count_released(status, &tracked(facts));
    let (succeeded, failed) = status::uncounted(status);
    let over = verdict.is_some() || facts.job.metadata.deletion_timestamp.is_some();
    let lost = verdict.is_some_and(|verdict| !verdict.success);
    let mut release = Vec::new();
    let mut pods: Vec<_> = facts.tracked().collect();
    if facts.indexed().is_some() {
        pods.sort_by_key(|pod| pod::index(pod).unwrap_or(-1));
    }
    for pod in pods {
        let has_failed = facts.has_failed(pod);
        let has_succeeded = phase(pod) == "Succeeded";
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        let carries = pod::index(pod)
            .and_then(|index| facts.carriers.get(&index))
            .is_some_and(|carrier| carrier.metadata.uid == pod.metadata.uid);
        if !(over || has_succeeded || has_failed && !carries) {
            continue;
        }
        release.push(Arc::clone(pod));
        if has_succeeded && !failed.contains(uid) {
            // Of a Job with indexes, the index is counted and not the pod.
            if facts.indexed().is_none() && !succeeded.contains(uid) {
                status::name_ended(status, uid, true);
            }
        } else if (has_failed || lost)
            && !failed.contains(uid)
            && (facts.indexed().is_none() || facts.valid_index(pod).is_some())
            && judge(facts.spec.pod_failure_policy.as_ref(), pod) != Failure::Ignored
        {
            status::name_ended(status, uid, false);
        }
        if status::named(status) >= MOST_NAMED {
            return (release, true);
        }
    }
    (release, false)
}

/// The uids of the pods that wait to be counted.
pub(super) fn tracked(facts: &Facts<'_>) -> HashSet<String> {
    facts
        .tracked()
        .filter_map(|pod| pod.metadata.uid.clone())
        .collect()
}

/// Says that the Job is over, unless something has still to be counted or to end; whether it did.
pub(super) fn finish(facts: &Facts<'_>, status: &mut JobStatus, verdict: &Verdict) -> bool {
    if status::named(status) > 0 || status.terminating.is_some_and(|many| many > 0) {
        return false;
    }
    let type_ = if verdict.success {
        "Complete"
    } else {
        "Failed"
    };
    let why = (verdict.reason.as_str(), verdict.message.as_str());
    status::set_condition(status, (type_, true), why, facts.now);
    if verdict.success {
        status.completion_time = Some(status::time(facts.now));
    }
    true
}
