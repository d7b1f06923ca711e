//! Nodes and MachineConfigPools in a report.

use std::collections::BTreeMap;

use api::node;
use api::openshift::{MachineConfigPool, annotations};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube_core::ResourceExt as _;
use machinery::selector::LabelSelector;
use serde::Serialize;

use super::Cluster;
use crate::eta::NodeProgress;
use crate::rollout::is_later;

/// The pools of the control plane.
const CONTROL_PLANE_POOLS: [&str; 2] = ["master", "arbiter"];
/// The pool of nodes that no custom pool selects.
const DEFAULT_POOL: &str = "worker";

/// Node annotation: requested drain.
const DESIRED_DRAIN: &str = "machineconfiguration.openshift.io/desiredDrain";
/// Node annotation: last completed drain.
const LAST_DRAIN: &str = "machineconfiguration.openshift.io/lastAppliedDrain";

/// The assessment of a node, worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub enum NodeAssessment {
    /// Its update failed.
    Degraded,
    /// It is not ready.
    Unavailable,
    /// It is being updated.
    Progressing,
    /// It is excluded from the update.
    Excluded,
    /// It waits for its update.
    Outdated,
    /// It is updated.
    Completed,
}

/// The update phase of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub enum NodePhase {
    /// Its pods are evicted.
    Draining,
    /// The update is being written.
    Updating,
    /// It reboots.
    Rebooting,
    /// Its pool is paused.
    Paused,
    /// Its update has not started.
    Pending,
    /// It is updated.
    Updated,
}

impl NodePhase {
    /// The approximate duration.
    pub fn estimate(self) -> &'static str {
        match self {
            Self::Draining => "+10m",
            Self::Updating | Self::Rebooting => "+5m",
            Self::Pending => "?",
            Self::Paused | Self::Updated => "-",
        }
    }
}

/// A node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NodeReport {
    /// Its name.
    pub name: String,
    /// Its assessment.
    pub assessment: NodeAssessment,
    /// Its update phase.
    pub phase: NodePhase,
    /// The version of the release that it runs.
    pub version: String,
    /// Its architecture.
    pub architecture: String,
    /// Whether it is ready and schedulable.
    pub available: bool,
    /// Why its update does not progress.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

impl NodeReport {
    /// The approximate duration of its phase. Unknown while it has a problem.
    pub fn estimate(&self) -> &'static str {
        match (self.assessment, self.phase) {
            (NodeAssessment::Degraded | NodeAssessment::Unavailable, phase)
                if phase != NodePhase::Updated =>
            {
                "?"
            }
            (_, phase) => phase.estimate(),
        }
    }
}

/// The assessment of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub enum PoolAssessment {
    /// A node of it is degraded.
    Degraded,
    /// All nodes are updated.
    Completed,
    /// It is paused.
    Excluded,
    /// It is being updated.
    Progressing,
    /// It has not started.
    Pending,
}

/// A MachineConfigPool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PoolReport {
    /// Its name.
    pub name: String,
    /// Its assessment.
    pub assessment: PoolAssessment,
    /// The number of nodes.
    pub total: usize,
    /// The number of updated nodes.
    pub updated: usize,
    /// Whether it is paused.
    pub paused: bool,
    /// Its nodes, worst first.
    pub nodes: Vec<NodeReport>,
}

impl PoolReport {
    /// Whether the update of the pool is done.
    pub fn is_done(&self) -> bool {
        self.updated == self.total
    }

    /// The number of nodes that satisfy a predicate.
    pub fn count(&self, is: impl Fn(&NodeReport) -> bool) -> usize {
        self.nodes.iter().filter(|it| is(it)).count()
    }
}

/// The nodes that machine-config waits for.
pub(super) fn machines(control: &[PoolReport]) -> NodeProgress {
    let sum = |of: fn(&PoolReport) -> usize| {
        let sum: usize = control.iter().map(of).sum();
        u32::try_from(sum).unwrap_or(u32::MAX)
    };
    NodeProgress {
        total: sum(|it| it.total),
        updated: sum(|it| it.updated),
    }
}

