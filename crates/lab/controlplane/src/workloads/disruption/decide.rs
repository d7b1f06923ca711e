//! Evaluation of a budget.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use runtime::Error;

use super::super::pods::{is_ready, portion};

/// How long a disrupted pod may take until its deletion. After that the eviction is considered
/// failed, and the pod counts again (upstream's `DeletionTimeout`).
const DELETION_TIMEOUT: SignedDuration = SignedDuration::from_mins(2);

/// Requirements of a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wanted {
    /// Expected number of pods.
    pub(super) expected: i32,
    /// Desired number of healthy pods.
    pub(super) healthy: i32,
}

/// The evaluated budget.
#[derive(Debug, PartialEq)]
pub(super) struct Counted {
    pub(super) status: PodDisruptionBudgetStatus,
    /// When time alone may change the result.
    pub(super) look_again: Option<Duration>,
}

/// Whether a budget depends on the scale of the pods' controllers, and not only on existing pods.
pub(super) fn needs_scale(budget: &PodDisruptionBudget) -> bool {
    budget.spec.as_ref().is_some_and(|spec| {
        spec.max_unavailable.is_some() || matches!(spec.min_available, Some(IntOrString::String(_)))
    })
}

/// The requirements of a budget for this number of expected pods.
pub(super) fn wanted(budget: &PodDisruptionBudget, expected: i32) -> Result<Wanted, Error> {
    let spec = budget.spec.as_ref();
    let most = spec.and_then(|spec| spec.max_unavailable.as_ref());
    let least = spec.and_then(|spec| spec.min_available.as_ref());
    let share = |amount: &IntOrString, field: &str| {
        portion(amount, expected, true).ok_or_else(|| {
            Error::Invalid(format!(
                "spec.{field}: {amount:?} is neither a number nor a percentage such as 50%"
            ))
        })
    };
    let healthy = match (most, least) {
        (Some(most), _) => (expected - share(most, "maxUnavailable")?).max(0),
        (None, Some(least)) => share(least, "minAvailable")?,
        (None, None) => 0,
    };
    Ok(Wanted { expected, healthy })
}

/// Evaluates a budget.
pub(super) fn count(
    budget: &PodDisruptionBudget,
    pods: &[Arc<Pod>],
    wanted: Wanted,
    now: Timestamp,
) -> Counted {
    let mut disrupted = BTreeMap::new();
    let mut look_again: Option<SignedDuration> = None;
    let mut healthy = 0;
    for pod in pods.iter().filter(|pod| stays(pod)) {
        match disrupted_at(budget, pod) {
            // The eviction was granted and the deletion is not visible yet: counted as healthy, a
            // second eviction would be granted for the same pod's place.
            Some(since) if left(since, now) >= SignedDuration::ZERO => {
                let name = pod.metadata.name.clone().unwrap_or_default();
                disrupted.insert(name, since.clone());
                let left = left(since, now);
                look_again = Some(look_again.map_or(left, |earlier| earlier.min(left)));
            }
            _ => healthy += i32::from(is_ready(pod)),
        }
    }
    let spare = healthy - wanted.healthy;
    let allowed = if wanted.expected > 0 { spare.max(0) } else { 0 };
    let (holds, reason) = match allowed {
        0 => (false, "InsufficientPods"),
        _ => (true, "SufficientPods"),
    };
    let generation = budget.metadata.generation;
    let status = PodDisruptionBudgetStatus {
        conditions: Some(conditions(budget, holds, (reason, ""), generation, now)),
        current_healthy: Some(healthy),
        desired_healthy: Some(wanted.healthy),
        disrupted_pods: Some(disrupted).filter(|pods| !pods.is_empty()),
        disruptions_allowed: Some(allowed),
        expected_pods: Some(wanted.expected),
        observed_generation: generation,
    };
    Counted {
        status,
        // One second later, so that the timeout has passed.
        look_again: look_again.map(|wait| wait.unsigned_abs() + Duration::from_secs(1)),
    }
}

/// The budget without these disrupted pods.
pub(super) fn without(
    budget: &PodDisruptionBudget,
    names: &HashSet<String>,
) -> PodDisruptionBudget {
    let mut budget = budget.clone();
    if let Some(status) = &mut budget.status
        && let Some(disrupted) = &mut status.disrupted_pods
    {
        disrupted.retain(|name, _| !names.contains(name));
    }
    budget
}

/// Disrupted pods that were not deleted within the timeout.
pub(super) fn overdue<'a>(
    budget: &PodDisruptionBudget,
    pods: &'a [Arc<Pod>],
    now: Timestamp,
) -> impl Iterator<Item = &'a Arc<Pod>> {
    pods.iter().filter(move |pod| {
        stays(pod)
            && disrupted_at(budget, pod)
                .is_some_and(|since| left(since, now) < SignedDuration::ZERO)
    })
}

/// The status when the expected number of pods is unknown.
pub(super) fn unknown(
    budget: &PodDisruptionBudget,
    why: &str,
    now: Timestamp,
) -> PodDisruptionBudgetStatus {
    let before = budget.status.clone().unwrap_or_default();
    let generation = before.observed_generation;
    PodDisruptionBudgetStatus {
        conditions: Some(conditions(
            budget,
            false,
            ("SyncFailed", why),
            generation,
            now,
        )),
        // Unknown means none: an eviction must not be granted on a guess.
        disruptions_allowed: Some(0),
        current_healthy: before.current_healthy.or(Some(0)),
        desired_healthy: before.desired_healthy.or(Some(0)),
        expected_pods: before.expected_pods.or(Some(0)),
        ..before
    }
}

fn stays(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_none()
}

/// When an eviction recorded the pod as disrupted.
fn disrupted_at<'a>(budget: &'a PodDisruptionBudget, pod: &Pod) -> Option<&'a Time> {
    let disrupted = budget.status.as_ref()?.disrupted_pods.as_ref()?;
    disrupted.get(pod.metadata.name.as_deref()?)
}

fn left(since: &Time, now: Timestamp) -> SignedDuration {
    DELETION_TIMEOUT.saturating_sub(now.duration_since(since.0))
}

/// The conditions with `DisruptionAllowed`; its transition time changes with its status only.
fn conditions(
    budget: &PodDisruptionBudget,
    holds: bool,
    (reason, message): (&str, &str),
    generation: Option<i64>,
    now: Timestamp,
) -> Vec<Condition> {
    let mut conditions = budget
        .status
        .as_ref()
        .and_then(|status| status.conditions.clone())
        .unwrap_or_default();
    let place = conditions
        .iter()
        .position(|condition| condition.type_ == "DisruptionAllowed");
    let value = if holds { "True" } else { "False" };
    let second = Timestamp::from_second(now.as_second()).unwrap_or(now);
    let since = place
        .map(|place| &conditions[place])
        .filter(|known| known.status == value)
        .map_or(Time(second), |known| known.last_transition_time.clone());
    let condition = Condition {
        type_: "DisruptionAllowed".to_owned(),
        status: value.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        last_transition_time: since,
        observed_generation: generation.filter(|generation| *generation != 0),
    };
    match place {
        Some(place) => conditions[place] = condition,
        None => conditions.push(condition),
    }
    conditions
}
