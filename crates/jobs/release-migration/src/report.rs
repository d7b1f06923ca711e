//! The progress of a cluster towards a release, as text and as data.
//!
//! The text has the layout of `oc adm upgrade status`. It adds the kind of change, the estimated time of a migration,
//! which operators report their image, and which claim completion too early.

mod data;
mod insights;
mod nodes;
mod operators;
mod projection;
mod reading;
#[cfg(test)]
mod tests;
mod text;

use std::collections::BTreeMap;

use api::openshift::{ClusterOperator, ClusterVersion, MachineConfigPool};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use serde::Serialize;

use crate::adoption::Adoption;
use crate::applied;
use crate::conditions::MACHINE_CONFIG;
use crate::eta::{Basis, Estimate, PendingOperator, UpdateDurations, estimate};
use crate::evaluate::Plan;
use crate::evidence::{Arrival, Evidence};
use crate::history::{Change, KnownPayloads, classify};

use projection::{Projection, rounded};

pub use insights::{Insight, Level};
pub use nodes::{NodeAssessment, NodePhase, NodeReport, PoolAssessment, PoolReport};
pub use operators::OperatorReport;
pub use reading::{MACHINE_CONFIG_OPERATOR, machine_config_image, rendered_for};
pub use text::Details;

/// The inputs of a report.
#[derive(Debug, Clone, Copy)]
pub struct Cluster<'a> {
    /// The ClusterVersion.
    pub version: &'a ClusterVersion,
    /// The live ClusterOperators.
    pub operators: &'a [ClusterOperator],
    /// MachineConfigPools.
    pub pools: &'a [MachineConfigPool],
    /// Nodes.
    pub nodes: &'a [&'a Node],
    /// The release version that rendered MachineConfigs are for, by name.
    pub configurations: &'a BTreeMap<String, String>,
    /// The expected versions of operators, if the release is known.
    pub plan: Option<&'a Plan>,
    /// The image of the machine-config-operator, which it has to report, if the release is not known.
    pub machine_config_image: Option<&'a str>,
    /// The rollout state of operator pods, if they and the release are known.
    pub evidence: &'a [Evidence],
    /// Known payloads.
    pub known: &'a KnownPayloads,
    /// Recorded durations of operators.
    pub past: &'a UpdateDurations,
    /// The current time.
    pub now: Timestamp,
}

/// The assessment of the control plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub enum Assessment {
    /// It progresses.
    Progressing,
    /// It progresses, but slower than expected.
    #[serde(rename = "Progressing - Slow")]
    Slow,
    /// It does not progress.
    Stalled,
    /// It is updated.
    Completed,
    /// It claims completion too early.
    #[serde(rename = "Completed early")]
    Early,
}

impl Assessment {
    /// The displayed name.
    pub fn word(self) -> &'static str {
        match self {
            Self::Progressing => "Progressing",
            Self::Slow => "Progressing - Slow",
            Self::Stalled => "Stalled",
            Self::Completed => "Completed",
            Self::Early => "Completed early",
        }
    }
}

/// The target release.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Target {
    /// Its version.
    pub version: String,
    /// Its image.
    pub image: String,
    /// The kind of change.
    pub change: Change,
    /// The displayed text.
    pub text: String,
}

/// The number of updated operators.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Completion {
    /// Percentage.
    pub percent: usize,
    /// All operators.
    pub total: usize,
    /// Updated operators.
    pub updated: usize,
    /// Updating operators.
    pub updating: usize,
    /// Operators that have not started.
    pub waiting: usize,
}

/// The health of operators.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Health {
    /// Healthy operators.
    pub healthy: usize,
    /// Unavailable operators.
    pub unavailable: usize,
    /// Available but degraded operators.
    pub degraded: usize,
}

