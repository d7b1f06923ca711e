//! What a CronJob does next.

use std::sync::Arc;
use std::time::Duration;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::{CronJob, CronJobSpec, CronJobStatus, Job};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use machinery::cron::Schedule;

use super::super::job::{end, is_finished};
use super::super::pods::controller_reference;
use super::times::{Clock, Due};

const SCHEDULED_AT: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";

/// Something to say about a CronJob.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) warning: bool,
    pub(super) reason: &'static str,
    pub(super) message: String,
}

fn normal(reason: &'static str, message: impl Into<String>) -> Said {
    Said {
        warning: false,
        reason,
        message: message.into(),
    }
}

fn warning(reason: &'static str, message: impl Into<String>) -> Said {
    Said {
        warning: true,
        reason,
        message: message.into(),
    }
}

/// What there is.
pub(super) struct World<'a> {
    pub(super) cron: &'a CronJob,
    /// The Jobs that the CronJob controls.
    pub(super) jobs: &'a [Arc<Job>],
    /// Whether a Job of that name is there, whoever controls it.
    pub(super) exists: &'a dyn Fn(&str) -> bool,
    pub(super) now: Timestamp,
}

/// What to do.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Decision {
    /// Jobs to delete: those beyond the limits of the history.
    pub(super) forget: Vec<Arc<Job>>,
    /// The status, before anything is started.
    pub(super) status: CronJobStatus,
    pub(super) said: Vec<Said>,
    pub(super) start: Option<Start>,
    /// When to look again, unless something changes.
    pub(super) wait: Option<Duration>,
}

/// A Job to start.
#[derive(Debug, PartialEq)]
pub(super) struct Start {
    pub(super) at: Timestamp,
    pub(super) job: Box<Job>,
    /// Jobs that are to go first.
    pub(super) replaces: Vec<ObjectReference>,
}

/// Decides.
pub(super) fn decide(world: &World<'_>) -> Decision {
    let mut decision = Decision {
        forget: surplus(world),
        status: world.cron.status.clone().unwrap_or_default(),
        ..Decision::default()
    };
    watch_jobs(world, &mut decision);
    if world.cron.metadata.deletion_timestamp.is_none() {
        go_on(world, &mut decision);
    }
    let status = &mut decision.status;
    status.active.take_if(|active| active.is_empty());
    decision
}

/// Finished Jobs beyond the limits, those that started first.
fn surplus(world: &World<'_>) -> Vec<Arc<Job>> {
    let beyond = |type_: &str, limit: Option<i32>| {
        let Some(limit) = limit.and_then(|limit| usize::try_from(limit).ok()) else {
            return Vec::new();
        };
        let ended_so = |job: &&Arc<Job>| {
            end(job.status.as_ref()).is_some_and(|condition| condition.type_ == type_)
        };
        let mut jobs: Vec<_> = world.jobs.iter().filter(ended_so).cloned().collect();
        jobs.sort_by_key(|job| {
            let started = job
                .status
                .as_ref()
                .and_then(|status| status.start_time.as_ref().map(|time| time.0));
            // Those that never started come last.
            (started.is_none(), started, job.metadata.name.clone())
        });
        jobs.truncate(jobs.len().saturating_sub(limit));
        jobs
    };
    let spec = &world.cron.spec;
    let mut surplus = beyond("Complete", spec.successful_jobs_history_limit);
    surplus.extend(beyond("Failed", spec.failed_jobs_history_limit));
    surplus
}

/// Notes which Jobs run, which have ended, and which are gone.
fn watch_jobs(world: &World<'_>, decision: &mut Decision) {
    let Decision { status, said, .. } = decision;
    let active = status.active.get_or_insert_default();
    for job in world.jobs {
        let name = job.metadata.name.as_deref().unwrap_or_default();
        let listed = active
            .iter()
            .position(|active| active.uid == job.metadata.uid);
        let Some(condition) = end(job.status.as_ref()) else {
            if listed.is_none() {
                said.push(warning(
                    "UnexpectedJob",
                    format!("Saw a job that the controller did not create or forgot: {name}"),
                ));
            }
            continue;
        };
        if let Some(listed) = listed {
            active.remove(listed);
            said.push(normal(
                "SawCompletedJob",
                format!("Saw completed job: {name}, condition: {}", condition.type_),
            ));
        }
        let completed = job
            .status
            .as_ref()
            .and_then(|status| status.completion_time.clone());
        let before = status.last_successful_time.as_ref().map(|time| time.0);
        if condition.type_ == "Complete" && completed.as_ref().map(|time| time.0) > before {
            status.last_successful_time = completed;
        }
    }
    active.retain(|reference| {
        let name = reference.name.as_deref().unwrap_or_default();
        let ours = |job: &Arc<Job>| job.metadata.uid == reference.uid;
        let there = world.jobs.iter().any(ours) || (world.exists)(name);
        if !there {
            said.push(normal(
                "MissingJob",
                format!("Active job went missing: {name}"),
            ));
        }
        there
    });
}

