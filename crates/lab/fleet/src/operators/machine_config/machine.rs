//! The configuration state of a node, and its next step.

use k8s_openapi::api::core::v1::Node;

use crate::names::{FAILED, annotation, annotation_is_true, name_of};
use crate::operators::names::{
    CORDONED, CURRENT_CONFIG, DEGRADE, DESIRED_CONFIG, PSI, REASON, STATE,
};

pub(super) const DONE: &str = "Done";
pub(super) const WORKING: &str = "Working";
pub(super) const DEGRADED: &str = "Degraded";

/// A node as the machine-config operator sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(super) struct Machine<'a> {
    pub(super) name: &'a str,
    /// The current configuration; empty for a new node.
    pub(super) current: &'a str,
    /// The desired configuration.
    pub(super) desired: &'a str,
    pub(super) state: &'a str,
    pub(super) reason: &'a str,
    /// The message of a simulated failure, if one is requested.
    pub(super) degrade: Option<&'a str>,
    pub(super) ready: bool,
    pub(super) unschedulable: bool,
    /// Whether the update cordoned it.
    pub(super) cordoned: bool,
    /// Whether its kubelet has failed.
    pub(super) silent: bool,
    /// Whether PSI is reported as enabled.
    pub(super) psi: bool,
}

impl<'a> Machine<'a> {
    pub(super) fn of(node: &'a Node) -> Self {
        let annotation = |key: &str| annotation(&node.metadata, key);
        let annotation_or_empty = |key: &str| annotation(key).unwrap_or_default();
        let unschedulable = node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true);
        Self {
            name: name_of(&node.metadata),
            current: annotation_or_empty(CURRENT_CONFIG),
            desired: annotation_or_empty(DESIRED_CONFIG),
            state: annotation_or_empty(STATE),
            reason: annotation_or_empty(REASON),
            degrade: annotation(DEGRADE),
            // An unschedulable node is not ready for pods.
            ready: says_ready(node) && !unschedulable,
            unschedulable,
            cordoned: annotation_is_true(&node.metadata, CORDONED),
            silent: annotation_is_true(&node.metadata, FAILED),
            psi: annotation_is_true(&node.metadata, PSI),
        }
    }

    /// Whether it has a configuration.
    pub(super) fn is_managed(&self) -> bool {
        !self.current.is_empty()
    }

    /// Whether it runs its desired configuration.
    pub(super) fn is_done(&self) -> bool {
        self.is_managed() && self.current == self.desired && self.state == DONE
    }

    /// Whether it runs this configuration.
    pub(super) fn is_updated(&self, target: &str) -> bool {
        self.is_done() && self.current == target
    }

    /// Whether it is degraded.
    pub(super) fn is_degraded(&self) -> bool {
        !self.desired.is_empty() && matches!(self.state, DEGRADED | "Unreconcilable")
    }

    /// Whether it is unavailable, or may become so soon. A degraded one stays unavailable until it
    /// is repaired.
    pub(super) fn is_unavailable(&self) -> bool {
        !self.ready || (!self.is_done() && !self.is_degraded())
    }

    /// Whether it is between two configurations.
    pub(super) fn is_moving(&self) -> bool {
        self.is_managed() && self.current != self.desired
    }

    /// Its next step.
    pub(super) fn step(&self) -> NodeConfigStep<'a> {
        if !self.is_managed() {
            return NodeConfigStep::Nothing(IdleReason::New);
        }
        if self.silent {
            return NodeConfigStep::Nothing(IdleReason::Silent);
        }
        if let Some(reason) = self.degrade {
            return if self.state == DEGRADED && self.reason == reason {
                NodeConfigStep::Nothing(IdleReason::Degraded)
            } else {
                NodeConfigStep::Degrade(reason)
            };
        }
        if !self.is_moving() {
            return if self.state == DONE && !self.cordoned {
                NodeConfigStep::Nothing(IdleReason::Done)
            } else {
                NodeConfigStep::Settle
            };
        }
        if self.state == WORKING {
            NodeConfigStep::Reboot
        } else {
            NodeConfigStep::Begin
        }
    }
}

/// The next step of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NodeConfigStep<'a> {
    Nothing(IdleReason),
    /// Cordon the node.
    Begin,
    /// Reboot into the desired configuration.
    Reboot,
    /// Mark the node as done and uncordon it.
    Settle,
    /// Mark the node as degraded, with this message.
    Degrade(&'a str),
}

/// Why there is no next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IdleReason {
    /// The node has no configuration yet.
    New,
    /// The kubelet has failed.
    Silent,
    /// The node is marked as degraded already.
    Degraded,
    /// The node runs its desired configuration.
    Done,
}

/// Whether a node is ready; a missing condition counts as ready.
fn says_ready(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|it| it.conditions.as_ref());
    let mut conditions = conditions.into_iter().flatten();
    conditions.all(|condition| condition.type_ != "Ready" || condition.status == "True")
}

#[cfg(test)]
mod tests;
