//! Backoff of a Job after failed pods: ten seconds, doubling with every further failure until one
//! succeeds.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};

// `DefaultJobPodFailureBackOff` and `MaxJobPodFailureBackOff` in
// `pkg/controller/job/job_controller.go`.
const INITIAL_BACKOFF: Duration = Duration::from_secs(10);
const MAX_BACKOFF: Duration = Duration::from_mins(10);

/// Failures since the last success.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Backoff {
    failures: i32,
    last: Option<Timestamp>,
}

impl Backoff {
    /// Adds pods that terminated since: times of successes and failures.
    pub(super) fn after(self, succeeded: &[Timestamp], failed: &[Timestamp]) -> Self {
        let success = succeeded.iter().max();
        let since: Vec<_> = failed
            .iter()
            .filter(|time| success.is_none_or(|success| *time > success))
            .collect();
        let before = if success.is_some() {
            Self::default()
        } else {
            self
        };
        Self {
            failures: before
                .failures
                .saturating_add(i32::try_from(since.len()).unwrap_or(i32::MAX)),
            last: since.into_iter().max().copied().or(before.last),
        }
    }

    /// The remaining delay.
    pub(super) fn remaining(self, now: Timestamp) -> Duration {
        match self.last {
            Some(last) => remaining(self.failures, last, now),
            None => Duration::ZERO,
        }
    }
}

/// The remaining delay after this number of failures, the last of them at `last`.
pub(super) fn remaining(failures: i32, last: Timestamp, now: Timestamp) -> Duration {
    let Ok(failures @ 1..) = u32::try_from(failures) else {
        return Duration::ZERO;
    };
    let wait = INITIAL_BACKOFF
        .saturating_mul(1 << (failures - 1).min(10))
        .min(MAX_BACKOFF);
    let waited = now.duration_since(last);
    let left = SignedDuration::try_from(wait).map(|wait| wait.saturating_sub(waited));
    left.ok()
        .and_then(|left| Duration::try_from(left).ok())
        .unwrap_or_default()
}

/// When a pod terminated, by the best available evidence: end of its containers, end of readiness,
/// deletion, creation.
pub(super) fn ended_at(pod: &Pod) -> Timestamp {
    let meta = &pod.metadata;
    let deleted_at = meta.deletion_timestamp.as_ref().map(|time| {
        let grace = meta.deletion_grace_period_seconds.unwrap_or(0);
        time.0
            .checked_sub(SignedDuration::from_secs(grace))
            .unwrap_or(time.0)
    });
    containers_ended_at(pod)
        .or_else(|| stopped_being_ready_at(pod))
        .or(deleted_at)
        .or_else(|| meta.creation_timestamp.as_ref().map(|time| time.0))
        .unwrap_or(Timestamp::UNIX_EPOCH)
}

/// When the last container terminated, if all have; sidecars included.
fn containers_ended_at(pod: &Pod) -> Option<Timestamp> {
    let status = pod.status.as_ref()?;
    let is_sidecar = |container: &&ContainerStatus| {
        let first = pod
            .spec
            .iter()
            .flat_map(|spec| spec.init_containers.iter().flatten());
        first.into_iter().any(|init| {
            init.name == container.name && init.restart_policy.as_deref() == Some("Always")
        })
    };
    let containers = status.container_statuses.iter().flatten();
    let sidecars = status.init_container_statuses.iter().flatten();
    let ends: Option<Vec<_>> = containers
        .chain(sidecars.filter(is_sidecar))
        .map(|container| {
            let ended = container.state.as_ref()?.terminated.as_ref()?;
            ended.finished_at.as_ref().map(|time| time.0)
        })
        .collect();
    ends?.into_iter().max()
}

fn stopped_being_ready_at(pod: &Pod) -> Option<Timestamp> {
    let mut conditions = pod.status.as_ref()?.conditions.iter().flatten();
    let ready = conditions.find(|condition| condition.type_ == "Ready")?;
    let since = ready.last_transition_time.as_ref()?;
    (ready.status == "False").then_some(since.0)
}
