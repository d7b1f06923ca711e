//! Reporting: the counts of VMs by state, the events of a VM, and the status of the policy.

mod status;
#[cfg(test)]
mod tests;

use std::fmt;

pub use status::{StatusInputs, status};

use crate::names::HOST_MODEL;
use crate::review::{Review, Stranded};

/// The VMs that request best-match-model, counted by state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// VMs with a chosen model.
    pub resolved: usize,
    /// VMs that fell back to `host-model`.
    pub host_model: usize,
    /// VMs without a model yet.
    pub undecided: usize,
    /// VMs that would get a newer model on restart.
    pub stale: usize,
    /// VMs whose model has too few supporting nodes.
    pub stranded: usize,
    /// VMs without a migration target; they are among the stranded ones.
    pub no_target: usize,
}

impl Tally {
    /// Counts a VM; `None` is one without a model yet.
    pub fn add(&mut self, review: Option<&Review>) {
        let Some(review) = review else {
            self.undecided += 1;
            return;
        };
        match review.model.as_deref() {
            Some(HOST_MODEL) => self.host_model += 1,
            _ => self.resolved += 1,
        }
        self.stale += usize::from(review.stale.is_some());
        self.stranded += usize::from(review.stranded.is_some());
        self.no_target += usize::from(review.stranded == Some(Stranded::NoTarget));
    }

    /// The counts by value of the metric label `state`.
    pub fn states(&self) -> [(&'static str, usize); 6] {
        [
            ("resolved", self.resolved),
            ("host_model", self.host_model),
            ("undecided", self.undecided),
            ("stale", self.stale),
            ("stranded", self.stranded),
            ("no_target", self.no_target),
        ]
    }
}

/// An event to emit for a VM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// Whether it is of type Warning.
    pub warning: bool,
    /// The reason, in CamelCase.
    pub reason: &'static str,
    /// The message.
    pub message: String,
}

/// Where and why a VM has its model, for its events.
#[derive(Debug, Clone, Copy)]
pub struct Choice<'a> {
    /// The node that the VM runs on.
    pub node: &'a str,
    /// The reason of the choice, in CamelCase.
    pub reason: &'a str,
}

/// The warning about a VM without a model that no node of the cluster can run.
pub fn excluded(nodes: usize) -> Notice {
    Notice {
        warning: true,
        reason: "NoEligibleNode",
        message: format!(
            "none of the {nodes} nodes can run the VM now: check nodeSelector, affinity, tolerations and resource requests of its virt-launcher pod"
        ),
    }
}

/// The events for the changes between two reviews of a VM. `before` is `None` while the VM had no
/// model.
pub fn notices(choice: Choice<'_>, before: Option<&Review>, now: &Review) -> Vec<Notice> {
    let Choice { node, reason } = choice;
    let mut found = Vec::new();
    let mut emit = |warning, reason, message: fmt::Arguments<'_>| {
        found.push(Notice {
            warning,
            reason,
            message: message.to_string(),
        });
    };
    let model = now.model.as_deref().unwrap_or("none");
    if before.is_none() {
        emit(
            false,
            "CpuModelChosen",
            format_args!(
                "chose CPU model {model} on node {node} ({reason}); {}",
                Targets(now)
            ),
        );
    }
    let stranded = before.and_then(|before| before.stranded);
    match now.stranded {
        // Reviews run on every change of a node; an event is emitted only when the state changes.
        same if same == stranded => {}
        Some(Stranded::NoTarget) => emit(
            true,
            "NoMigrationTarget",
            format_args!(
                "no other eligible node supports CPU model {model}: the VM cannot migrate from node {node}"
            ),
        ),
        Some(Stranded::BelowThreshold) => emit(
            true,
            "CpuModelStranded",
            format_args!(
                "too few nodes support CPU model {model} of the VM on node {node}: {}",
                Targets(now)
            ),
        ),
        None => emit(
            false,
            "MigrationTargetsBack",
            format_args!(
                "enough nodes support CPU model {model} again: {}",
                Targets(now)
            ),
        ),
    }
    let stale = before.and_then(|before| before.stale.as_ref());
    if let Some(newer) = now.stale.as_ref().filter(|newer| Some(*newer) != stale) {
        let place = if newer.here { "" } else { " on another node" };
        emit(
            false,
            "CpuModelStale",
            format_args!(
                "a restart{place} would give the VM CPU model {} instead of {model}",
                newer.model
            ),
        );
    }
    found
}

/// The number of migration targets of a VM, and the threshold.
struct Targets<'a>(&'a Review);

impl fmt::Display for Targets<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let review = self.0;
        let nodes = if review.targets == 1 { "node" } else { "nodes" };
        write!(f, "{} other {nodes} can take the VM", review.targets)?;
        match &review.threshold {
            Some(needed) => write!(
                f,
                "; {} of {} eligible nodes support the model, {} required",
                review.supporters, needed.eligible, needed.nodes
            ),
            None => Ok(()),
        }
    }
}
