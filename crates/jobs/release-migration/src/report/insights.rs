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
    /// The details, in the words of the object concerned.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Documentation about it.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub reference: &'static str,
    /// The object concerned: its resource and its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<(&'static str, String)>,
}

impl Insight {
    /// An insight without details.
    fn new(level: Level, impact: &'static str, message: String) -> Self {
        Self {
            since: None,
            level,
            impact,
            message,
            description: String::new(),
            reference: "",
            object: None,
        }
    }

    fn since(mut self, since: Option<Timestamp>) -> Self {
        self.since = since;
        self
    }

    fn details(
        mut self,
        description: &str,
        reference: &'static str,
        object: (&'static str, &str),
    ) -> Self {
        description.clone_into(&mut self.description);
        self.reference = reference;
        self.object = Some((object.0, object.1.to_owned()));
        self
    }
}

/// Resources of objects, as `oc adm upgrade status` names them.
const CLUSTER_VERSIONS: &str = "clusterversions.config.openshift.io";
const CLUSTER_OPERATORS: &str = "clusteroperators.config.openshift.io";
const POOLS: &str = "machineconfigpools.machineconfiguration.openshift.io";
const NODES: &str = "nodes";

/// Documentation, as `oc adm upgrade status` links it.
const DEGRADED_RUNBOOK: &str = "https://github.com/openshift/runbooks/blob/master/alerts/cluster-monitoring-operator/ClusterOperatorDegraded.md";
const DOWN_RUNBOOK: &str = "https://github.com/openshift/runbooks/blob/master/alerts/cluster-monitoring-operator/ClusterOperatorDown.md";
const HISTORY_DOCUMENTATION: &str = "https://docs.openshift.com/container-platform/latest/updating/troubleshooting_updates/gathering-data-cluster-update.html#gathering-clusterversion-history-cli_troubleshooting_updates";
const PAUSED_DOCUMENTATION: &str = "https://docs.openshift.com/container-platform/latest/support/troubleshooting/troubleshooting-operator-issues.html#troubleshooting-disabling-autoreboot-mco_troubleshooting-operator-issues";
const NODE_DOCUMENTATION: &str = "https://docs.openshift.com/container-platform/latest/post_installation_configuration/machine-configuration-tasks.html#understanding-the-machine-config-operator";

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
    all.extend(failing(cluster));
    all.extend(incomplete(cluster, report));
    let started = report.control_plane.started;
    if all.is_empty() && report.updating {
        let message = "Update is proceeding well".to_owned();
        all.push(Insight::new(Level::Info, NO_IMPACT, message).since(started));
    }
    let is_update = matches!(
        report.control_plane.target.change,
        Change::Update { .. } | Change::Install
    );
    if report.updating && !is_update && !report.adoption.silent.is_empty() {
        let message = report.adoption.to_string();
        all.push(Insight::new(Level::Info, NO_IMPACT, message).since(started));
    }
    // Of one level the latest first, and those without a time last.
    all.sort_by_key(|it| std::cmp::Reverse((it.level, it.since)));
    all
}

/// What the ClusterVersion reports about failures.
fn failing(cluster: &Cluster<'_>) -> Option<Insight> {
    let failing = cluster.version.condition("Failing")?;
    let verb = match failing.status.as_str() {
        "False" => return None,
        // The wait is longer than expected, but nothing has failed.
        "Unknown" => "may be",
        _ => "is",
    };
    let message = format!(
        "Cluster Version version {verb} failing to proceed with the update ({})",
        failing.reason
    );
    let since = failing.last_transition_time.as_ref().map(|it| it.0);
    let object = (CLUSTER_VERSIONS, "version");
    let insight = Insight::new(Level::Warning, STALLED, message).since(since);
    Some(insight.details(&failing.message, DEGRADED_RUNBOOK, object))
}

/// An update that began before the previous one was complete.
fn incomplete(cluster: &Cluster<'_>, report: &Report) -> Option<Insight> {
    let [newest, previous, older @ ..] = cluster.version.history() else {
        return None;
    };
    let is_done = report.control_plane.operators.iter().all(|it| it.updated);
    if is_done || previous.is_completed() {
        return None;
    }
    let completed = older.iter().find(|it| it.is_completed());
    let last = completed.map_or("unknown", |it| it.version.as_str());
    let previous = &previous.version;
    let message =
        format!("Previous update to {previous} never completed, last complete update was {last}");
    let description = format!(
        "Current update to {} was initiated while the previous update to version {previous} was still in progress",
        newest.version
    );
    let object = (CLUSTER_VERSIONS, "version");
    let insight = Insight::new(Level::Warning, NO_IMPACT, message);
    let insight = insight.since(report.control_plane.started);
    Some(insight.details(&description, HISTORY_DOCUMENTATION, object))
}

fn conditions(cluster: &Cluster<'_>) -> Vec<Insight> {
    let mut all = Vec::new();
    for (name, operator) in super::operators::of_release(cluster.operators) {
        for (kind, bad, [warning, error], what, runbook) in [
            (
                "Available",
                "False",
                UNAVAILABLE_LIMITS,
                "unavailable",
                DOWN_RUNBOOK,
            ),
            (
                "Degraded",
                "True",
                DEGRADED_LIMITS,
                "degraded",
                DEGRADED_RUNBOOK,
            ),
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
            let level = if lasted < error {
                Level::Warning
            } else {
                Level::Error
            };
            let message = format!("Cluster Operator {name} is {what} ({})", found.reason);
            let description = match found.message.as_str() {
                "" => "<no message>",
                message => message,
            };
            let insight = Insight::new(level, "API Availability", message).since(Some(since));
            all.push(insight.details(description, runbook, (CLUSTER_OPERATORS, name)));
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
    let message = format!(
        "ClusterVersion claims completion, but these operators have not arrived: {}",
        names.join(", ")
    );
    Some(Insight::new(Level::Warning, "Completion", message).since(plane.completed))
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
        .map(|(operator, diagnosis)| {
            let message = format!(
                "Cluster Operator {} reports {} that can never match the release: {}",
                operator.name, diagnosis.undone.name, diagnosis.message
            );
            Insight::new(Level::Error, STALLED, message).since(operator.since)
        })
        .collect()
}

fn machines(report: &Report) -> Vec<Insight> {
    let mut all = Vec::new();
    for pool in report.control_plane.pools.iter().chain(&report.workers) {
        if pool.assessment == PoolAssessment::Excluded {
            let message = format!(
                "Outdated nodes in a paused pool '{}' will not be updated",
                pool.name
            );
            let description = "Pool is paused, which stops all changes to the nodes in the pool, including updates. The nodes will not be updated until the pool is unpaused by the administrator.";
            let insight = Insight::new(Level::Warning, STALLED, message);
            all.push(insight.details(description, PAUSED_DOCUMENTATION, (POOLS, &pool.name)));
        }
        let mut nodes: Vec<_> = pool.nodes.iter().collect();
        nodes.sort_by_key(|it| &it.name);
        for node in nodes {
            let (level, impact, what) = match node.assessment {
                NodeAssessment::Unavailable => (Level::Warning, "Update Speed", "unavailable"),
                NodeAssessment::Degraded => (Level::Error, STALLED, "degraded"),
                _ => continue,
            };
            let message = format!("Node {} is {what}", node.name);
            let insight = Insight::new(level, impact, message);
            let object = (NODES, node.name.as_str());
            all.push(insight.details(&node.message, NODE_DOCUMENTATION, object));
        }
    }
    all
}
