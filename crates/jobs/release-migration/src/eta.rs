//! How long a migration will still take.
//!
//! A migration to multi-arch changes no version, so that what is known of updates does not fit: only
//! operators that report images take any time. What an operator took the last times is the best guess;
//! for machine-config, which restarts one machine after the other, it is how fast machines come back.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use api::release::OperatorHistory;
use jiff::SignedDuration;
use serde::Serialize;

use crate::conditions::MACHINE_CONFIG;

/// What a machine takes as long as none has come back: drain, update, restart.
const MACHINE: SignedDuration = SignedDuration::from_mins(10);

/// How long operators were waited for in the past, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Past(BTreeMap<String, Vec<SignedDuration>>);

impl Past {
    /// What the operator took note of.
    pub fn of(history: &[OperatorHistory]) -> Self {
        let mut past = Self::default();
        for it in history {
            for took in &it.took_seconds {
                past.add(&it.operator, SignedDuration::from_secs(*took));
            }
        }
        past
    }

    /// Takes note of how long an operator was waited for.
    pub fn add(&mut self, name: &str, took: SignedDuration) {
        self.0.entry(name.to_owned()).or_default().push(took);
    }

    /// What an operator usually takes; none if it was never waited for.
    fn usual(&self, name: &str) -> Option<SignedDuration> {
        median(self.0.get(name)?.clone())
    }

    /// What an operator takes of which nothing is known: what the others do.
    fn of_others(&self) -> Option<SignedDuration> {
        let others = self.0.iter().filter(|(name, _)| *name != MACHINE_CONFIG);
        median(
            others
                .filter_map(|(_, took)| median(took.clone()))
                .collect(),
        )
    }
}

fn median(mut all: Vec<SignedDuration>) -> Option<SignedDuration> {
    all.sort_unstable();
    all.get(all.len() / 2).copied()
}

/// Machines that have to come back before machine-config has arrived.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Machines {
    /// All of them.
    pub total: u32,
    /// Those that are back.
    pub updated: u32,
}

/// An operator that is not there yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Awaited {
    /// What it is called.
    pub name: String,
    /// How long it has been waited for, if it is.
    pub waited: Option<SignedDuration>,
}

/// What a guess is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub enum Basis {
    /// What operators took before.
    History,
    /// How fast machines come back.
    Machines,
}

/// A guess.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Estimate {
    /// How long it will take.
    pub remaining: SignedDuration,
    /// What that is made of.
    pub basis: Basis,
}

/// Guesses how long it takes until all operators are there. They come in waves: those of one are waited
/// for together, and those of the next after that. None, if nothing is known of one of them.
pub fn estimate(
    waves: &[Vec<Awaited>],
    past: &Past,
    machines: Option<Machines>,
) -> Option<Estimate> {
    let mut remaining = SignedDuration::ZERO;
    let mut basis = Basis::History;
    for wave in waves {
        let mut longest = SignedDuration::ZERO;
        for awaited in wave {
            let waited = awaited.waited.unwrap_or_default();
            let of_machines = machines
                .filter(|_| awaited.name == MACHINE_CONFIG)
                .map(|it| of_machines(it, waited));
            let left = if let Some(left) = of_machines {
                basis = Basis::Machines;
                left
            } else {
                let usual = past.usual(&awaited.name).or_else(|| {
                    let is_usual = awaited.name != MACHINE_CONFIG;
                    is_usual.then(|| past.of_others()).flatten()
                })?;
                // Who is late already will be for some more time.
                usual.saturating_sub(waited).max(usual / 5)
            };
            longest = longest.max(left);
        }
        remaining = remaining.saturating_add(longest);
    }
    Some(Estimate { remaining, basis })
}

/// The machines that are left, at the pace of those that are back.
fn of_machines(machines: Machines, waited: SignedDuration) -> SignedDuration {
    let left = machines.total.saturating_sub(machines.updated);
    let each = match i32::try_from(machines.updated) {
        Ok(updated) if updated > 0 && waited.is_positive() => waited / updated,
        _ => MACHINE,
    };
    each.saturating_mul(i32::try_from(left).unwrap_or(i32::MAX))
}