/// The operators and the control plane nodes.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ControlPlane {
    /// The assessment.
    pub assessment: Assessment,
    /// The target release.
    pub target: Target,
    /// Updating operators.
    pub updating: Vec<String>,
    /// The number of updated operators.
    pub completion: Completion,
    /// The start time.
    #[serde(serialize_with = "data::time")]
    pub started: Option<Timestamp>,
    /// The end time, if completed.
    #[serde(serialize_with = "data::time")]
    pub completed: Option<Timestamp>,
    /// The elapsed time.
    #[serde(serialize_with = "data::duration")]
    pub duration: Option<SignedDuration>,
    /// The estimated remaining time, if known.
    #[serde(serialize_with = "data::estimate")]
    pub remaining: Option<Estimate>,
    /// The projection of an update to another version.
    #[serde(skip)]
    projected: Option<Projection>,
    /// The health of operators.
    pub health: Health,
    /// Every operator, by name.
    pub operators: Vec<OperatorReport>,
    /// The MachineConfigPools of the control plane.
    pub pools: Vec<PoolReport>,
}

/// The complete report.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Whether an update is in progress.
    pub updating: bool,
    /// The operators and the control plane nodes.
    pub control_plane: ControlPlane,
    /// The other MachineConfigPools.
    pub workers: Vec<PoolReport>,
    /// Which operators report images.
    pub adoption: Adoption,
    /// The rollout state of operator pods.
    pub evidence: Vec<Evidence>,
    /// Insights.
    pub health: Vec<Insight>,
}

impl Report {
    /// Computes the report of a cluster.
    pub fn of(cluster: &Cluster<'_>) -> Self {
        let history = cluster.version.history();
        let target = target(cluster);
        let operators = operators::reports(cluster);
        let migrating = !matches!(target.change, Change::Install | Change::Update { .. });
        let claims = |kind: &str| cluster.version.condition(kind);
        let progressing = claims("Progressing").is_some_and(api::openshift::Condition::is_true);
        let newest = history.first();
        let completed =
            newest.is_some_and(api::openshift::UpdateHistory::is_completed) && !progressing;
        let arrived =
            operators.iter().all(|it| it.updated) && cluster.evidence.iter().all(has_arrived);
        // As the controller judges: neither may report completion while the other does not.
        let blocked = applied::failing(cluster.version).is_some()
            || operators.iter().any(|it| it.is_blocking);
        let failing = claims("Failing").map_or("", |it| it.status.as_str());
        let time = |time: Option<&k8s_openapi::apimachinery::pkg::apis::meta::v1::Time>| {
            time.map(|it| it.0)
        };
        let started = newest.and_then(|it| time(it.started_time.as_ref()));
        let ended = newest
            .filter(|_| completed)
            .and_then(|it| time(it.completion_time.as_ref()));
        let projected = match (started, migrating) {
            (Some(started), false) if !completed => {
                projection::project(history, &operators, started, cluster.now)
            }
            _ => None,
        };
        let assessment = match (completed, failing) {
            // The claim of the ClusterVersion is not enough: before 4.18 it is made at once after a migration begins.
            (true, _) if !arrived => Assessment::Early,
            (true, _) if blocked => Assessment::Stalled,
            (true, _) => Assessment::Completed,
            (false, "True") => Assessment::Stalled,
            _ if projected.is_some_and(Projection::is_stalled) => Assessment::Stalled,
            (false, "Unknown") => Assessment::Slow,
            _ if projected.is_some_and(Projection::is_slow) => Assessment::Slow,
            _ => Assessment::Progressing,
        };
        let migration = migrating.then_some(nodes::Migration { completed: ended });
        let (control, workers) = nodes::pools(cluster, &target.version, migration);
        let outdated = workers.iter().any(|pool| !pool.is_done());
        let control_plane = ControlPlane {
            assessment,
            updating: named(&operators, OperatorReport::is_updating),
            completion: completion(&operators),
            started,
            completed: ended,
            duration: started
                .map(|from| rounded(ended.unwrap_or(cluster.now).duration_since(from))),
            remaining: match projected {
                Some(projected) => Some(Estimate {
                    remaining: projected.remaining.max(SignedDuration::ZERO),
                    basis: Basis::Operators,
                }),
                None if completed => None,
                None => remaining(cluster, &operators, &control),
            },
            projected,
            health: health(&operators),
            target,
            operators,
            pools: control,
        };
        let mut report = Self {
            updating: progressing || outdated || assessment == Assessment::Early,
            adoption: adoption(cluster),
            evidence: cluster.evidence.to_vec(),
            control_plane,
            workers,
            health: Vec::new(),
        };
        report.health = insights::insights(cluster, &report);
        report
    }

