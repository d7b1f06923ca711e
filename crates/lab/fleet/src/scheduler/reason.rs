//! Reasons why nodes are not feasible, and their messages.

use std::collections::BTreeMap;
use std::fmt;

/// Why a pod does not fit a node, with upstream's messages.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Reason {
    Unschedulable,
    NotNamed,
    Taint,
    NodeAffinity,
    Ports,
    TooManyPods,
    Insufficient {
        resource: String,
        /// The node is too small even when it is empty.
        ever: bool,
    },
    VolumeConflict,
    VolumeGone,
    NoVolume,
    Spread,
    SpreadLabel,
    Together,
    Apart,
    OthersApart,
}

/// The kind of change that may make a pod schedulable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChangeKind {
    Node,
    PodGone,
    PodCame,
    Volume,
}

impl Reason {
    /// Whether preempting other pods could help.
    pub(crate) fn others_could_leave(&self) -> bool {
        match self {
            Self::Ports
            | Self::TooManyPods
            | Self::Insufficient { ever: false, .. }
            | Self::Spread
            | Self::Apart
            | Self::OthersApart => true,
            Self::Unschedulable
            | Self::NotNamed
            | Self::Taint
            | Self::NodeAffinity
            | Self::Insufficient { ever: true, .. }
            | Self::VolumeConflict
            | Self::VolumeGone
            | Self::NoVolume
            | Self::SpreadLabel
            | Self::Together => false,
        }
    }

    /// Whether a change of this kind could resolve the reason.
    pub(crate) fn is_resolved_by(&self, change: ChangeKind) -> bool {
        match change {
            ChangeKind::Node => true,
            ChangeKind::PodGone => self.others_could_leave(),
            ChangeKind::PodCame => matches!(self, Self::Together | Self::Spread),
            ChangeKind::Volume => {
                matches!(
                    self,
                    Self::VolumeConflict | Self::VolumeGone | Self::NoVolume
                )
            }
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unschedulable => "node(s) were unschedulable",
            Self::NotNamed => "node(s) didn't satisfy plugin(s) [NodeAffinity]",
            Self::Taint => "node(s) had untolerated taint(s)",
            Self::NodeAffinity => "node(s) didn't match Pod's node affinity/selector",
            Self::Ports => "node(s) didn't have free ports for the requested pod ports",
            Self::TooManyPods => "Too many pods",
            Self::Insufficient { resource, .. } => return write!(f, "Insufficient {resource}"),
            Self::VolumeConflict => "node(s) didn't match PersistentVolume's node affinity",
            Self::VolumeGone => {
                "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
            }
            Self::NoVolume => "node(s) didn't find available persistent volumes to bind",
            Self::Spread => "node(s) didn't match pod topology spread constraints",
            Self::SpreadLabel => {
                "node(s) didn't match pod topology spread constraints (missing required label)"
            }
            Self::Together => "node(s) didn't match pod affinity rules",
            Self::Apart => "node(s) didn't match pod anti-affinity rules",
            Self::OthersApart => "node(s) didn't satisfy existing pods anti-affinity rules",
        })
    }
}

/// Why a pod is unschedulable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum UnschedulableReason {
    /// There are no nodes.
    NoNodes,
    /// The pod itself is not ready for scheduling.
    Pod { nodes: usize, why: String },
    /// Reasons per node.
    Nodes {
        nodes: usize,
        reasons: BTreeMap<Reason, usize>,
        /// Number of nodes that are not feasible even without other pods.
        hopeless: usize,
    },
}

impl UnschedulableReason {
    /// Whether a change of this kind justifies another attempt.
    pub(crate) fn is_resolved_by(&self, change: ChangeKind) -> bool {
        match self {
            Self::NoNodes => change == ChangeKind::Node,
            Self::Pod { .. } => change == ChangeKind::Volume,
            Self::Nodes { reasons, .. } => {
                reasons.keys().any(|reason| reason.is_resolved_by(change))
            }
        }
    }
}

impl UnschedulableReason {
    /// The reasons of the nodes, without the outcome of preemption.
    pub(crate) fn reasons(&self) -> String {
        match self {
            Self::NoNodes => "no nodes available to schedule pods".to_owned(),
            Self::Pod { nodes, why } => format!("0/{nodes} nodes are available: {why}."),
            Self::Nodes { nodes, reasons, .. } => {
                // A node that is too small has the same message as a full one.
                let mut texts: BTreeMap<String, usize> = BTreeMap::new();
                for (reason, count) in reasons {
                    *texts.entry(reason.to_string()).or_default() += count;
                }
                let mut texts: Vec<String> = texts
                    .into_iter()
                    .map(|(reason, count)| format!("{count} {reason}"))
                    .collect();
                texts.sort();
                format!("0/{nodes} nodes are available: {}.", texts.join(", "))
            }
        }
    }
}

impl fmt::Display for UnschedulableReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reasons())?;
        let (nodes, hopeless) = match self {
            Self::NoNodes => return Ok(()),
            Self::Pod { nodes, .. } => (*nodes, *nodes),
            Self::Nodes {
                nodes, hopeless, ..
            } => (*nodes, *hopeless),
        };
        let mut preemption = Vec::new();
        if nodes > hopeless {
            let rest = nodes - hopeless;
            preemption.push(format!(
                "{rest} No preemption victims found for incoming pod"
            ));
        }
        if hopeless > 0 {
            preemption.push(format!(
                "{hopeless} Preemption is not helpful for scheduling"
            ));
        }
        preemption.sort();
        let preemption = preemption.join(", ");
        write!(
            f,
            " preemption: 0/{nodes} nodes are available: {preemption}."
        )
    }
}
