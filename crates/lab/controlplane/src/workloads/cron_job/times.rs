//! Computation of due times.

use std::time::Duration;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::CronJob;
use machinery::cron::Schedule;

/// Delay after the scheduled time: clocks may differ slightly.
const SCHEDULE_DELAY: SignedDuration = SignedDuration::from_millis(100);
/// Number of missed times that cause a warning event.
// The number of `pkg/controller/cronjob/utils.go`: so many missed times hint at clock skew or a
// controller that was down for long.
const MISSED_WARNING_THRESHOLD: i64 = 100;

/// A schedule with its time zone.
#[derive(Debug, Clone)]
pub(super) struct Clock {
    pub(super) schedule: Schedule,
    pub(super) zone: TimeZone,
}

/// The last scheduled time that has passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Due {
    pub(super) at: Timestamp,
    /// Whether suspiciously many times before it were missed.
    pub(super) missed_many: bool,
}

/// Scheduled times since the last start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Since {
    earliest: Timestamp,
    due: Option<Due>,
    missed: bool,
}

impl Clock {
    fn next(&self, after: Timestamp) -> Option<Timestamp> {
        self.schedule.next(after, &self.zone)
    }

    /// The last scheduled time since the last start, within the starting deadline.
    pub(super) fn due(&self, cron: &CronJob, now: Timestamp) -> Result<Option<Due>, String> {
        self.since(cron, now, true).map(|since| since.due)
    }

    /// Time until the next scheduled time.
    pub(super) fn wait(&self, cron: &CronJob, now: Timestamp) -> Option<Duration> {
        let from = match self.since(cron, now, false) {
            Ok(Since { due: Some(due), .. }) => due.at,
            Ok(since) if !since.missed => since.earliest,
            _ => now,
        };
        let next = self.next(from)?.checked_add(SCHEDULE_DELAY).ok()?;
        let wait = next.duration_since(now);
        Some(Duration::try_from(wait).unwrap_or_default())
    }

    /// Finds the last time without iterating over all, which may cover years.
    fn since(&self, cron: &CronJob, now: Timestamp, deadline: bool) -> Result<Since, String> {
        let earliest = earliest(cron, now, deadline);
        let nothing = Since {
            earliest,
            due: None,
            missed: false,
        };
        let Some(first) = self.next(earliest).filter(|first| *first <= now) else {
            return Ok(nothing);
        };
        let found = |at, missed_many| Some(Due { at, missed_many });
        let Some(second) = self.next(first).filter(|second| *second <= now) else {
            return Ok(Since {
                due: found(first, false),
                ..nothing
            });
        };
        let between = second.duration_since(first).as_secs();
        if between < 1 {
            return Err("time difference between two schedules is less than 1 second".to_owned());
        }
        let missed = now.duration_since(first).as_secs() / between + 1;
        // Two intervals before the last, if times are evenly spaced; otherwise the loop below
        // corrects it.
        let near = SignedDuration::from_secs((missed - 2).saturating_mul(between));
        let mut last = None;
        let mut at = first
            .checked_add(near)
            .ok()
            .and_then(|near| self.next(near));
        while let Some(time) = at.filter(|time| *time <= now) {
            last = Some(time);
            at = self.next(time);
        }
        Ok(Since {
            earliest,
            due: last.and_then(|last| found(last, missed > MISSED_WARNING_THRESHOLD)),
            missed: true,
        })
    }
}

/// The time from which scheduled times count.
fn earliest(cron: &CronJob, now: Timestamp, deadline: bool) -> Timestamp {
    let status = cron.status.as_ref();
    let last = status.and_then(|status| status.last_schedule_time.as_ref());
    let created = cron.metadata.creation_timestamp.as_ref();
    let earliest = last.or(created).map_or(now, |time| time.0);
    let seconds = cron.spec.starting_deadline_seconds.filter(|_| deadline);
    let window =
        seconds.and_then(|seconds| now.checked_sub(SignedDuration::from_secs(seconds)).ok());
    window.map_or(earliest, |window| window.max(earliest))
}
