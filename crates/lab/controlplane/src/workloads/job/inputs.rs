//! Observed state of a Job: its pods, what has been counted, and whether that finishes it.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::{Job, JobCondition, JobSpec, JobStatus};
use k8s_openapi::api::core::v1::Pod;

use super::super::pods::{is_active, is_ready, is_terminating};
use super::backoff::{self, Backoff};
use super::indexes::Indexes;
use super::pod;
use super::policy::{Failure, judge, succeeded_early};
use super::status;
pub(super) use crate::pod::phase;

/// How a Job ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct JobVerdict {
    pub(super) success: bool,
    pub(super) reason: String,
    pub(super) message: String,
}

impl JobVerdict {
    fn failure(reason: &str, message: &str) -> Self {
        Self {
            success: false,
            reason: reason.to_owned(),
            message: message.to_owned(),
        }
    }

    /// All completions succeeded.
    pub(super) fn completed() -> Self {
        Self {
            success: true,
            reason: "CompletionsReached".to_owned(),
            message: "Reached expected number of succeeded pods".to_owned(),
        }
    }

    /// The verdict recorded by an earlier reconcile.
    fn passed(condition: &JobCondition, success: bool) -> Self {
        Self {
            success,
            reason: condition.reason.clone().unwrap_or_default(),
            message: condition.message.clone().unwrap_or_default(),
        }
    }
}

/// The observed state of a Job.
#[derive(Debug)]
pub(super) struct JobInputs<'a> {
    pub(super) job: &'a Job,
    pub(super) spec: &'a JobSpec,
    pub(super) pods: &'a [Arc<Pod>],
    /// The current status, with optional fields filled in.
    pub(super) status: JobStatus,
    pub(super) active: Vec<Arc<Pod>>,
    pub(super) ready: i32,
    pub(super) terminating: i32,
    /// Succeeded pods or indexes, counted or not.
    pub(super) succeeded: i32,
    /// Succeeded indexes of an indexed Job.
    pub(super) completed: Indexes,
    /// Failed indexes, with a backoff limit per index.
    pub(super) failed: Option<Indexes>,
    /// The last failed pods per index, which carry its failure count until they are replaced.
    pub(super) carriers: BTreeMap<i32, Arc<Pod>>,
    pub(super) backoff: Backoff,
    pub(super) verdict: Option<JobVerdict>,
    pub(super) now: Timestamp,
}

impl<'a> JobInputs<'a> {
    /// Evaluates a Job and its pods; `backoff` has its earlier failures.
    pub(super) fn of(
        job: &'a Job,
        spec: &'a JobSpec,
        pods: &'a [Arc<Pod>],
        backoff: Backoff,
        now: Timestamp,
    ) -> Self {
        let active: Vec<_> = pods.iter().filter(|pod| is_active(pod)).cloned().collect();
        let mut inputs = Self {
            job,
            spec,
            pods,
            status: status::complete(job.status.as_ref()),
            ready: many(active.iter().filter(|pod| is_ready(pod))),
            active,
            terminating: many(pods.iter().filter(|pod| is_terminating(pod))),
            succeeded: 0,
            completed: Indexes::default(),
            failed: None,
            carriers: BTreeMap::new(),
            backoff,
            verdict: None,
            now,
        };
        if inputs.status.start_time.is_none() && !inputs.is_suspended() {
            inputs.status.start_time = Some(status::time(now));
        }
        let failed = inputs.count();
        inputs.verdict = inputs.judge(failed);
        inputs
    }

    /// Counts terminated pods, including those not in the status yet; returns the failures that
    /// count.
    fn count(&mut self) -> i32 {
        let (counted_succeeded, counted_failed) = status::uncounted(&self.status);
        let succeeded: Vec<_> = self
            .unnamed(&counted_succeeded)
            .filter(|pod| phase(pod) == "Succeeded")
            .map(|pod| backoff::ended_at(pod))
            .collect();
        let new_failed: Vec<_> = self
            .unnamed(&counted_failed)
            .filter(|pod| self.has_failed(pod))
            .collect();
        let policy = self.spec.pod_failure_policy.as_ref();
        let counting = new_failed
            .iter()
            .filter(|pod| judge(policy, pod) != Failure::Ignored);
        let failed = self.status.failed.unwrap_or(0) + many(counting) + many(counted_failed.iter());
        // All of them, also those that the failure policy ignores: they do not count, but the next
        // pod waits for them.
        let failed_at: Vec<_> = new_failed
            .iter()
            .map(|pod| backoff::ended_at(pod))
            .collect();
        self.backoff = self.backoff.after(&succeeded, &failed_at);
        self.succeeded = self.status.succeeded.unwrap_or(0)
            + many(succeeded.iter())
            + many(counted_succeeded.iter());
        if let Some(completions) = self.indexed() {
            self.count_indexes(completions);
        }
        failed
    }

