//! Conditions of a ClusterVersion during and after an update.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use machinery::json::go_quote;
use serde::Serialize;

use crate::evaluate::{Evaluation, Phase};
use crate::failure::{Effect, Failure};
use crate::target::INVALID;

/// The operator that takes longest, as it restarts every node.
pub const MACHINE_CONFIG: &str = "machine-config";

/// Time after which an operator counts as slow, as in the cluster-version operator. Operators are expected to change
/// their version within 20 minutes, machine-config within 90 (API documentation of ClusterOperator).
const SLOW_AFTER: SignedDuration = SignedDuration::from_mins(30);
/// The same for machine-config.
const MACHINE_CONFIG_SLOW_AFTER: SignedDuration = SignedDuration::from_mins(90);
/// Time for which an operator may be degraded before the update fails, as in the cluster-version operator.
const FAIL_WHEN_DEGRADED_FOR: SignedDuration = SignedDuration::from_mins(40);

/// The start of the wait for each operator: when its manifest was first reached.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OperatorWaits(BTreeMap<String, Timestamp>);

impl OperatorWaits {
    /// Clears all waits when an update to another release starts.
    pub fn restart(&mut self) {
        self.0.clear();
    }

    /// Starts the waits of reached operators, and ends those of operators that are done.
    pub fn note(&mut self, evaluation: &Evaluation, now: Timestamp) {
        for verdict in evaluation.operators.iter().filter(|it| it.reached) {
            if verdict.failure.is_some() {
                // Kept while the operator changes from one failure to another: the wait is for the operator, not for
                // the reason.
                self.0.entry(verdict.name.clone()).or_insert(now);
            } else {
                self.0.remove(&verdict.name);
            }
        }
    }

    /// Restores waits from the status.
    pub fn restored<'a>(known: impl IntoIterator<Item = (&'a str, Timestamp)>) -> Self {
        let known = known.into_iter();
        Self(known.map(|(name, at)| (name.to_owned(), at)).collect())
    }

    /// The next time at which the wait for an operator exceeds a limit.
    pub fn next_limit(&self, now: Timestamp) -> Option<Timestamp> {
        let limits = self.0.iter().flat_map(|(name, since)| {
            let slow = if name == MACHINE_CONFIG {
                MACHINE_CONFIG_SLOW_AFTER
            } else {
                SLOW_AFTER
            };
            // Limits have to be exceeded, not reached.
            [slow, FAIL_WHEN_DEGRADED_FOR]
                .map(|limit| *since + limit + SignedDuration::from_secs(1))
        });
        limits.filter(|at| *at > now).min()
    }

    /// The start of the wait for an operator.
    pub fn since(&self, name: &str) -> Option<Timestamp> {
        self.0.get(name).copied()
    }

    /// Whether the wait for an operator exceeds a limit.
    fn exceeds(&self, name: &str, limit: SignedDuration, now: Timestamp) -> bool {
        self.since(name)
            .is_some_and(|since| now.duration_since(since) > limit)
    }
}

/// The inputs of the conditions.
#[derive(Debug, Clone, Copy)]
pub struct ConditionInputs<'a> {
    /// The phase of the release.
    pub phase: Phase,
    /// The version of the release.
    pub version: &'a str,
    /// The release image.
    pub image: &'a str,
    /// Whether `spec.desiredUpdate` is invalid.
    pub invalid: bool,
    /// What blocks completion.
    pub failure: Option<&'a Failure>,
    /// The number of completed manifests.
    pub done: usize,
    /// The number of all manifests.
    pub total: usize,
    /// The start of the wait for each operator.
    pub waits: &'a OperatorWaits,
    /// The current time.
    pub now: Timestamp,
}

/// Status, reason and message of a condition.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ConditionState {
    /// `True`, `False` or `Unknown`.
    pub status: &'static str,
    /// CamelCase reason; often empty.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub reason: &'static str,
    /// Message.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// The conditions about the progress of a release.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProgressConditions {
    /// `Available`; `None` if it does not change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub available: Option<ConditionState>,
    /// `Progressing`.
    pub progressing: ConditionState,
    /// `Failing`.
    pub failing: ConditionState,
}

