//! The next step of a CronJob.

use std::sync::Arc;
use std::time::Duration;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::{CronJob, CronJobSpec, CronJobStatus, Job};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use machinery::cron::Schedule;

use super::super::job::{end, is_finished};
use super::times::{Clock, Due};
use crate::object::{NewEvent, controller_reference, name};

const SCHEDULED_AT: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";

/// Inputs of the decision.
pub(super) struct CronJobInputs<'a> {
    pub(super) cron: &'a CronJob,
    /// The Jobs controlled by the CronJob.
    pub(super) jobs: &'a [Arc<Job>],
    /// Whether a Job of that name exists, with any controller.
    pub(super) exists: &'a dyn Fn(&str) -> bool,
    pub(super) now: Timestamp,
}

/// The decision.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Decision {
    /// Jobs to delete: those beyond the history limits.
    pub(super) forget: Vec<Arc<Job>>,
    /// The status before a Job is started.
    pub(super) status: CronJobStatus,
    pub(super) new_events: Vec<NewEvent>,
    pub(super) start: Option<Start>,
    /// When to reconcile again, unless an object changes.
    pub(super) wait: Option<Duration>,
}

/// A Job to start.
#[derive(Debug, PartialEq)]
pub(super) struct Start {
    pub(super) at: Timestamp,
    pub(super) job: Box<Job>,
    /// Jobs to delete first.
    pub(super) replaces: Vec<ObjectReference>,
}

/// Decides the next step of a CronJob.
pub(super) fn decide(inputs: &CronJobInputs<'_>) -> Decision {
    let mut decision = Decision {
        forget: surplus(inputs),
        status: inputs.cron.status.clone().unwrap_or_default(),
        ..Decision::default()
    };
    watch_jobs(inputs, &mut decision);
    if inputs.cron.metadata.deletion_timestamp.is_none() {
        start_due(inputs, &mut decision);
    }
    let status = &mut decision.status;
    status.active.take_if(|active| active.is_empty());
    decision
}

/// Finished Jobs beyond the limits, oldest first.
fn surplus(inputs: &CronJobInputs<'_>) -> Vec<Arc<Job>> {
    let beyond = |type_: &str, limit: Option<i32>| {
        let Some(limit) = limit.and_then(|limit| usize::try_from(limit).ok()) else {
            return Vec::new();
        };
        let ended_so = |job: &&Arc<Job>| {
            end(job.status.as_ref()).is_some_and(|condition| condition.type_ == type_)
        };
        let mut jobs: Vec<_> = inputs.jobs.iter().filter(ended_so).cloned().collect();
        jobs.sort_by_key(|job| {
            let status = job.status.as_ref();
            let started = status.and_then(|it| it.start_time.as_ref().map(|time| time.0));
            // Jobs that never started come last.
            (started.is_none(), started, job.metadata.name.clone())
        });
        jobs.truncate(jobs.len().saturating_sub(limit));
        jobs
    };
    let spec = &inputs.cron.spec;
    let mut surplus = beyond("Complete", spec.successful_jobs_history_limit);
    surplus.extend(beyond("Failed", spec.failed_jobs_history_limit));
    surplus
}

/// Records active, finished and missing Jobs.
fn watch_jobs(inputs: &CronJobInputs<'_>, decision: &mut Decision) {
    let Decision {
        status, new_events, ..
    } = decision;
    let active = status.active.get_or_insert_default();
    for job in inputs.jobs {
        let name = name(&job.metadata);
        let listed = active
            .iter()
            .position(|active| active.uid == job.metadata.uid);
        let Some(condition) = end(job.status.as_ref()) else {
            if listed.is_none() {
                new_events.push(NewEvent::warning(
                    "UnexpectedJob",
                    format!("Saw a job that the controller did not create or forgot: {name}"),
                ));
            }
            continue;
        };
        if let Some(listed) = listed {
            active.remove(listed);
            new_events.push(NewEvent::normal(
                "SawCompletedJob",
                format!("Saw completed job: {name}, condition: {}", condition.type_),
            ));
        }
        let completed = job
            .status
            .as_ref()
            .and_then(|it| it.completion_time.clone());
        let before = status.last_successful_time.as_ref().map(|time| time.0);
        if condition.type_ == "Complete" && completed.as_ref().map(|time| time.0) > before {
            status.last_successful_time = completed;
        }
    }
    active.retain(|reference| {
        let name = reference.name.as_deref().unwrap_or_default();
        let ours = |job: &Arc<Job>| job.metadata.uid == reference.uid;
        let there = inputs.jobs.iter().any(ours) || (inputs.exists)(name);
        if !there {
            new_events.push(NewEvent::normal(
                "MissingJob",
                format!("Active job went missing: {name}"),
            ));
        }
        there
    });
}

/// Starts the Job that is due, as the policies allow.
fn start_due(inputs: &CronJobInputs<'_>, decision: &mut Decision) {
    let spec = &inputs.cron.spec;
    if spec.suspend == Some(true) {
        // An unknown time zone is reported even for a suspended CronJob.
        if let Err(event) = zone(spec, None) {
            decision.new_events.push(event);
        }
        return;
    }
    let clock = match clock(spec) {
        Ok(clock) => clock,
        Err(event) => return decision.new_events.push(event),
    };
    let due = match clock.due(inputs.cron, inputs.now) {
        Ok(due) => due,
        Err(why) => {
            let message = format!("invalid schedule: {} : {why}", spec.schedule);
            return decision
                .new_events
                .push(NewEvent::warning("InvalidSchedule", message));
        }
    };
    decision.wait = clock.wait(inputs.cron, inputs.now);
    if let Some(due) = due {
        start(inputs, decision, &clock, due);
        if decision.start.is_some() {
            // Computed from the Job that is started now.
            let mut started = inputs.cron.clone();
            started.status.get_or_insert_default().last_schedule_time = Some(Time(due.at));
            decision.wait = clock.wait(&started, inputs.now);
        }
    }
}

