//! CronJobs: start Jobs on schedule.

mod decide;
mod times;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt as _;
use kube::api::DeleteParams;
use runtime::{Absent as _, Cache, Error, Events, Key, Manager, Next, Queue, Reconcile, Writer};

use crate::object::{controller_of, is_controlled_by, name, namespace, uid};
use decide::{CronJobInputs, Start, decide};

const COMPONENT: &str = "cronjob-controller";
/// kube-controller-manager's `--concurrent-cron-job-syncs`.
const WORKERS: usize = 5;

/// Starts the CronJob controller.
pub(crate) async fn start(manager: &Manager) {
    let crons = manager.cache::<CronJob>();
    let jobs = manager.cache::<Job>();
    tokio::join!(crons.synced(), jobs.synced());
    let queue = Queue::<Key>::new();
    let changed = queue.clone();
    crons.on_change(move |change| {
        let Some(new) = &change.new else { return };
        let key = Key::of(&new.metadata);
        let old = change.old.as_ref();
        let wait = old.and_then(|old| wait_for_new_schedule(old, new));
        changed.add_after(key, wait.unwrap_or_default());
    });
    queue.enqueue_mapped(&jobs, |change| {
        let of_cron = |job: &Arc<Job>| {
            let owner = controller_of(&job.metadata).filter(|owner| owner.kind == "CronJob")?;
            Some(Key::new(namespace(&job.metadata), &owner.name))
        };
        change.sides().filter_map(of_cron).collect::<Vec<_>>()
    });
    let controller = Controller {
        writer: Writer::namespaced(manager.client()).shown_by(&crons),
        job_writer: Writer::namespaced(manager.client()).shown_by(&jobs),
        events: manager.events(COMPONENT),
        crons,
        jobs,
    };
    manager.start(controller, &queue, WORKERS);
}

/// The delay after a schedule change: until its next time, so that past times are not caught up.
fn wait_for_new_schedule(old: &CronJob, new: &CronJob) -> Option<Duration> {
    let (old, spec) = (&old.spec, &new.spec);
    if old.schedule == spec.schedule && old.time_zone == spec.time_zone {
        return None;
    }
    let clock = decide::clock(spec).ok()?;
    clock.wait(new, Timestamp::now())
}

struct Controller {
    writer: Writer<CronJob>,
    job_writer: Writer<Job>,
    events: Events,
    crons: Cache<CronJob>,
    jobs: Cache<Job>,
}

impl Reconcile for Controller {
    fn name(&self) -> &'static str {
        COMPONENT
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        let Some(cron) = self.crons.find(key) else {
            return Ok(Next::Wait);
        };
        let jobs = self.jobs.controlled_by(uid(&cron.metadata));
        let decision = decide(&CronJobInputs {
            cron: &cron,
            jobs: &jobs,
            exists: &|name| self.jobs.get(&key.namespace, name).is_some(),
            now: Timestamp::now(),
        });
        for event in &decision.new_events {
            event.emit(&self.events, &*cron);
        }
        for job in &decision.forget {
            // Emitted as an event, and retried by the next reconcile.
            let _ = self.delete(&cron, &job.metadata).await;
        }
        let (status, failure) = match &decision.start {
            None => (decision.status, None),
            Some(start) => match self.start(&cron, start).await {
                Ok(Some(job)) => (decide::started(decision.status, &job, start), None),
                Ok(None) => (decision.status, None),
                Err(error) => (decision.status, Some(error)),
            },
        };
        if cron.status.clone().unwrap_or_default() != status {
            let written = self.writer.replace_status(&cron.metadata, &status);
            written.await.not_found_as_none()?;
        }
        let next = decision.wait.map_or(Next::Wait, Next::After);
        failure.map_or(Ok(next), Err)
    }
}

impl Controller {
    /// Deletes a Job beyond the history limits, or one that is replaced.
    async fn delete(&self, cron: &CronJob, job: &ObjectMeta) -> Result<(), Error> {
        let by = DeleteParams::background();
        if let Err(error) = self.job_writer.delete_with(job, by).await {
            let text = format!("Deleted job: {}", error.message());
            self.events.warning(cron, "FailedDelete", text);
            return Err(error);
        }
        let text = format!("Deleted job {}", name(job));
        self.events.normal(cron, "SuccessfulDelete", text);
        Ok(())
    }

    /// Creates a Job; `None` if the name is taken by a Job of another owner. An existing Job of
    /// this CronJob was created by an interrupted reconcile.
    async fn start(&self, cron: &CronJob, start: &Start) -> Result<Option<Job>, Error> {
        for replaced in &start.replaces {
            let meta = ObjectMeta {
                name: replaced.name.clone(),
                namespace: cron.metadata.namespace.clone(),
                uid: replaced.uid.clone(),
                ..ObjectMeta::default()
            };
            self.delete(cron, &meta).await?;
        }
        match self.job_writer.create(&start.job).await {
            Ok(created) => {
                let text = format!("Created job {}", created.name_any());
                self.events.normal(cron, "SuccessfulCreate", text);
                Ok(Some(created))
            }
            Err(error) if error.code() == Some(409) => {
                let key = Key::of(&start.job.metadata);
                let known = self.job_writer.get(&key).await?;
                if let Some(known) = &known {
                    self.jobs.saw(known).await;
                }
                Ok(known.filter(|known| is_controlled_by(&known.metadata, &cron.metadata)))
            }
            Err(error) if error.is_namespace_terminating() => Ok(None),
            Err(error) => {
                let text = format!("Error creating job: {}", error.message());
                self.events.warning(cron, "FailedCreate", text);
                Err(error)
            }
        }
    }
}

#[cfg(test)]
mod tests;