/// `ReleaseAccepted` for a release that was loaded and verified. A single-architecture release is for the architecture
/// of the process that loads it.
pub fn accepted(version: &str, image: &str, architecture: &str) -> ConditionState {
    let [version, image, architecture] = [version, image, architecture].map(go_quote);
    ConditionState {
        status: "True",
        reason: "PayloadLoaded",
        message: format!(
            "Payload loaded version={version} image={image} architecture={architecture}"
        ),
    }
}

/// `ReleaseAccepted` for a release that could not be loaded or does not match the request.
pub fn refused(step: PayloadStep, version: &str, image: &str, why: &str) -> ConditionState {
    let [version, image] = [version, image].map(go_quote);
    let (reason, begin) = match step {
        PayloadStep::Retrieve => ("RetrievePayload", "Retrieving"),
        PayloadStep::Load => ("LoadPayload", "Loading"),
        PayloadStep::Verify => ("VerifyPayloadVersion", "Verifying"),
    };
    ConditionState {
        status: "False",
        reason,
        message: format!("{begin} payload failed version={version} image={image} failure={why}"),
    }
}

/// The steps before a release is applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PayloadStep {
    /// Fetch its files.
    Retrieve,
    /// Parse them.
    Load,
    /// Compare them with the requested release.
    Verify,
}

/// The effect of a failure during an update.
struct WaitState {
    message: String,
    /// Whether the update only waits.
    is_waiting: bool,
    /// Whether the wait is longer than expected.
    is_slow: bool,
}

/// Computes the conditions.
pub fn claims(facts: &ConditionInputs<'_>) -> ProgressConditions {
    let release = [facts.version, facts.image, "<unknown>"];
    let release = release.into_iter().find(|it| !it.is_empty()).unwrap_or("");
    let arrived = facts.phase == Phase::Reconciling;
    let wait_state = facts
        .failure
        .filter(|_| !arrived)
        .and_then(|it| wait_state(it, facts));
    let is_waiting = wait_state
        .as_ref()
        .is_some_and(|wait_state| wait_state.is_waiting);
    ProgressConditions {
        available: arrived.then(|| ConditionState {
            status: "True",
            reason: "",
            message: format!("Done applying {release}"),
        }),
        progressing: progressing(facts, release, wait_state.as_ref()),
        failing: match (&wait_state, facts.failure) {
            // Before True and False: pkg/cvo/status.go reports Unknown, because the wait is longer than expected, but
            // no operator has failed.
            (Some(wait_state), _) if wait_state.is_slow => ConditionState {
                status: "Unknown",
                reason: "SlowClusterOperator",
                message: wait_state.message.clone(),
            },
            (_, Some(failure)) if !is_waiting => failing(failure, arrived),
            _ => ConditionState {
                status: "False",
                ..ConditionState::default()
            },
        },
    }
}

fn failing(failure: &Failure, arrived: bool) -> ConditionState {
    // During an update, parts without an effect are not reported as failing. Once the release is complete, an operator
    // that leaves its version is a failure as well.
    let reported = if arrived {
        Some(failure.clone())
    } else {
        failure.failing()
    };
    match reported {
        Some(reported) => ConditionState {
            status: "True",
            reason: reported.word(),
            message: reported.to_string(),
        },
        None => ConditionState {
            status: "False",
            ..ConditionState::default()
        },
    }
}

