//! What a ClusterVersion says while a release is applied, and after.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use machinery::json::go_quote;
use serde::Serialize;

use crate::evaluate::{Evaluation, Phase};
use crate::failure::{Effect, Failure};
use crate::target::INVALID;

/// The operator that takes longest, as it restarts every machine.
pub const MACHINE_CONFIG: &str = "machine-config";

/// How long an operator may take before it is called slow.
const SLOW: SignedDuration = SignedDuration::from_mins(30);
/// How long machine-config may.
const SLOW_MACHINE_CONFIG: SignedDuration = SignedDuration::from_mins(90);
/// How long an operator may be degraded before the update fails.
const DEGRADED: SignedDuration = SignedDuration::from_mins(40);

/// Since when operators are waited for: since their manifests were first reached.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Waits(BTreeMap<String, Timestamp>);

impl Waits {
    /// Nobody is waited for any more: a new attempt at another release begins.
    pub fn restart(&mut self) {
        self.0.clear();
    }

    /// Takes note of who is waited for now, and forgets who is well.
    pub fn note(&mut self, evaluation: &Evaluation, now: Timestamp) {
        for verdict in evaluation.operators.iter().filter(|it| it.reached) {
            if verdict.failure.is_some() {
                self.0.entry(verdict.name.clone()).or_insert(now);
            } else {
                self.0.remove(&verdict.name);
            }
        }
    }

    /// What is known from before.
    pub fn restored<'a>(known: impl IntoIterator<Item = (&'a str, Timestamp)>) -> Self {
        let known = known.into_iter();
        Self(known.map(|(name, at)| (name.to_owned(), at)).collect())
    }

    /// When the next one of those who are waited for has been for longer than it should.
    pub fn next_limit(&self, now: Timestamp) -> Option<Timestamp> {
        let limits = self.0.iter().flat_map(|(name, since)| {
            let slow = if name == MACHINE_CONFIG {
                SLOW_MACHINE_CONFIG
            } else {
                SLOW
            };
            // Limits have to be exceeded.
            [slow, DEGRADED].map(|limit| *since + limit + SignedDuration::from_secs(1))
        });
        limits.filter(|at| *at > now).min()
    }

    /// Since when an operator is waited for.
    pub fn since(&self, name: &str) -> Option<Timestamp> {
        self.0.get(name).copied()
    }

    /// Whether an operator has been waited for longer than this.
    fn exceeds(&self, name: &str, limit: SignedDuration, now: Timestamp) -> bool {
        self.since(name)
            .is_some_and(|since| now.duration_since(since) > limit)
    }
}

/// What is known when conditions are written.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// What the cluster does.
    pub phase: Phase,
    /// The version of the release.
    pub version: &'a str,
    /// The payload of the release.
    pub image: &'a str,
    /// Whether what is asked of the cluster makes no sense.
    pub invalid: bool,
    /// What holds it up.
    pub failure: Option<&'a Failure>,
    /// Manifests that are done.
    pub done: usize,
    /// Manifests that there are.
    pub total: usize,
    /// Since when operators are waited for.
    pub waits: &'a Waits,
    /// The time.
    pub now: Timestamp,
}

/// What a condition is to say.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Claim {
    /// `True`, `False` or `Unknown`.
    pub status: &'static str,
    /// Why, in a word; often none.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub reason: &'static str,
    /// Why, in a sentence.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// The conditions that follow the progress of a release.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Claims {
    /// `Available`; none if it stays as it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub available: Option<Claim>,
    /// `Progressing`.
    pub progressing: Claim,
    /// `Failing`.
    pub failing: Claim,
}

/// What `ReleaseAccepted` says when a release was read and found good. One that is for one architecture is
/// for that of whoever reads it.
pub fn accepted(version: &str, image: &str, architecture: &str) -> Claim {
    let [version, image, architecture] = [version, image, architecture].map(go_quote);
    Claim {
        status: "True",
        reason: "PayloadLoaded",
        message: format!(
            "Payload loaded version={version} image={image} architecture={architecture}"
        ),
    }
}

/// What `ReleaseAccepted` says when a release could not be read or is not what was asked for.
pub fn refused(step: Step, version: &str, image: &str, why: &str) -> Claim {
    let [version, image] = [version, image].map(go_quote);
    let (reason, begin) = match step {
        Step::Retrieve => ("RetrievePayload", "Retrieving"),
        Step::Load => ("LoadPayload", "Loading"),
        Step::Verify => ("VerifyPayloadVersion", "Verifying"),
    };
    Claim {
        status: "False",
        reason,
        message: format!("{begin} payload failed version={version} image={image} failure={why}"),
    }
}

/// What is done with a release before it is applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Step {
    /// Its files are fetched.
    Retrieve,
    /// They are read.
    Load,
    /// They are held against what was asked for.
    Verify,
}