fn start(inputs: &CronJobInputs<'_>, decision: &mut Decision, clock: &Clock, due: Due) {
    let spec = &inputs.cron.spec;
    let Decision {
        status, new_events, ..
    } = decision;
    if due.missed_many {
        new_events.push(NewEvent::warning(
            "TooManyMissedTimes",
            "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew",
        ));
    }
    let late = inputs.now.duration_since(due.at);
    let deadline = spec
        .starting_deadline_seconds
        .map(SignedDuration::from_secs);
    if deadline.is_some_and(|deadline| late > deadline) {
        let at = due.at.strftime("%a, %d %b %Y %H:%M:%S +0000");
        new_events.push(NewEvent::warning(
            "MissSchedule",
            format!("Missed scheduled time to start a job: {at}"),
        ));
        return;
    }
    let job = render(inputs.cron, clock, due.at);
    let active = status.active.as_deref().unwrap_or_default();
    let known = active.iter().any(|active| active.name == job.metadata.name)
        // The status may be older than the Job: the cache of either can lag behind the other.
        || status.last_schedule_time.as_ref().map(|time| time.0) == Some(due.at);
    if known {
        return;
    }
    let mut replaces = Vec::new();
    match spec.concurrency_policy.as_deref() {
        Some("Forbid") if !active.is_empty() => {
            new_events.push(NewEvent::normal(
                "JobAlreadyActive",
                "Not starting job because prior execution is running and concurrency policy is Forbid",
            ));
            return;
        }
        Some("Replace") => replaces = active.to_vec(),
        _ => {}
    }
    decision.start = Some(Start {
        at: due.at,
        job: Box::new(job),
        replaces,
    });
}

/// The schedule and its time zone, or an event about an error. The default time zone is UTC, as
/// kube-controller-manager usually runs with.
pub(super) fn clock(spec: &CronJobSpec) -> Result<Clock, NewEvent> {
    let schedule = Schedule::parse(&spec.schedule).map_err(|why| {
        let message = format!("unparseable schedule: {:?} : {why}", spec.schedule);
        NewEvent::warning("UnparseableSchedule", message)
    })?;
    let zone = zone(spec, schedule.zone())?;
    Ok(Clock { schedule, zone })
}

fn zone(spec: &CronJobSpec, written: Option<&str>) -> Result<TimeZone, NewEvent> {
    match spec.time_zone.as_deref().or(written) {
        None | Some("") => Ok(TimeZone::UTC),
        Some(name) => TimeZone::get(name).map_err(|_| {
            let message = format!("invalid timeZone: {name:?}: unknown time zone {name}");
            NewEvent::warning("UnknownTimeZone", message)
        }),
    }
}

/// The Job of a scheduled time. Its name contains the minute, so it is never created twice.
fn render(cron: &CronJob, clock: &Clock, at: Timestamp) -> Job {
    let spec = &cron.spec;
    let template = spec.job_template.metadata.as_ref();
    let mut annotations = template
        .and_then(|meta| meta.annotations.clone())
        .unwrap_or_default();
    let zone = match spec.time_zone {
        Some(_) => clock.zone.clone(),
        None => TimeZone::UTC,
    };
    annotations.insert(SCHEDULED_AT.to_owned(), rfc3339(at, zone));
    let minute = at.as_second().div_euclid(60);
    Job {
        metadata: ObjectMeta {
            name: Some(format!("{}-{minute}", name(&cron.metadata))),
            namespace: cron.metadata.namespace.clone(),
            labels: template.and_then(|meta| meta.labels.clone()),
            annotations: Some(annotations),
            owner_references: Some(vec![controller_reference(cron)]),
            ..ObjectMeta::default()
        },
        spec: spec.job_template.spec.clone(),
        status: None,
    }
}

/// A time in Go's RFC 3339 format: `Z` for UTC.
fn rfc3339(at: Timestamp, zone: TimeZone) -> String {
    let zoned = at.to_zoned(zone);
    let time = zoned.strftime("%Y-%m-%dT%H:%M:%S").to_string();
    if zoned.offset().is_zero() {
        format!("{time}Z")
    } else {
        format!("{time}{}", zoned.strftime("%:z"))
    }
}

/// The status after a Job has been started.
pub(super) fn started(mut status: CronJobStatus, job: &Job, start: &Start) -> CronJobStatus {
    let active = status.active.get_or_insert_default();
    active.retain(|active| !start.replaces.contains(active));
    // A Job that finished already is not added to the active ones.
    if !is_finished(job.status.as_ref()) {
        active.push(ObjectReference {
            api_version: Some("batch/v1".to_owned()),
            kind: Some("Job".to_owned()),
            namespace: job.metadata.namespace.clone(),
            name: job.metadata.name.clone(),
            uid: job.metadata.uid.clone(),
            resource_version: job.metadata.resource_version.clone(),
            ..ObjectReference::default()
        });
    }
    status.active.take_if(|active| active.is_empty());
    status.last_schedule_time = Some(Time(start.at));
    status
}
