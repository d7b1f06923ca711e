//! What a node says about its configuration, and what it is to do next.

use k8s_openapi::api::core::v1::Node;

use crate::names::{FAILED, says_yes};
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
    /// What it runs with; nothing if it is new.
    pub(super) current: &'a str,
    /// What it is to run with.
    pub(super) desired: &'a str,
    pub(super) state: &'a str,
    pub(super) reason: &'a str,
    /// Why it is to fail, if somebody wants it to.
    pub(super) degrade: Option<&'a str>,
    pub(super) ready: bool,
    pub(super) unschedulable: bool,
    /// Whether the update made it unschedulable.
    pub(super) cordoned: bool,
    /// Whether its kubelet does not speak.
    pub(super) silent: bool,
    /// Whether it says that its kernel measures pressure.
    pub(super) psi: bool,
}

impl<'a> Machine<'a> {
    pub(super) fn of(node: &'a Node) -> Self {
        let annotation = |key: &str| {
            let annotations = node.metadata.annotations.as_ref()?;
            annotations.get(key).map(String::as_str)
        };
        let said = |key: &str| annotation(key).unwrap_or_default();
        let unschedulable = node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true);
        Self {
            name: node.metadata.name.as_deref().unwrap_or_default(),
            current: said(CURRENT_CONFIG),
            desired: said(DESIRED_CONFIG),
            state: said(STATE),
            reason: said(REASON),
            degrade: annotation(DEGRADE),
            // A node that takes no pods is not ready for them.
            ready: says_ready(node) && !unschedulable,
            unschedulable,
            cordoned: says_yes(&node.metadata, CORDONED),
            silent: says_yes(&node.metadata, FAILED),
            psi: says_yes(&node.metadata, PSI),
        }
    }

    /// Whether it has ever been configured.
    pub(super) fn is_managed(&self) -> bool {
        !self.current.is_empty()
    }

    /// Whether it runs with what it is to run with.
    pub(super) fn is_done(&self) -> bool {
        self.is_managed() && self.current == self.desired && self.state == DONE
    }

    /// Whether it runs with this.
    pub(super) fn is_updated(&self, target: &str) -> bool {
        self.is_done() && self.current == target
    }

    /// Whether it failed.
    pub(super) fn is_degraded(&self) -> bool {
        !self.desired.is_empty() && matches!(self.state, DEGRADED | "Unreconcilable")
    }

    /// Whether it cannot be used, or may not be in a moment. One that failed waits for somebody.
    pub(super) fn is_unavailable(&self) -> bool {
        !self.ready || (!self.is_done() && !self.is_degraded())
    }

    /// Whether it is on its way from one configuration to another.
    pub(super) fn is_moving(&self) -> bool {
        self.is_managed() && self.current != self.desired
    }

    /// What it is to do next.
    pub(super) fn step(&self) -> Step<'a> {
        if !self.is_managed() {
            return Step::Nothing(Why::New);
        }
        if self.silent {
            return Step::Nothing(Why::Silent);
        }
        if let Some(reason) = self.degrade {
            return if self.state == DEGRADED && self.reason == reason {
                Step::Nothing(Why::Degraded)
            } else {
                Step::Degrade(reason)
            };
        }
        if !self.is_moving() {
            return if self.state == DONE && !self.cordoned {
                Step::Nothing(Why::Done)
            } else {
                Step::Settle
            };
        }
        if self.state == WORKING {
            Step::Reboot
        } else {
            Step::Begin
        }
    }
}

/// What a machine is to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step<'a> {
    Nothing(Why),
    /// Take no more pods.
    Begin,
    /// Be gone for a while and come back as desired.
    Reboot,
    /// Say that all is well, and take pods.
    Settle,
    /// Say what is wrong.
    Degrade(&'a str),
}

/// Why there is nothing to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    /// It has no configuration yet.
    New,
    /// It does not hear anything.
    Silent,
    /// It failed, and has said so.
    Degraded,
    /// It runs with what it is to run with.
    Done,
}

/// Whether a node is ready, or at least does not say that it is not.
fn says_ready(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|it| it.conditions.as_ref());
    let mut conditions = conditions.into_iter().flatten();
    conditions.all(|condition| condition.type_ != "Ready" || condition.status == "True")
}

#[cfg(test)]
mod tests;
