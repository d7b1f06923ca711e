//! The spec of a Deployment with defaults and limits resolved.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use runtime::Error;

use crate::workloads::pods::portion;

/// The update strategy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Strategy {
    /// Rolling update.
    Rolling {
        /// Maximum number of pods above the desired replicas.
        surge: i32,
        /// Maximum number of unavailable pods.
        unavailable: i32,
    },
    /// All old pods terminate before the first new one is created.
    Recreate,
}

/// The resolved numbers of a spec.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) replicas: i32,
    pub(super) strategy: Strategy,
    pub(super) min_ready_seconds: i32,
    /// Progress deadline in seconds; upstream's maximum value disables it.
    pub(super) deadline: Option<i32>,
    /// Number of old sets to keep.
    pub(super) history: Option<i32>,
    pub(super) paused: bool,
}

impl Wanted {
    /// Resolves a spec.
    pub(super) fn of(deployment: &Deployment) -> Result<Self, Error> {
        let Some(spec) = &deployment.spec else {
            return Err(Error::Invalid("a deployment without a spec".to_owned()));
        };
        let replicas = spec.replicas.unwrap_or(1);
        let limit = |seconds: Option<i32>| seconds.filter(|number| *number != i32::MAX);
        let strategy = spec.strategy.as_ref();
        let kind = strategy.and_then(|strategy| strategy.type_.as_deref());
        let strategy = match kind {
            Some("Recreate") => Strategy::Recreate,
            None | Some("RollingUpdate") => {
                let rolling = strategy.and_then(|strategy| strategy.rolling_update.as_ref());
                let surge = rolling.and_then(|rolling| rolling.max_surge.as_ref());
                let unavailable = rolling.and_then(|rolling| rolling.max_unavailable.as_ref());
                fence(surge, unavailable, replicas)?
            }
            Some(other) => {
                return Err(Error::Invalid(format!(
                    "unexpected deployment strategy type: {other}"
                )));
            }
        };
        Ok(Self {
            replicas,
            strategy,
            min_ready_seconds: spec.min_ready_seconds.unwrap_or_default(),
            deadline: limit(spec.progress_deadline_seconds),
            history: limit(spec.revision_history_limit),
            paused: spec.paused == Some(true),
        })
    }

    /// Maximum number of pods above the desired replicas.
    pub(super) fn surge(&self) -> i32 {
        match self.strategy {
            Strategy::Rolling { surge, .. } => surge,
            Strategy::Recreate => 0,
        }
    }

    /// Minimum number of available pods.
    pub(super) fn min_available(&self) -> i32 {
        match self.strategy {
            Strategy::Rolling { unavailable, .. } => self.replicas - unavailable.min(self.replicas),
            Strategy::Recreate => self.replicas,
        }
    }

    /// Maximum number of pods.
    pub(super) fn most(&self) -> i32 {
        self.replicas.saturating_add(self.surge())
    }
}

/// Surge is rounded up and unavailability down; at least one of them has to be positive, or the
/// rollout would never proceed.
fn fence(
    surge: Option<&IntOrString>,
    unavailable: Option<&IntOrString>,
    replicas: i32,
) -> Result<Strategy, Error> {
    let resolve = |field: &str, value: Option<&IntOrString>, up| {
        match value {
        None => Ok(0),
        Some(value) => portion(value, replicas, up).ok_or_else(|| {
            Error::Invalid(format!(
                "spec.strategy.rollingUpdate.{field}: {value:?} is neither a number nor a percentage"
            ))
        }),
    }
    };
    let surge = resolve("maxSurge", surge, true)?;
    let unavailable = resolve("maxUnavailable", unavailable, false)?;
    let stuck = surge == 0 && unavailable == 0;
    Ok(Strategy::Rolling {
        surge,
        unavailable: if stuck { 1 } else { unavailable },
    })
}
