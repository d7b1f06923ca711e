//! Insights: conditions that affect the update.

use std::fmt;

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use super::nodes::{NodeAssessment, PoolAssessment};
use super::{Assessment, Cluster, Report, has_arrived};
use crate::history::Change;

/// The severity of an insight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub enum Level {
    /// Informational.
    Info,
    /// May become an error.
    Warning,
    /// Affects the update.
    Error,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

/// A condition that affects the update.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Insight {
    /// Its start.
    #[serde(serialize_with = "super::data::time")]
    pub since: Option<Timestamp>,
    /// Its severity.
    pub level: Level,
    /// Its impact.
    pub impact: &'static str,
    /// Its message.
    pub message: String,
}

/// Durations after which a condition is a warning and an error, as in `oc adm upgrade status`.
const UNAVAILABLE_LIMITS: [SignedDuration; 2] =
    [SignedDuration::from_mins(5), SignedDuration::from_mins(20)];
const DEGRADED_LIMITS: [SignedDuration; 2] =
    [SignedDuration::from_mins(5), SignedDuration::from_mins(40)];

const STALLED: &str = "Update Stalled";
const NO_IMPACT: &str = "None";

/// All insights, most severe first; a single positive one if there are none.
pub(super) fn insights(cluster: &Cluster<'_>, report: &Report) -> Vec<Insight> {
    let mut all = Vec::new();
    all.extend(conditions(cluster));
    all.extend(early(report));
    all.extend(hopeless(report));
    all.extend(machines(report));
    let started = report.control_plane.started;
    let failing = cluster.version.condition("Failing");
    if let Some(failing) = failing.filter(|it| it.is_true()) {
        all.push(Insight {
            since: failing.last_transition_time.as_ref().map(|it| it.0),
            level: Level::Warning,
            impact: STALLED,
            message: format!(
                "Cluster Version version is failing to proceed with the update ({})",
                failing.reason
            ),
        });
    }
    if all.is_empty() && report.updating {
        all.push(Insight {
            since: started,
            level: Level::Info,
            impact: NO_IMPACT,
            message: "Update is proceeding well".to_owned(),
        });
    }
    let is_update = matches!(
        report.control_plane.target.change,
        Change::Update { .. } | Change::Install
    );
    if report.updating && !is_update && !report.adoption.silent.is_empty() {
        all.push(Insight {
            since: started,
            level: Level::Info,
            impact: NO_IMPACT,
            message: report.adoption.to_string(),
        });
    }
    all.sort_by_key(|it| (std::cmp::Reverse(it.level), it.since));
    all
}

fn conditions(cluster: &Cluster<'_>) -> Vec<Insight> {
    let mut all = Vec::new();
    for (name, operator) in super::operators::of_release(cluster.operators) {
        for (kind, bad, [warning, error], what) in [
            ("Available", "False", UNAVAILABLE_LIMITS, "unavailable"),
            ("Degraded", "True", DEGRADED_LIMITS, "degraded"),
        ] {
            let Some(found) = operator.condition(kind).filter(|it| it.status == bad) else {
                continue;
            };
            // Without a time its duration is unknown, and the limits cannot be applied.
            let Some(since) = found.last_transition_time.as_ref().map(|it| it.0) else {
                continue;
            };
            let lasted = cluster.now.duration_since(since);
            if lasted < warning {
                continue;
            }
            all.push(Insight {
                since: Some(since),
                level: if lasted < error {
                    Level::Warning
                } else {
                    Level::Error
                },
                impact: "API Availability",
                message: format!("Cluster Operator {name} is {what} ({})", found.reason),
            });
        }
    }
    all
}

/// A cluster that claims completion too early.
fn early(report: &Report) -> Option<Insight> {
    let plane = &report.control_plane;
    if plane.assessment != Assessment::Early {
        return None;
    }
    let silent = report.evidence.iter().filter(|it| !has_arrived(it));
    let mut names: Vec<&str> = plane
        .operators
        .iter()
        .filter(|it| !it.updated)
        .map(|it| it.name.as_str())
        .chain(silent.map(|it| it.operator.as_str()))
        .collect();
    names.sort_unstable();
    names.dedup();
    Some(Insight {
        since: plane.completed,
        level: Level::Warning,
        impact: "Completion",
        message: format!(
            "ClusterVersion claims completion, but these operators have not arrived: {}",
            names.join(", ")
        ),
    })
}

/// Operators whose reported versions can never match.
fn hopeless(report: &Report) -> Vec<Insight> {
    let operators = report.control_plane.operators.iter();
    let wrong = operators.flat_map(|it| {
        let undone = it.undone.iter().filter(|it| !it.passes);
        undone.map(move |diagnosis| (it, diagnosis))
    });
    // An operator that reports nothing yet may still be the previous build.
    let wrong = wrong.filter(|(_, it)| it.undone.from.is_some());
    wrong
        .map(|(operator, diagnosis)| Insight {
            since: operator.since,
            level: Level::Error,
            impact: STALLED,
            message: format!(
                "Cluster Operator {} reports {} that can never match the release: {}",
                operator.name, diagnosis.undone.name, diagnosis.message
            ),
        })
        .collect()
}

fn machines(report: &Report) -> Vec<Insight> {
    let mut all = Vec::new();
    for pool in report.control_plane.pools.iter().chain(&report.workers) {
        if pool.assessment == PoolAssessment::Excluded {
            all.push(Insight {
                since: None,
                level: Level::Warning,
                impact: STALLED,
                message: format!(
                    "Outdated nodes in a paused pool '{}' will not be updated",
                    pool.name
                ),
            });
        }
        for node in &pool.nodes {
            if node.assessment == NodeAssessment::Unavailable {
                all.push(Insight {
                    since: None,
                    level: Level::Warning,
                    impact: "Update Speed",
                    message: format!("Node {} is unavailable", node.name),
                });
            }
            if node.assessment == NodeAssessment::Degraded {
                let why = if node.message.is_empty() {
                    String::new()
                } else {
                    format!(": {}", node.message)
                };
                all.push(Insight {
                    since: None,
                    level: Level::Error,
                    impact: STALLED,
                    message: format!("Node {} is degraded{why}", node.name),
                });
            }
        }
    }
    all
}
