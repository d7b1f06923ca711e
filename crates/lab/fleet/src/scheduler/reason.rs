//! Why a node will not do, and how that is said.

use std::collections::BTreeMap;
use std::fmt;

/// Why a pod cannot be on a node, in upstream's words.
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
        /// The whole node would not be enough.
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

/// What has to change before it is worth trying again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hope {
    Node,
    PodGone,
    PodCame,
    Volume,
}

impl Reason {
    /// Whether taking other pods away could help.
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

    /// Whether a change of this kind could make it go away.
    pub(crate) fn hopes_for(&self, change: Hope) -> bool {
        match change {
            Hope::Node => true,
            Hope::PodGone => self.others_could_leave(),
            Hope::PodCame => matches!(self, Self::Together | Self::Spread),
            Hope::Volume => {
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

/// Why a pod has no node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Unfit {
    /// There are no nodes.
    NoNodes,
    /// The pod itself is not ready to have one.
    Pod { nodes: usize, why: String },
    /// Each node has its reasons.
    Nodes {
        nodes: usize,
        reasons: BTreeMap<Reason, usize>,
        /// How many nodes would not do even without other pods.
        hopeless: usize,
    },
}

impl Unfit {
    /// Whether a change of this kind makes it worth trying again.
    pub(crate) fn hopes_for(&self, change: Hope) -> bool {
        match self {
            Self::NoNodes => change == Hope::Node,
            Self::Pod { .. } => change == Hope::Volume,
            Self::Nodes { reasons, .. } => reasons.keys().any(|reason| reason.hopes_for(change)),
        }
    }
}

impl Unfit {
    /// What nodes say, without what displacing others could do about it.
    pub(crate) fn reasons(&self) -> String {
        match self {
            Self::NoNodes => "no nodes available to schedule pods".to_owned(),
            Self::Pod { nodes, why } => format!("0/{nodes} nodes are available: {why}."),
            Self::Nodes { nodes, reasons, .. } => {
                // A whole node that is too small says the same as a full one.
                let mut said: BTreeMap<String, usize> = BTreeMap::new();
                for (reason, count) in reasons {
                    *said.entry(reason.to_string()).or_default() += count;
                }
                let mut said: Vec<String> = said
                    .into_iter()
                    .map(|(reason, count)| format!("{count} {reason}"))
                    .collect();
                said.sort();
                format!("0/{nodes} nodes are available: {}.", said.join(", "))
            }
        }
    }
}

impl fmt::Display for Unfit {
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
