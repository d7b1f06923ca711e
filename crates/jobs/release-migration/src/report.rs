//! Where a cluster is on its way to a release, as people and programs read it.
//!
//! The text is laid out as that of `oc adm upgrade status`. It says more where that is silent or wrong:
//! what kind of change it is, how long a migration will still take, which operators can be believed, and
//! who claims to have arrived and has not.

mod data;
mod insights;
mod nodes;
mod operators;
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
use crate::conditions::MACHINE_CONFIG;
use crate::eta::{Awaited, Estimate, Past, estimate};
use crate::evaluate::Plan;
use crate::evidence::{Arrival, Evidence};
use crate::history::{Change, KnownPayloads, classify};

pub use insights::{Insight, Level};
pub use nodes::{NodeAssessment, NodePhase, NodeReport, PoolAssessment, PoolReport};
pub use operators::OperatorReport;
pub use reading::{MACHINE_CONFIG_OPERATOR, machine_config_image, rendered_for};
pub use text::Details;

/// What is known of a cluster.
#[derive(Debug, Clone, Copy)]
pub struct Cluster<'a> {
    /// The release that it is on its way to.
    pub version: &'a ClusterVersion,
    /// What operators say.
    pub operators: &'a [ClusterOperator],
    /// Pools of machines.
    pub pools: &'a [MachineConfigPool],
    /// Machines.
    pub nodes: &'a [&'a Node],
    /// The release that rendered configurations of machines came with, by name.
    pub configurations: &'a BTreeMap<String, String>,
    /// What operators have to say, if the release is known.
    pub plan: Option<&'a Plan>,
    /// What the machine-config-operator runs, which is what it has to report, if the release is not known.
    pub machine_config_image: Option<&'a str>,
    /// What pods tell, if they and the release are known.
    pub evidence: &'a [Evidence],
    /// What is known of payloads.
    pub known: &'a KnownPayloads,
    /// How long operators were waited for in the past.
    pub past: &'a Past,
    /// The time.
    pub now: Timestamp,
}

/// How the control plane gets on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub enum Assessment {
    /// It does.
    Progressing,
    /// It does, but something takes longer than it should.
    #[serde(rename = "Progressing - Slow")]
    Slow,
    /// It does not.
    Stalled,
    /// It has arrived.
    Completed,
    /// It says to have arrived, and has not.
    #[serde(rename = "Completed early")]
    Early,
}

impl Assessment {
    /// As it is shown.
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

/// The release that a cluster is on its way to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Target {
    /// Its version.
    pub version: String,
    /// Its payload.
    pub image: String,
    /// What kind of change it is.
    pub change: Change,
    /// As it is shown.
    pub text: String,
}

/// How many operators have arrived.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Completion {
    /// Of a hundred.
    pub percent: usize,
    /// All of them.
    pub total: usize,
    /// Those that have arrived.
    pub updated: usize,
    /// Those that are on their way.
    pub updating: usize,
    /// Those that have not started.
    pub waiting: usize,
}

/// How operators are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Health {
    /// Well.
    pub healthy: usize,
    /// Not available.
    pub unavailable: usize,
    /// Available, but degraded.
    pub degraded: usize,
}

/// The operators and their machines.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ControlPlane {
    /// How it gets on.
    pub assessment: Assessment,
    /// Where to.
    pub target: Target,
    /// Operators that are on their way.
    pub updating: Vec<String>,
    /// How many have arrived.
    pub completion: Completion,
    /// When it began.
    #[serde(serialize_with = "data::time")]
    pub started: Option<Timestamp>,
    /// When it ended, if it has.
    #[serde(serialize_with = "data::time")]
    pub completed: Option<Timestamp>,
    /// How long it has taken.
    #[serde(serialize_with = "data::duration")]
    pub duration: Option<SignedDuration>,
    /// How long it will still take, if anybody knows.
    #[serde(serialize_with = "data::estimate")]
    pub remaining: Option<Estimate>,
    /// How operators are.
    pub health: Health,
    /// Every operator, by name.
    pub operators: Vec<OperatorReport>,
    /// Pools of its machines.
    pub pools: Vec<PoolReport>,
}