    fn count_indexes(&mut self, completions: i32) {
        let known = |text: Option<&str>| Indexes::parse(text.unwrap_or_default(), completions);
        let succeeded = self.tracked().filter(|pod| phase(pod) == "Succeeded");
        let succeeded: Indexes = succeeded.filter_map(|pod| self.valid_index(pod)).collect();
        self.completed = known(self.status.completed_indexes.as_deref()).union(&succeeded);
        self.succeeded = self.completed.len();
        let Some(limit) = self.spec.backoff_limit_per_index else {
            return;
        };
        let failed = self.tracked().filter(|pod| self.fails_index(pod, limit));
        let failed: Indexes = failed.filter_map(|pod| self.valid_index(pod)).collect();
        let failed = known(self.status.failed_indexes.as_deref()).union(&failed);
        self.carriers = self.carriers(&failed);
        self.failed = Some(failed);
    }

    fn fails_index(&self, failed: &Pod, limit: i32) -> bool {
        self.has_failed(failed)
            && match judge(self.spec.pod_failure_policy.as_ref(), failed) {
                Failure::FailsIndex => true,
                Failure::Ignored => false,
                _ => pod::failures_before(failed) >= limit,
            }
    }

    /// For every index that is neither finished nor running, the pod that failed last.
    fn carriers(&self, failed: &Indexes) -> BTreeMap<i32, Arc<Pod>> {
        let active: Indexes = self
            .active
            .iter()
            .filter_map(|pod| pod::index(pod))
            .collect();
        let mut carriers: BTreeMap<i32, Arc<Pod>> = BTreeMap::new();
        for pod in self.tracked().filter(|pod| self.has_failed(pod)) {
            let Some(index) = self.valid_index(pod) else {
                continue;
            };
            let settled = [&self.completed, failed, &active];
            if settled.iter().any(|indexes| indexes.contains(index)) {
                continue;
            }
            let age = |pod: &Pod| (pod::all_failures_before(pod), backoff::ended_at(pod));
            let later = carriers.get(&index).is_none_or(|last| {
                let (last, this) = (age(last), age(pod));
                last.0 <= this.0 && last.1 <= this.1
            });
            if later {
                carriers.insert(index, Arc::clone(pod));
            }
        }
        carriers
    }

    /// Whether the state finishes the Job.
    fn judge(&self, failed: i32) -> Option<JobVerdict> {
        let passed = |type_: &str| status::find_true(&self.status, type_);
        if let Some(condition) = passed("SuccessCriteriaMet") {
            // A verdict that was written is final: pods that end while the Job is being finished
            // must not turn success into failure.
            return Some(JobVerdict::passed(condition, true));
        }
        if let Some(condition) = passed("FailureTarget") {
            return Some(JobVerdict::passed(condition, false));
        }
        // Upstream's order, which decides the reason where several rules end the Job at once.
        self.judge_pods()
            .or_else(|| self.judge_limits(failed))
            .or_else(|| self.judge_indexes())
    }

    fn judge_pods(&self) -> Option<JobVerdict> {
        let policy = self.spec.pod_failure_policy.as_ref()?;
        let failed = self.pods.iter().filter(|pod| self.has_failed(pod));
        failed
            .map(|pod| judge(Some(policy), pod))
            .find_map(|failure| match failure {
                Failure::FailsJob(why) => Some(JobVerdict::failure("PodFailurePolicy", &why)),
                _ => None,
            })
    }

    fn judge_limits(&self, failed: i32) -> Option<JobVerdict> {
        let limit = self.spec.backoff_limit.unwrap_or(6);
        if failed > limit || self.restarted_too_often(limit) {
            return Some(JobVerdict::failure(
                "BackoffLimitExceeded",
                "Job has reached the specified backoff limit",
            ));
        }
        self.until_deadline()
            .is_some_and(|left| left.is_zero())
            .then(|| {
                JobVerdict::failure(
                    "DeadlineExceeded",
                    "Job was active longer than specified deadline",
                )
            })
    }