/// A change of images within a version, in which versions do not show whether a node is updated.
#[derive(Debug, Clone, Copy)]
pub(super) struct Migration {
    /// When it was complete.
    pub(super) completed: Option<Timestamp>,
}

impl Migration {
    /// Whether what a pool rolls out belongs to it: not another MachineConfig after it.
    fn includes(self, pool: &MachineConfigPool) -> bool {
        !self.completed.is_some_and(|at| is_later(pool, at))
    }
}

/// The pools of the control plane, and the others.
pub(super) fn pools(
    cluster: &Cluster<'_>,
    version: &str,
    migration: Option<Migration>,
) -> (Vec<PoolReport>, Vec<PoolReport>) {
    let selectors: Vec<(String, LabelSelector)> = cluster
        .pools
        .iter()
        .filter_map(|pool| {
            let selector = pool.spec.rest.get("nodeSelector")?;
            let selector = LabelSelector::from_label_selector_object(selector).ok()?;
            Some((pool.name_any(), selector))
        })
        .collect();
    let mut members: BTreeMap<&str, Vec<&Node>> = BTreeMap::new();
    for node in cluster.nodes {
        if let Some(pool) = pool_of(node, &selectors) {
            members.entry(pool).or_default().push(node);
        }
    }
    let all: Vec<PoolReport> = cluster
        .pools
        .iter()
        .map(|pool| {
            let nodes = members.remove(pool.name_any().as_str());
            let nodes = nodes.unwrap_or_default();
            report(cluster, pool, &nodes, version, migration)
        })
        .collect();
    // In the order in which they are listed, as upstream.
    all.into_iter()
        .partition(|it| CONTROL_PLANE_POOLS.contains(&it.name.as_str()))
}

/// The pool of a node: one of the control plane, else a custom one, else worker. Windows nodes are not configured by
/// the Machine Config Operator, whatever their roles.
fn pool_of<'a>(node: &Node, pools: &'a [(String, LabelSelector)]) -> Option<&'a str> {
    let labels = node.metadata.labels.as_ref();
    let label = |key: &str| labels.and_then(|all| all.get(key)).map(String::as_str);
    // By the label alone, as the operator itself decides (pkg/helpers/helpers.go).
    if label(node::OS) == Some("windows") {
        return None;
    }
    let selecting = pools.iter().filter(|(_, selector)| selector.matches(label));
    let names = selecting.map(|(name, _)| name.as_str());
    names.min_by_key(|name| {
        (
            !CONTROL_PLANE_POOLS.contains(name),
            *name == DEFAULT_POOL,
            *name,
        )
    })
}

fn report(
    cluster: &Cluster<'_>,
    pool: &MachineConfigPool,
    nodes: &[&Node],
    version: &str,
    migration: Option<Migration>,
) -> PoolReport {
    let migrating = migration.is_some_and(|it| it.includes(pool));
    let mut nodes: Vec<NodeReport> = nodes
        .iter()
        .map(|node| self::node(cluster, pool, node, version, migrating))
        .collect();
    nodes.sort_by(|one, other| {
        (one.assessment, one.phase, &one.name).cmp(&(other.assessment, other.phase, &other.name))
    });
    let (total, updated) = if nodes.is_empty() {
        // Without permission to list nodes, the counts of the pool are used.
        let status = pool.status.as_ref();
        let count = |count: i32| usize::try_from(count).unwrap_or(0);
        let total = status.map_or(0, |it| count(it.machine_count));
        let updated = status.map_or(0, |it| count(it.updated_machine_count));
        (total, updated.min(total))
    } else {
        let is_done = |it: &&NodeReport| it.phase == NodePhase::Updated;
        (nodes.len(), nodes.iter().filter(is_done).count())
    };
    let any = |assessment| nodes.iter().any(|it| it.assessment == assessment);
    let has_condition = |kind: &str| {
        let conditions = pool.status.as_ref().map(|it| it.conditions.as_slice());
        let found = conditions.and_then(|it| api::openshift::Condition::find(it, kind));
        found.is_some_and(api::openshift::Condition::is_true)
    };
    let assessment = if any(NodeAssessment::Degraded) || has_condition("Degraded") {
        PoolAssessment::Degraded
    // Before paused: a pool that is updated completely is done, and its pause has no effect.
    } else if updated == total {
        PoolAssessment::Completed
    } else if pool.spec.paused {
        PoolAssessment::Excluded
    } else if updated > 0 || any(NodeAssessment::Progressing) || has_condition("Updating") {
        PoolAssessment::Progressing
    } else {
        PoolAssessment::Pending
    };
    PoolReport {
        name: pool.name_any(),
        assessment,
        total,
        updated,
        paused: pool.spec.paused,
        nodes,
    }
}