/// All that is to be said.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Whether anything is under way.
    pub updating: bool,
    /// The operators and their machines.
    pub control_plane: ControlPlane,
    /// Pools of other machines.
    pub workers: Vec<PoolReport>,
    /// Who reports images.
    pub adoption: Adoption,
    /// What pods tell.
    pub evidence: Vec<Evidence>,
    /// What is worth a remark.
    pub health: Vec<Insight>,
}

impl Report {
    /// Of a cluster.
    pub fn of(cluster: &Cluster<'_>) -> Self {
        let history = cluster.version.history();
        let target = target(cluster);
        let operators = operators::reports(cluster);
        let migrating = !matches!(target.change, Change::Install | Change::Update { .. });
        let (control, workers) = nodes::pools(cluster, &target.version, migrating);
        let claims = |kind: &str| cluster.version.condition(kind);
        let progressing = claims("Progressing").is_some_and(api::openshift::Condition::is_true);
        let newest = history.first();
        let completed =
            newest.is_some_and(api::openshift::UpdateHistory::is_completed) && !progressing;
        let arrived =
            operators.iter().all(|it| it.updated) && cluster.evidence.iter().all(has_arrived);
        let failing = claims("Failing").map_or("", |it| it.status.as_str());
        let assessment = match (completed, failing) {
            (true, _) if arrived => Assessment::Completed,
            (true, _) => Assessment::Early,
            (false, "True") => Assessment::Stalled,
            (false, "Unknown") => Assessment::Slow,
            _ => Assessment::Progressing,
        };
        let time = |time: Option<&k8s_openapi::apimachinery::pkg::apis::meta::v1::Time>| {
            time.map(|it| it.0)
        };
        let started = newest.and_then(|it| time(it.started_time.as_ref()));
        let ended = newest
            .filter(|_| completed)
            .and_then(|it| time(it.completion_time.as_ref()));
        let outdated = workers.iter().any(|pool| !pool.is_done());
        let control_plane = ControlPlane {
            assessment,
            updating: named(&operators, OperatorReport::is_updating),
            completion: completion(&operators),
            started,
            completed: ended,
            duration: started.map(|from| ended.unwrap_or(cluster.now).duration_since(from)),
            remaining: (!completed)
                .then(|| remaining(cluster, &operators, &control))
                .flatten(),
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

    /// Whether everything has arrived, machines that are not of the control plane included if they are
    /// to count.
    pub fn is_complete(&self, workers: bool) -> bool {
        self.control_plane.assessment == Assessment::Completed
            && (!workers || self.workers.iter().all(PoolReport::is_done))
    }
}

/// Whether nothing of another release runs. That a pod with the right image is not ready has many
/// reasons, and its operator is asked for those.
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
    // Rounded, but never to all if it is not all.
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

/// Of the release if that is known, and else of what operators say.
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

/// How long it will still take.
fn remaining(
    cluster: &Cluster<'_>,
    operators: &[OperatorReport],
    control: &[PoolReport],
) -> Option<Estimate> {
    let pending = operators.iter().filter(|it| !it.updated);
    let awaited = |it: &OperatorReport| Awaited {
        name: it.name.clone(),
        waited: it
            .since
            .filter(|_| it.progressing)
            .map(|since| cluster.now.duration_since(since)),
    };
    // Whoever restarts machines does so last.
    let (last, first): (Vec<_>, Vec<_>) = pending.partition(|it| it.name == MACHINE_CONFIG);
    let waves = [first, last].map(|wave| wave.into_iter().map(awaited).collect());
    let machines = (!control.is_empty()).then(|| nodes::machines(control));
    estimate(&waves, cluster.past, machines)
}