    /// Container restarts count like failed pods.
    fn restarted_too_often(&self, limit: i32) -> bool {
        let template = self.spec.template.spec.as_ref();
        if template.and_then(|spec| spec.restart_policy.as_deref()) != Some("OnFailure") {
            return false;
        }
        let alive = self
            .pods
            .iter()
            .filter(|pod| matches!(phase(pod), "Running" | "Pending"));
        let restarts: i32 = alive
            .filter_map(|pod| pod.status.as_ref())
            .flat_map(|status| {
                let first = status.init_container_statuses.iter().flatten();
                first.chain(status.container_statuses.iter().flatten())
            })
            .map(|container| container.restart_count)
            .sum();
        // A limit of 0 allows no restart. Any other is reached by as many restarts, where failed
        // pods have to exceed it (`pastBackoffLimitOnFailure` in
        // `pkg/controller/job/job_controller.go`).
        restarts >= limit.max(1)
    }

    /// Time until the active deadline, if there is one.
    pub(super) fn until_deadline(&self) -> Option<Duration> {
        let seconds = self.spec.active_deadline_seconds?;
        let start = self.status.start_time.as_ref()?;
        if self.is_suspended() {
            return None;
        }
        let ran = self.now.duration_since(start.0);
        let left = SignedDuration::from_secs(seconds).saturating_sub(ran);
        Some(Duration::try_from(left).unwrap_or_default())
    }

    fn judge_indexes(&self) -> Option<JobVerdict> {
        let completions = self.indexed()?;
        if let Some(failed) = &self.failed {
            let many = failed.len();
            if self
                .spec
                .max_failed_indexes
                .is_some_and(|limit| many > limit)
            {
                return Some(JobVerdict::failure(
                    "MaxFailedIndexesExceeded",
                    "Job has exceeded the specified maximal number of failed indexes",
                ));
            }
            if many > 0 && many + self.completed.len() >= completions {
                return Some(JobVerdict::failure(
                    "FailedIndexes",
                    "Job has failed indexes",
                ));
            }
        }
        let policy = self.spec.success_policy.as_ref();
        let message = succeeded_early(policy, completions, &self.completed)?;
        Some(JobVerdict {
            success: true,
            reason: "SuccessPolicy".to_owned(),
            message,
        })
    }

    /// The number of completions of an indexed Job.
    pub(super) fn indexed(&self) -> Option<i32> {
        let indexed = self.spec.completion_mode.as_deref() == Some("Indexed");
        indexed.then(|| self.spec.completions.unwrap_or(0))
    }

    /// The index of a pod, if it is valid.
    pub(super) fn valid_index(&self, pod: &Pod) -> Option<i32> {
        let completions = self.indexed()?;
        pod::index(pod).filter(|index| *index < completions)
    }

    pub(super) fn is_suspended(&self) -> bool {
        self.spec.suspend == Some(true)
    }

    /// Whether the replacement policy waits until a terminating pod has failed.
    pub(super) fn replaces_only_failed(&self) -> bool {
        // The policy judges exit codes, which a terminating pod does not have yet.
        self.spec.pod_failure_policy.is_some()
            || self.spec.pod_replacement_policy.as_deref() == Some("Failed")
    }

    /// Whether a pod has failed: terminating ones count, unless the replacement policy waits for
    /// them.
    pub(super) fn has_failed(&self, pod: &Pod) -> bool {
        let phase = phase(pod);
        phase == "Failed"
            || (!self.replaces_only_failed()
                && pod.metadata.deletion_timestamp.is_some()
                && phase != "Succeeded")
    }

    /// Pods that wait to be counted.
    pub(super) fn tracked(&self) -> impl Iterator<Item = &'a Arc<Pod>> {
        self.pods.iter().filter(|pod| pod::is_tracked(pod))
    }

    /// Pods that wait to be counted and are not recorded in the status yet.
    fn unnamed(&self, named: &HashSet<String>) -> impl Iterator<Item = &'a Arc<Pod>> {
        self.tracked().filter(move |pod| {
            !named.contains(pod.metadata.uid.as_deref().unwrap_or_default())
                && (self.indexed().is_none() || self.valid_index(pod).is_some())
        })
    }
}

/// The count as i32, as in the API.
pub(super) fn many<T>(items: impl Iterator<Item = T>) -> i32 {
    i32::try_from(items.count()).unwrap_or(i32::MAX)
}
