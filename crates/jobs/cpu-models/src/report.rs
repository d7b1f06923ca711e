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

/// The events for the changes between two reviews of a VM. `before` is `None` while the VM had no
/// model.
pub fn notices(before: Option<&Review>, now: &Review) -> Vec<Notice> {
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
            format_args!("chose CPU model {model}; {}", Targets(now)),
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
                "no other eligible node supports CPU model {model}: the VM cannot migrate"
            ),
        ),
        Some(Stranded::BelowThreshold) => emit(
            true,
            "CpuModelStranded",
            format_args!("too few nodes support CPU model {model}: {}", Targets(now)),
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
        write!(f, "{} migration targets", review.targets)?;
        match &review.threshold {
            Some(needed) => write!(
                f,
                ", supported by {} of {} eligible nodes, {} required",
                review.supporters, needed.eligible, needed.nodes
            ),
            None => Ok(()),
        }
    }
}