/// What a failure means while a release is on its way.
struct Tail {
    message: String,
    /// Whether it is only being waited.
    is_waiting: bool,
    /// Whether it takes longer than it should.
    is_slow: bool,
}

/// Decides what a ClusterVersion says.
pub fn claims(facts: &Facts<'_>) -> Claims {
    let release = [facts.version, facts.image, "<unknown>"];
    let release = release.into_iter().find(|it| !it.is_empty()).unwrap_or("");
    let arrived = facts.phase == Phase::Reconciling;
    let tail = facts
        .failure
        .filter(|_| !arrived)
        .and_then(|it| tail(it, facts));
    let is_waiting = tail.as_ref().is_some_and(|tail| tail.is_waiting);
    Claims {
        available: arrived.then(|| Claim {
            status: "True",
            reason: "",
            message: format!("Done applying {release}"),
        }),
        progressing: progressing(facts, release, tail.as_ref()),
        failing: match (&tail, facts.failure) {
            (Some(tail), _) if tail.is_slow => Claim {
                status: "Unknown",
                reason: "SlowClusterOperator",
                message: tail.message.clone(),
            },
            (_, Some(failure)) if !is_waiting => failing(failure, arrived),
            _ => Claim {
                status: "False",
                ..Claim::default()
            },
        },
    }
}

fn failing(failure: &Failure, arrived: bool) -> Claim {
    let told = if arrived {
        Some(failure.clone())
    } else {
        failure.failing()
    };
    match told {
        Some(told) => Claim {
            status: "True",
            reason: told.word(),
            message: told.to_string(),
        },
        None => Claim {
            status: "False",
            ..Claim::default()
        },
    }
}

fn progressing(facts: &Facts<'_>, release: &str, tail: Option<&Tail>) -> Claim {
    let arrived = facts.phase == Phase::Reconciling;
    let is_waiting = tail.is_some_and(|tail| tail.is_waiting);
    if let Some(failure) = facts.failure.filter(|_| !is_waiting) {
        let why = tail.map_or_else(|| failure.summary(), |tail| tail.message.clone());
        let begin = if arrived {
            "Error while reconciling"
        } else {
            "Unable to apply"
        };
        return Claim {
            status: if arrived { "False" } else { "True" },
            reason: failure.word(),
            message: format!("{begin} {release}: {why}"),
        };
    }
    let reason = if facts.invalid { INVALID } else { "" };
    if arrived {
        return Claim {
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
        return Claim {
            status: "True",
            reason,
            message: format!("Reconciling {release}: the cluster version is invalid"),
        };
    }
    let percent = (facts.done * 100).checked_div(facts.total).unwrap_or(0);
    let done = (facts.done > 0).then(|| {
        format!(
            ": {} of {} done ({percent}% complete)",
            facts.done, facts.total
        )
    });
    let waiting = tail.map(|tail| {
        let joint = if done.is_some() { ", " } else { ": " };
        format!("{joint}{}", tail.message)
    });
    Claim {
        status: "True",
        reason: facts.failure.map_or("", Failure::word),
        message: format!(
            "Working towards {release}{}{}",
            done.unwrap_or_default(),
            waiting.unwrap_or_default()
        ),
    }
}

/// What a failure means on the way; none if it just is one.
fn tail(failure: &Failure, facts: &Facts<'_>) -> Option<Tail> {
    let (waits, now) = (facts.waits, facts.now);
    match failure.effect() {
        Effect::Fail => None,
        Effect::Report => Some(Tail {
            message: failure.to_string(),
            is_waiting: false,
            is_slow: false,
        }),
        Effect::None => {
            let slow = slow(failure.names(), waits, now);
            Some(Tail {
                is_waiting: true,
                is_slow: slow.is_some(),
                message: slow
                    .unwrap_or_else(|| format!("waiting on {}", failure.names().join(", "))),
            })
        }
        Effect::FailAfterInterval => {
            let exceeded = over(failure.names(), |name| waits.exceeds(name, DEGRADED, now));
            Some(Tail {
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

/// Those of several for which something holds; none if there is none.
fn over(names: &[String], is_over: impl Fn(&str) -> bool) -> Option<String> {
    let names = names.iter().map(String::as_str);
    let over: Vec<&str> = names.filter(|name| is_over(name)).collect();
    (!over.is_empty()).then(|| over.join(", "))
}

fn slow(names: &[String], waits: &Waits, now: Timestamp) -> Option<String> {
    let others = over(names, |name| {
        name != MACHINE_CONFIG && waits.exceeds(name, SLOW, now)
    });
    let others = others.map(|names| format!("{names} over 30 minutes"));
    let machines = over(names, |name| {
        name == MACHINE_CONFIG && waits.exceeds(name, SLOW_MACHINE_CONFIG, now)
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
