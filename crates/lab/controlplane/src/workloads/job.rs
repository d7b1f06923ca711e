//! Jobs.

mod backoff;
mod decide;
mod indexes;
mod inputs;
mod orphans;
mod pod;
mod policy;
mod status;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{Job, JobSpec, JobStatus};
use k8s_openapi::api::core::v1::Pod;
use parking_lot::Mutex;
use runtime::{Cache, Error, Events, Key, Manager, Next, Queue, Reconcile, Writer};

use super::pods::{PodControl, concerned, selector, slow_start};
use backoff::Backoff;
use decide::{Outcome, Plan, PodAction, Report};
use inputs::{JobInputs, JobVerdict};
use orphans::Orphans;
pub(super) use status::{end, is_finished};

const COMPONENT: &str = "job-controller";
/// The value of `managedBy` for this controller.
const OURS: &str = "kubernetes.io/job-controller";
/// kube-controller-manager's `--concurrent-job-syncs`.
const WORKERS: usize = 5;
/// Batch window of pod changes. Upstream waits a second, which is long for interactive use.
const BATCH_WINDOW: Duration = Duration::from_millis(100);

/// Starts the Job controller.
pub(crate) async fn start(manager: &Manager) {
    let jobs = manager.cache::<Job>();
    let mut pods = PodControl::new(manager, COMPONENT);
    pods.claims = pods.claims.with_finalizer(pod::FINALIZER);
    tokio::join!(jobs.synced(), pods.cache().synced());
    let queue = Queue::new();
    queue.enqueue_objects(&jobs);
    let owners = jobs.clone();
    queue.enqueue_mapped_after(BATCH_WINDOW, pods.cache(), move |change| {
        concerned(&owners, |job| job.spec.as_ref()?.selector.as_ref(), change)
    });
    orphans::start(manager, Orphans::new(manager));
    let controller = Controller {
        writer: Writer::namespaced(manager.client()).shown_by(&jobs),
        events: manager.events(COMPONENT),
        jobs,
        pods,
        backoffs: Mutex::default(),
    };
    manager.start(controller, &queue, WORKERS);
}

/// Whether another controller manages a Job (`spec.managedBy`).
fn is_managed_elsewhere(job: &Job) -> bool {
    let spec = job.spec.as_ref();
    let manager = spec.and_then(|spec| spec.managed_by.as_deref());
    manager.is_some_and(|manager| manager != OURS)
}

struct Controller {
    writer: Writer<Job>,
    events: Events,
    jobs: Cache<Job>,
    pods: PodControl,
    /// Backoffs of unfinished Jobs. They are lost on restart, as upstream: then a Job does not
    /// wait.
    backoffs: Mutex<HashMap<Key, Backoff>>,
}

impl Reconcile for Controller {
    fn name(&self) -> &'static str {
        COMPONENT
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        let Some(job) = self.jobs.find(key) else {
            self.backoffs.lock().remove(key);
            return Ok(Next::Wait);
        };
        if is_managed_elsewhere(&job) {
            return Ok(Next::Wait);
        }
        if is_finished(job.status.as_ref()) {
            self.backoffs.lock().remove(key);
            return Ok(Next::Wait);
        }
        match &job.spec {
            Some(spec) => self.advance(key, &job, spec).await,
            None => Ok(Next::Wait),
        }
    }
}

impl Controller {
    async fn advance(&self, key: &Key, job: &Job, spec: &JobSpec) -> Result<Next, Error> {
        let Some(written) = &spec.selector else {
            return Ok(Next::Wait);
        };
        let claims = &self.pods.claims;
        let around = claims.around(&job.metadata);
        let pods = claims.claim(job, &selector(written)?, around).await?;
        let known = self.backoffs.lock().get(key).copied().unwrap_or_default();
        let inputs = JobInputs::of(job, spec, &pods, known, Timestamp::now());
        let plan = decide::plan(&inputs);
        let (outcome, failure) = self.act(job, spec, &plan).await;
        let report = decide::report(&inputs, &plan, &outcome);
        self.settle(key, &inputs, report).await?;
        match failure {
            Some(error) => Err(error),
            None => Ok(plan.wait.map_or(Next::Wait, Next::After)),
        }
    }