fn progressing(
    facts: &ConditionInputs<'_>,
    release: &str,
    wait_state: Option<&WaitState>,
) -> ConditionState {
    let arrived = facts.phase == Phase::Reconciling;
    let is_waiting = wait_state.is_some_and(|wait_state| wait_state.is_waiting);
    if let Some(failure) = facts.failure.filter(|_| !is_waiting) {
        let why = wait_state.map_or_else(
            || failure.summary(),
            |wait_state| wait_state.message.clone(),
        );
        let begin = if arrived {
            "Error while reconciling"
        } else {
            "Unable to apply"
        };
        return ConditionState {
            status: if arrived { "False" } else { "True" },
            reason: failure.word(),
            message: format!("{begin} {release}: {why}"),
        };
    }
    let reason = if facts.invalid { INVALID } else { "" };
    if arrived {
        return ConditionState {
            status: "False",
            reason,
            message: if facts.invalid {
                format!("Stopped at {release}: the cluster version is invalid")
            } else {
                format!("Cluster version is {release}")
            },
        };
    }
    if facts.invalid {
        return ConditionState {
            status: "True",
            reason,
            message: format!("Reconciling {release}: the cluster version is invalid"),
        };
    }
    // Truncated as upstream does it, so that 100% never precedes completion.
    let percent = (facts.done * 100).checked_div(facts.total).unwrap_or(0);
    let done = (facts.done > 0).then(|| {
        format!(
            ": {} of {} done ({percent}% complete)",
            facts.done, facts.total
        )
    });
    let waiting = wait_state.map(|wait_state| {
        let joint = if done.is_some() { ", " } else { ": " };
        format!("{joint}{}", wait_state.message)
    });
    ConditionState {
        status: "True",
        reason: facts.failure.map_or("", Failure::word),
        message: format!(
            "Working towards {release}{}{}",
            done.unwrap_or_default(),
            waiting.unwrap_or_default()
        ),
    }
}

/// The effect of a failure during an update; `None` for a plain error.
fn wait_state(failure: &Failure, facts: &ConditionInputs<'_>) -> Option<WaitState> {
    let (waits, now) = (facts.waits, facts.now);
    match failure.effect() {
        Effect::Fail => None,
        Effect::Report => Some(WaitState {
            message: failure.to_string(),
            is_waiting: false,
            is_slow: false,
        }),
        // `convertErrorToProgressingForUpdateEffectNone` in pkg/cvo/status.go, with its texts: alerts and scripts match
        // them.
        Effect::None => {
            let slow = slow(failure.names(), waits, now);
            Some(WaitState {
                is_waiting: true,
                is_slow: slow.is_some(),
                message: slow
                    .unwrap_or_else(|| format!("waiting on {}", failure.names().join(", "))),
            })
        }
        Effect::FailAfterInterval => {
            let exceeded = names_over(failure.names(), |name| {
                waits.exceeds(name, FAIL_WHEN_DEGRADED_FOR, now)
            });
            Some(WaitState {
                is_waiting: exceeded.is_none(),
                is_slow: false,
                message: match exceeded {
                    Some(names) => {
                        format!("wait has exceeded 40 minutes for these operators: {names}")
                    }
                    None => {
                        format!("waiting up to 40 minutes on {}", failure.names().join(", "))
                    }
                },
            })
        }
    }
}

/// The names for which the predicate holds; `None` if there are none.
fn names_over(names: &[String], is_over: impl Fn(&str) -> bool) -> Option<String> {
    let names = names.iter().map(String::as_str);
    let names_over: Vec<&str> = names.filter(|name| is_over(name)).collect();
    (!names_over.is_empty()).then(|| names_over.join(", "))
}

fn slow(names: &[String], waits: &OperatorWaits, now: Timestamp) -> Option<String> {
    let others = names_over(names, |name| {
        name != MACHINE_CONFIG && waits.exceeds(name, SLOW_AFTER, now)
    });
    let others = others.map(|names| format!("{names} over 30 minutes"));
    let machines = names_over(names, |name| {
        name == MACHINE_CONFIG && waits.exceeds(name, MACHINE_CONFIG_SLOW_AFTER, now)
    });
    let machines = machines.map(|name| format!("{name} over 90 minutes"));
    let slow: Vec<String> = others.into_iter().chain(machines).collect();
    (!slow.is_empty()).then(|| {
        format!(
            "waiting on {} which is longer than expected",
            slow.join(" and ")
        )
    })
}
