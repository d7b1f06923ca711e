//! The next status of a ClusterOperator.

#[cfg(test)]
mod tests;

use std::fmt;

use api::openshift::{ClusterOperatorStatus, Condition};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::rollout::Rollout;
use crate::versions::{OPERATOR, Versions};
use crate::write::listed;

/// Reason of a condition in its good state.
const AS_EXPECTED: &str = "AsExpected";

/// Desired state of a condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// Status `True` or `False`.
    pub holds: bool,
    /// CamelCase reason.
    pub reason: String,
    /// Message for people.
    pub message: String,
}

impl Claim {
    /// A condition with status, reason and message.
    pub fn new(holds: bool, reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            holds,
            reason: reason.into(),
            message: message.into(),
        }
    }
}

/// Conditions of an operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    /// `Available`.
    pub available: Claim,
    /// `Progressing`.
    pub progressing: Claim,
    /// `Degraded`.
    pub degraded: Claim,
}

impl State {
    /// Conditions that follow from a rollout. Operators with other duties refine them with [`State::working`] and
    /// [`State::degraded`].
    pub fn of(rollout: &Rollout, versions: &Versions) -> Self {
        let release = versions.get(OPERATOR).unwrap_or_default();
        let available = if rollout.is_available() {
            Claim::new(true, AS_EXPECTED, deployed(versions))
        } else {
            Claim::new(false, "NoPodsAvailable", "No pod can be used")
        };
        let fine = Claim::new(false, AS_EXPECTED, "");
        match rollout {
            Rollout::Done => Self {
                available,
                progressing: Claim::new(
                    false,
                    AS_EXPECTED,
                    format!("Cluster version is {release}"),
                ),
                degraded: fine,
            },
            Rollout::Underway { why, .. } => Self {
                available,
                progressing: working(release, why),
                degraded: fine,
            },
            Rollout::UnrunnablePod { why, .. } => Self {
                available,
                progressing: working(release, why),
                degraded: Claim::new(true, "RolloutStuck", why.clone()),
            },
        }
    }

    /// Sets `Progressing`, for work besides the rollout of the operator itself.
    #[must_use]
    pub fn working(mut self, versions: &Versions, on: &str) -> Self {
        self.progressing = working(versions.get(OPERATOR).unwrap_or_default(), on);
        self
    }

    /// Sets `Degraded`.
    #[must_use]
    pub fn degraded(mut self, reason: impl Into<String>, message: impl Into<String>) -> Self {
        self.degraded = Claim::new(true, reason, message);
        self
    }

    /// Whether new versions may be reported; old ones stay while the operator is progressing or degraded.
    pub fn has_arrived(&self) -> bool {
        self.available.holds && !self.progressing.holds && !self.degraded.holds
    }
}

fn deployed(versions: impl fmt::Display) -> String {
    format!("Cluster has deployed {versions}")
}

fn working(release: &str, on: &str) -> Claim {
    let message = if on.is_empty() {
        format!("Working towards {release}")
    } else {
        format!("Working towards {release}: {on}")
    };
    Claim::new(true, "Progressing", message)
}

/// The next status: new versions only when the operator has arrived, until then the reported ones. Conditions keep
/// their transition time while their status is unchanged; conditions of other managers stay.
pub fn next(
    old: &ClusterOperatorStatus,
    versions: &Versions,
    state: &State,
    now: Timestamp,
) -> ClusterOperatorStatus {
    let mut status = old.clone();
    let mut available = state.available.clone();
    // Until the operator has arrived, the versions reported before are the deployed ones.
    if !state.has_arrived() && available.message == deployed(versions) {
        available.message = if old.versions.is_empty() {
            String::new()
        } else {
            deployed(listed(&old.versions))
        };
    }
    for (kind, claim) in [
        ("Available", &available),
        ("Progressing", &state.progressing),
        ("Degraded", &state.degraded),
    ] {
        settle(&mut status.conditions, kind, claim, now);
    }
    // The order is the contract with the cluster version operator: it takes a version in
    // `status.versions` as proof that no old pod is left.
    if state.has_arrived() && !versions.are_in(old) {
        status.versions = versions.over(&old.versions);
    }
    status
}

fn settle(conditions: &mut Vec<Condition>, kind: &str, claim: &Claim, now: Timestamp) {
    let status = if claim.holds { "True" } else { "False" };
    let place = conditions.iter().position(|it| it.kind == kind);
    let place = place.unwrap_or_else(|| {
        conditions.push(Condition {
            kind: kind.to_owned(),
            ..Condition::default()
        });
        conditions.len() - 1
    });
    let condition = &mut conditions[place];
    if condition.status != status || condition.last_transition_time.is_none() {
        condition.last_transition_time = Some(Time(now));
    }
    status.clone_into(&mut condition.status);
    condition.reason.clone_from(&claim.reason);
    condition.message.clone_from(&claim.message);
}