fn node(
    cluster: &Cluster<'_>,
    pool: &MachineConfigPool,
    node: &Node,
    target: &str,
    migrating: bool,
) -> NodeReport {
    let none = BTreeMap::new();
    let annotation = node.metadata.annotations.as_ref().unwrap_or(&none);
    let annotation = |key: &str| annotation.get(key).map_or("", String::as_str);
    let (current, desired) = (
        annotation(annotations::CURRENT_CONFIG),
        annotation(annotations::DESIRED_CONFIG),
    );
    let state = annotation(annotations::CONFIG_STATE);
    let version = cluster.configurations.get(current);
    let is_there = !current.is_empty() && current == desired && pool.wanted() == Some(current);
    // At the same version only the configuration distinguishes nodes, if it is known.
    let is_updated = match version {
        Some(version) if !migrating => version == target,
        Some(version) => version == target && is_there,
        None => is_there,
    };
    let is_ready = node::ready(node) == Some(true);
    // On its way to a configuration of another release, or to an older one of the pool, a node is not being updated.
    let desired_version = cluster.configurations.get(desired);
    let is_updating = current != desired
        && desired_version.is_none_or(|it| it == target)
        && pool.wanted().is_none_or(|it| it == desired);
    let (drain, last_drain) = (annotation(DESIRED_DRAIN), annotation(LAST_DRAIN));
    let phase = if is_updated {
        NodePhase::Updated
    } else if !is_updating && pool.spec.paused {
        NodePhase::Paused
    } else if !is_updating {
        NodePhase::Pending
    // The order is that of a node update: drain, write, reboot. A node that is not ready has rebooted, or is about to.
    // The daemon sets its state after the request.
    } else if (drain != last_drain && drain.starts_with("drain")) || state == "Done" {
        NodePhase::Draining
    } else if state == "Rebooting" || !is_ready {
        NodePhase::Rebooting
    } else {
        NodePhase::Updating
    };
    let (assessment, message) = if matches!(state, "Degraded" | "Unreconcilable") {
        let why = annotation(annotations::CONFIG_REASON).to_owned();
        (NodeAssessment::Degraded, why)
    } else {
        match phase {
            NodePhase::Updated if is_ready => (NodeAssessment::Completed, String::new()),
            NodePhase::Paused if is_ready => (NodeAssessment::Excluded, String::new()),
            NodePhase::Pending if is_ready => (NodeAssessment::Outdated, String::new()),
            NodePhase::Updated | NodePhase::Paused | NodePhase::Pending => {
                let why = "Node is not ready".to_owned();
                (NodeAssessment::Unavailable, why)
            }
            _ => (NodeAssessment::Progressing, String::new()),
        }
    };
    NodeReport {
        name: node.name_any(),
        assessment,
        phase,
        version: version.cloned().unwrap_or_else(|| "?".to_owned()),
        architecture: node::architecture(node).unwrap_or_default().to_owned(),
        available: is_ready && !node::is_cordoned(node),
        message,
    }
}
