//! What people are told of how machines fare: how many, what became of one, and the status of the
//! policy.

mod status;
#[cfg(test)]
mod tests;

use std::fmt;

pub use status::{Facts, status};

use crate::names::HOST_MODEL;
use crate::review::{Review, Stranded};

/// How many machines there are that leave the choice to Medley, and how they fare.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// A model was chosen for them.
    pub resolved: usize,
    /// They have the model of their host, because no other would do.
    pub host_model: usize,
    /// They wait for their model.
    pub undecided: usize,
    /// A restart would give them a newer model.
    pub stale: usize,
    /// Too few nodes support their model.
    pub stranded: usize,
    /// No other node could take them.
    pub no_target: usize,
}

impl Tally {
    /// Counts a machine in.
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

    /// Every number, with its name for those who count.
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

/// Something that became of a machine, for an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// Whether somebody should look.
    pub warning: bool,
    /// What, in a word.
    pub reason: &'static str,
    /// What, in a sentence.
    pub message: String,
}

/// What became of a machine since it was looked at before. `None` is a machine without a model.
pub fn notices(before: Option<&Review>, now: &Review) -> Vec<Notice> {
    let mut found = Vec::new();
    let mut tell = |warning, reason, message: fmt::Arguments<'_>| {
        found.push(Notice {
            warning,
            reason,
            message: message.to_string(),
        });
    };
    let model = now.model.as_deref().unwrap_or("none");
    if before.is_none() {
        tell(
            false,
            "CpuModelChosen",
            format_args!("its CPU model is {model}; {}", Targets(now)),
        );
    }
    let stranded = before.and_then(|before| before.stranded);
    match now.stranded {
        same if same == stranded => {}
        Some(Stranded::NoTarget) => tell(
            true,
            "NoMigrationTarget",
            format_args!(
                "no other node that it could run on supports its CPU model {model}: it cannot migrate"
            ),
        ),
        Some(Stranded::BelowThreshold) => tell(
            true,
            "CpuModelStranded",
            format_args!(
                "too few nodes support its CPU model {model}: {}",
                Targets(now)
            ),
        ),
        None => tell(
            false,
            "MigrationTargetsBack",
            format_args!(
                "enough nodes support its CPU model {model} again: {}",
                Targets(now)
            ),
        ),
    }
    let stale = before.and_then(|before| before.stale.as_ref());
    if let Some(newer) = now.stale.as_ref().filter(|newer| Some(*newer) != stale) {
        let place = if newer.here { "" } else { " on another node" };
        tell(
            false,
            "CpuModelStale",
            format_args!(
                "a restart{place} would give it the CPU model {} instead of {model}",
                newer.model
            ),
        );
    }
    found
}

/// How many nodes could take a machine, and how many should be able to.
struct Targets<'a>(&'a Review);

impl fmt::Display for Targets<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let review = self.0;
        write!(f, "{} other nodes could take it", review.targets)?;
        match &review.threshold {
            Some(needed) => write!(
                f,
                ", {} of {} nodes support it and {} should",
                review.supporters, needed.eligible, needed.nodes
            ),
            None => Ok(()),
        }
    }
}
