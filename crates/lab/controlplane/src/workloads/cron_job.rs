//! CronJobs: start Jobs on schedule.

mod decide;
mod times;

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{CronJob, CronJobStatus, Job};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DeleteParams, PostParams, Preconditions};
use kube::{Api, Client, ResourceExt as _};
use runtime::{Absent, Cache, Error, Events, Key, Manager, Next, Queue, Reconcile};

use super::pods::{api_message, controller_of, is_controlled_by, namespace_is_terminating};
use decide::{CronJobEvent, CronJobInputs, Decision, Start, decide};

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
        let wait = change
            .old
            .as_ref()
            .and_then(|old| wait_for_new_schedule(old, new));
        match wait {
            Some(wait) => changed.add_after(key, wait),
            None => changed.add(key),
        }
    });
    let changed = queue.clone();
    jobs.on_change(move |change| {
        for job in change.sides() {
            let controller = controller_of(&job.metadata);
            if let Some(controller) = controller.filter(|owner| owner.kind == "CronJob") {
                let namespace = job.metadata.namespace.as_deref().unwrap_or_default();
                changed.add(Key::new(namespace, &controller.name));
            }
        }
    });
    let controller = Controller {
        client: manager.client(),
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
    client: Client,
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
        let uid = cron.metadata.uid.as_deref().unwrap_or_default();
        let jobs = self.jobs.controlled_by(uid);
        let decision = decide(&CronJobInputs {
            cron: &cron,
            jobs: &jobs,
            exists: &|name| self.jobs.get(&key.namespace, name).is_some(),
            now: Timestamp::now(),
        });
        for event in &decision.new_events {
            self.emit_event(&cron, event);
        }
        self.forget(&cron, &decision).await;
        let (status, failure) = match &decision.start {
            None => (decision.status, None),
            Some(start) => match self.start(&cron, start).await {
                Ok(Some(job)) => (decide::started(decision.status, &job, start), None),
                Ok(None) => (decision.status, None),
                Err(error) => (decision.status, Some(error)),
            },
        };
        self.write(&cron, status).await?;
        match failure {
            Some(error) => Err(error),
            None => Ok(decision.wait.map_or(Next::Wait, Next::After)),
        }
    }
}

impl Controller {
    fn emit_event(&self, cron: &CronJob, event: &CronJobEvent) {
        if event.warning {
            self.events
                .warning(cron, event.reason, event.message.clone());
        } else {
            self.events
                .normal(cron, event.reason, event.message.clone());
        }
    }

    /// Deletes finished Jobs beyond the history limits. Failures are retried by the next reconcile.
    async fn forget(&self, cron: &CronJob, decision: &Decision) {
        for job in &decision.forget {
            // The failure has been logged.
            let _ = self
                .delete(cron, job.metadata.name.as_deref(), job.metadata.uid.clone())
                .await;
        }
    }

    async fn delete(
        &self,
        cron: &CronJob,
        name: Option<&str>,
        uid: Option<String>,
    ) -> Result<(), Error> {
        let name = name.unwrap_or_default();
        let only_this = DeleteParams::background().preconditions(Preconditions {
            uid: uid.clone(),
            resource_version: None,
        });
        if let Err(error) = self
            .api::<Job>(cron)
            .delete(name, &only_this)
            .await
            .not_found_as_none()
        {
            let message = format!("Deleted job: {}", api_message(&error));
            self.events.warning(cron, "FailedDelete", message);
            return Err(Error::api(format!("delete job {name}"))(error));
        }
        let gone = ObjectMeta {
            name: Some(name.to_owned()),
            namespace: cron.metadata.namespace.clone(),
            uid,
            ..ObjectMeta::default()
        };
        self.jobs.wait_for_deletion(&gone).await;
        self.events
            .normal(cron, "SuccessfulDelete", format!("Deleted job {name}"));
        Ok(())
    }

    /// Creates a Job; `None` if the name is taken by a Job of another owner. An existing Job of
    /// this CronJob was created by an interrupted reconcile.
    async fn start(&self, cron: &CronJob, start: &Start) -> Result<Option<Job>, Error> {
        for replaced in &start.replaces {
            self.delete(cron, replaced.name.as_deref(), replaced.uid.clone())
                .await?;
        }
        let name = start.job.name_any();
        let api: Api<Job> = self.api(cron);
        let operation = || Error::api(format!("create job {name}"));
        match api.create(&PostParams::default(), &start.job).await {
            Ok(created) => {
                self.jobs.saw(&created).await;
                self.events
                    .normal(cron, "SuccessfulCreate", format!("Created job {name}"));
                Ok(Some(created))
            }
            Err(kube::Error::Api(status)) if status.code == 409 => {
                let known = api.get(&name).await.map_err(operation())?;
                self.jobs.saw(&known).await;
                Ok(is_controlled_by(&known.metadata, &cron.metadata).then_some(known))
            }
            Err(error) if namespace_is_terminating(&error) => Ok(None),
            Err(error) => {
                let message = format!("Error creating job: {}", api_message(&error));
                self.events.warning(cron, "FailedCreate", message);
                Err(operation()(error))
            }
        }
    }

    async fn write(&self, cron: &CronJob, status: CronJobStatus) -> Result<(), Error> {
        if cron.status.clone().unwrap_or_default() == status {
            return Ok(());
        }
        let name = cron.name_any();
        let mut written = cron.clone();
        written.status = Some(status);
        let written = self
            .api::<CronJob>(cron)
            .replace_status(&name, &PostParams::default(), &written)
            .await
            .not_found_as_none()
            .map_err(Error::api(format!("update the status of cronjob {name}")))?;
        if let Some(written) = written {
            self.crons.saw(&written).await;
        }
        Ok(())
    }

    fn api<K>(&self, cron: &CronJob) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    {
        let namespace = cron.metadata.namespace.as_deref().unwrap_or_default();
        Api::namespaced(self.client.clone(), namespace)
    }
}

#[cfg(test)]
mod tests;