    /// Whether everything is complete, with worker nodes if `workers` is set.
    pub fn is_complete(&self, workers: bool) -> bool {
        self.control_plane.assessment == Assessment::Completed
            && (!workers || self.workers.iter().all(PoolReport::is_done))
    }
}

/// Whether no pod of another release runs. Readiness of updated pods is left to the operator.
fn has_arrived(evidence: &Evidence) -> bool {
    evidence.arrival != Arrival::Rolling
}

fn named(operators: &[OperatorReport], of: impl Fn(&OperatorReport) -> bool) -> Vec<String> {
    let found = operators.iter().filter(|it| of(it));
    found.map(|it| it.name.clone()).collect()
}

fn completion(operators: &[OperatorReport]) -> Completion {
    let total = operators.len();
    let updated = operators.iter().filter(|it| it.updated).count();
    let updating = operators.iter().filter(|it| it.is_updating()).count();
    // Rounded, but 100% only if all are updated.
    let rounded = (updated * 200 + total).checked_div(total * 2).unwrap_or(0);
    Completion {
        percent: if updated < total {
            rounded.min(99)
        } else {
            rounded
        },
        total,
        updated,
        updating,
        waiting: total - updated - updating,
    }
}

fn health(operators: &[OperatorReport]) -> Health {
    let mut health = Health::default();
    for operator in operators {
        if !operator.available {
            health.unavailable += 1;
        } else if operator.degraded {
            health.degraded += 1;
        } else {
            health.healthy += 1;
        }
    }
    health
}

/// By the release if known, else by what operators report.
fn adoption(cluster: &Cluster<'_>) -> Adoption {
    match cluster.plan {
        Some(plan) => {
            let operators = plan.operators().iter();
            Adoption::of(operators.map(|it| (it.name.as_str(), &it.expected)))
        }
        None => Adoption::of(operators::of_release(cluster.operators)),
    }
}

fn target(cluster: &Cluster<'_>) -> Target {
    let history = cluster.version.history();
    let desired = cluster.version.status.as_ref().map(|it| &it.desired);
    let version = desired.map(|it| it.version.clone()).unwrap_or_default();
    let image = desired.map(|it| it.image.clone()).unwrap_or_default();
    let change = classify(history, cluster.known).into_iter().next();
    let change = change.unwrap_or(Change::Install);
    let text = match &change {
        Change::Install => format!("{version} (a new install)"),
        Change::Update {
            from,
            complete: true,
        } => format!("{version} (from {from})"),
        Change::Update { from, .. } => format!("{version} (from incomplete {from})"),
        Change::SingleToMulti => format!("{version} to Multi-Architecture"),
        Change::MultiToMulti => format!("{version} (Multi-Architecture, with other images)"),
        Change::Back => format!("{version} (back to a single architecture)"),
        Change::Remirror => format!("{version} (the same images from another place)"),
        Change::Rebuild => format!("{version} (with other images)"),
        Change::SameVersion => format!("{version} (the same version from another image)"),
    };
    Target {
        version,
        image,
        change,
        text,
    }
}

/// The estimated remaining time.
fn remaining(
    cluster: &Cluster<'_>,
    operators: &[OperatorReport],
    control: &[PoolReport],
) -> Option<Estimate> {
    let pending = operators.iter().filter(|it| !it.updated);
    let awaited = |it: &OperatorReport| PendingOperator {
        name: it.name.clone(),
        waited: it
            .since
            .filter(|_| it.progressing)
            .map(|since| cluster.now.duration_since(since)),
    };
    // machine-config restarts nodes last.
    let (last, first): (Vec<_>, Vec<_>) = pending.partition(|it| it.name == MACHINE_CONFIG);
    let waves = [first, last].map(|wave| wave.into_iter().map(awaited).collect());
    let machines = (!control.is_empty()).then(|| nodes::machines(control));
    estimate(&waves, cluster.past, machines)
}