    /// Creates or deletes pods; returns the outcome and the first error.
    async fn act(&self, job: &Job, spec: &JobSpec, plan: &Plan) -> (Outcome, Option<Error>) {
        match &plan.act {
            PodAction::Nothing | PodAction::Leave => (Outcome::default(), None),
            PodAction::Create(wanted) => {
                let (created, failure) = slow_start(wanted.len(), |number| {
                    let pod = pod::render(job, &spec.template, &wanted[number]);
                    self.pods.create(job, pod)
                })
                .await;
                let outcome = Outcome {
                    created: inputs::many(created.into_iter().flatten()),
                    ..Outcome::default()
                };
                (outcome, failure)
            }
            PodAction::Drop(pods) => self.remove(job, pods, true).await,
            PodAction::End(pods) => self.remove(job, pods, false).await,
        }
    }

    async fn remove(
        &self,
        job: &Job,
        pods: &[Arc<Pod>],
        uncounted: bool,
    ) -> (Outcome, Option<Error>) {
        let removals = pods.iter().map(async |pod| {
            if uncounted {
                orphans::release(self.pods.writer(), self.pods.cache(), pod).await?;
            }
            self.pods.delete(job, pod).await?;
            Ok(pod.metadata.uid.clone())
        });
        let mut failure = None;
        let mut removed = HashSet::new();
        for result in join_all(removals).await {
            match result {
                Ok(uid) => removed.extend(uid),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        let outcome = Outcome {
            removed,
            created: 0,
        };
        (outcome, failure)
    }

    /// Records terminated pods, removes their finalizers, counts them: in this order, so that an
    /// interruption at any point neither counts a pod twice nor misses one.
    async fn settle(&self, key: &Key, inputs: &JobInputs<'_>, report: Report) -> Result<(), Error> {
        let mut job = self
            .write(inputs.job.clone(), report.status.clone())
            .await?;
        // Only after the status is written: a failed write repeats the reconcile, and the failures
        // would be counted twice.
        self.backoffs.lock().insert(key.clone(), inputs.backoff);
        if let Some(event) = report.new_event {
            event.emit(&self.events, inputs.job);
        }
        let mut tracked = decide::tracked(inputs);
        let releases = report.release.iter().map(async |pod| {
            orphans::release(self.pods.writer(), self.pods.cache(), pod).await?;
            Ok(pod.metadata.uid.clone())
        });
        let mut failure: Option<Error> = None;
        for result in join_all(releases).await {
            match result {
                Ok(uid) => {
                    tracked.remove(uid.as_deref().unwrap_or_default());
                }
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        let mut status = status::complete(job.status.as_ref());
        status::count_released(&mut status, &tracked);
        let finished = report
            .verdict
            // The final condition comes last: a finished Job is not reconciled again, and pods that
            // still have the finalizer would be kept until the orphan controller finds them.
            .filter(|_| failure.is_none() && !report.more)
            .filter(|verdict| decide::finish(inputs, &mut status, verdict));
        job = self.write(job, status).await?;
        if let Some(verdict) = finished {
            self.report_end(&job, inputs.spec, &verdict);
        }
        failure.map_or(Ok(()), Err)
    }

    /// Writes a status if it changed; returns the resulting Job.
    async fn write(&self, job: Job, status: JobStatus) -> Result<Job, Error> {
        if status::complete(job.status.as_ref()) == status && job.status.is_some() {
            return Ok(job);
        }
        self.writer.replace_status(&job.metadata, &status).await
    }

    fn report_end(&self, job: &Job, spec: &JobSpec, verdict: &JobVerdict) {
        if !verdict.success {
            return self
                .events
                .warning(job, &verdict.reason, verdict.message.clone());
        }
        let succeeded = job.status.as_ref().and_then(|status| status.succeeded);
        if spec
            .completions
            .is_some_and(|completions| succeeded.unwrap_or(0) > completions)
        {
            self.events.warning(
                job,
                "TooManySucceededPods",
                "Too many succeeded pods running after completion count reached",
            );
        }
        self.events.normal(job, "Completed", "Job completed");
    }
}

#[cfg(test)]
mod tests;