/// Starts what is due, as far as the policies let it.
fn go_on(world: &World<'_>, decision: &mut Decision) {
    let spec = &world.cron.spec;
    if spec.suspend == Some(true) {
        // A time zone that nobody knows is told of all the same.
        if let Err(said) = zone(spec, None) {
            decision.said.push(said);
        }
        return;
    }
    let clock = match clock(spec) {
        Ok(clock) => clock,
        Err(said) => return decision.said.push(said),
    };
    let due = match clock.due(world.cron, world.now) {
        Ok(due) => due,
        Err(why) => {
            let message = format!("invalid schedule: {} : {why}", spec.schedule);
            return decision.said.push(warning("InvalidSchedule", message));
        }
    };
    decision.wait = clock.wait(world.cron, world.now);
    if let Some(due) = due {
        start(world, decision, &clock, due);
        if decision.start.is_some() {
            // From what is started now on.
            let mut started = world.cron.clone();
            started.status.get_or_insert_default().last_schedule_time = Some(Time(due.at));
            decision.wait = clock.wait(&started, world.now);
        }
    }
}

fn start(world: &World<'_>, decision: &mut Decision, clock: &Clock, due: Due) {
    let spec = &world.cron.spec;
    let Decision { status, said, .. } = decision;
    if due.missed_many {
        said.push(warning(
            "TooManyMissedTimes",
            "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew",
        ));
    }
    let late = world.now.duration_since(due.at);
    let deadline = spec
        .starting_deadline_seconds
        .map(SignedDuration::from_secs);
    if deadline.is_some_and(|deadline| late > deadline) {
        let at = due.at.strftime("%a, %d %b %Y %H:%M:%S +0000");
        said.push(warning(
            "MissSchedule",
            format!("Missed scheduled time to start a job: {at}"),
        ));
        return;
    }
    let job = render(world.cron, clock, due.at);
    let active = status.active.as_deref().unwrap_or_default();
    let known = active.iter().any(|active| active.name == job.metadata.name)
        || status.last_schedule_time.as_ref().map(|time| time.0) == Some(due.at);
    if known {
        return;
    }
    let mut replaces = Vec::new();
    match spec.concurrency_policy.as_deref() {
        Some("Forbid") if !active.is_empty() => {
            said.push(normal(
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

/// The schedule and its clocks, or why there are none. Without a time zone, clocks show UTC, as where
/// kube-controller-manager usually runs.
pub(super) fn clock(spec: &CronJobSpec) -> Result<Clock, Said> {
    let schedule = Schedule::parse(&spec.schedule).map_err(|why| {
        let message = format!("unparseable schedule: {:?} : {why}", spec.schedule);
        warning("UnparseableSchedule", message)
    })?;
    let zone = zone(spec, schedule.zone())?;
    Ok(Clock { schedule, zone })
}

fn zone(spec: &CronJobSpec, written: Option<&str>) -> Result<TimeZone, Said> {
    match spec.time_zone.as_deref().or(written) {
        None | Some("") => Ok(TimeZone::UTC),
        Some(name) => TimeZone::get(name).map_err(|_| {
            let message = format!("invalid timeZone: {name:?}: unknown time zone {name}");
            warning("UnknownTimeZone", message)
        }),
    }
}

/// The Job of a time. Its name is that of the minute: it is never started twice.
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
    let name = cron.metadata.name.as_deref().unwrap_or_default();
    let minute = at.as_second().div_euclid(60);
    Job {
        metadata: ObjectMeta {
            name: Some(format!("{name}-{minute}")),
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

/// A time as Go writes it: `Z` where there is no difference to UTC.
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
    // One that ended before it was noted is not noted any more.
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
