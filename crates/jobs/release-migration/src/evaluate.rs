//! Whether the operators of a cluster have arrived at a release.
//!
//! One operator is judged by [`check`], a whole release by [`Plan::evaluate`]: in the order in which
//! manifests are applied, so that who is not reached yet is not blamed.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use api::openshift::ClusterOperator;
use kube_core::ResourceExt as _;
use serde::Serialize;

use crate::failure::{Effect, Failure, Reason};
use crate::payload::{Operator, Payload, Step, steps};

/// What a cluster does with a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub enum Phase {
    /// It is installed.
    Initializing,
    /// It is on its way from another one.
    Updating,
    /// It has arrived, and is kept there.
    Reconciling,
}

/// A version that an operator has to report and does not.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Undone {
    /// Its name: `operator`, `operator-image`.
    pub name: String,
    /// What it reports instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// What it has to report.
    pub to: String,
}

impl fmt::Display for Undone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.from {
            Some(from) => write!(f, "{} from {from} to {}", self.name, self.to),
            None => write!(f, "{} to {}", self.name, self.to),
        }
    }
}

/// What is to be said of one operator.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Verdict {
    /// The operator.
    pub name: String,
    /// Whether everything before it in the order is done.
    pub reached: bool,
    /// Versions that it does not report, by name.
    pub undone: Vec<Undone>,
    /// What holds the release up, if it does.
    pub failure: Option<Failure>,
}

/// Versions that an operator has to report and does not, sorted. What is expected and what is reported
/// are compared to the letter; of several reports under one name the first counts, and an empty one is
/// none. What it reports beyond that is nobody's business.
pub fn undone(expected: &ClusterOperator, actual: Option<&ClusterOperator>) -> Vec<Undone> {
    let mut undone: Vec<Undone> = expected
        .versions()
        .iter()
        .filter_map(|wanted| {
            let found = actual.and_then(|it| it.version(&wanted.name));
            (found.unwrap_or_default() != wanted.version).then(|| Undone {
                name: wanted.name.clone(),
                from: found.map(str::to_owned),
                to: wanted.version.clone(),
            })
        })
        .collect();
    undone.sort();
    undone.dedup();
    undone
}

/// What holds a release up in one operator, if anything: the first of what is wrong. `number` is that
/// of its manifest, from 1 on.
///
/// Whether it is progressing is not asked: who has the right versions and is well has arrived.
pub fn check(
    expected: &ClusterOperator,
    actual: Option<&ClusterOperator>,
    phase: Phase,
    number: usize,
    total: usize,
) -> Option<Failure> {
    let name = expected.name_any();
    let failure = |reason, effect| Some(Failure::of_operator(reason, &name, effect));
    if expected.versions().is_empty() {
        return failure(Reason::NoVersions, Effect::Fail);
    }
    let Some(actual) = actual else {
        return Some(Failure::not_found(&name, number, total));
    };
    let holds = |kind: &str, status: &str| {
        let found = actual.condition(kind);
        found.is_some_and(|condition| condition.status == status)
    };
    if !holds("Available", "True") {
        return failure(Reason::NotAvailable, Effect::Fail);
    }
    let installing = phase == Phase::Initializing;
    if !holds("Degraded", "False") {
        let effect = if installing {
            Effect::Report
        } else {
            Effect::FailAfterInterval
        };
        return failure(Reason::Degraded, effect);
    }
    if !installing && !undone(expected, Some(actual)).is_empty() {
        return failure(Reason::Updating, Effect::None);
    }
    None
}

/// What there is to do for a release. Made once, and asked whenever an operator says something.
#[derive(Debug, Clone)]
pub struct Plan {
    operators: Vec<Operator>,
    by_place: BTreeMap<usize, usize>,
    steps: Vec<Step>,
    total: usize,
}

/// How far a cluster has come.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Evaluation {
    /// What is to be said of every operator, in order.
    pub operators: Vec<Verdict>,
    /// Manifests that are done.
    pub done: usize,
    /// Manifests that there are.
    pub total: usize,
    /// What holds the release up.
    pub failure: Option<Failure>,
}

impl Evaluation {
    /// Whether the cluster has arrived.
    pub fn is_complete(&self) -> bool {
        self.failure.is_none()
    }
}

impl Plan {
    /// The plan for a release.
    pub fn new(payload: &Payload) -> Self {
        let operators = payload.operators();
        let places = operators.iter().enumerate();
        Self {
            by_place: places.map(|(index, it)| (it.place, index)).collect(),
            operators,
            steps: steps(&payload.manifests),
            total: payload.manifests.len(),
        }
    }

    /// The operators, in order.
    pub fn operators(&self) -> &[Operator] {
        &self.operators
    }

    /// Judges all operators. While a cluster is updated, a step waits for all of the step before, and in
    /// a component a manifest waits for the one before; else nothing waits for anything.
    ///
    /// Everything but operators counts as done as soon as it is reached: whoever applies it knows better.
    pub fn evaluate(&self, actual: &BTreeMap<String, ClusterOperator>, phase: Phase) -> Evaluation {
        let failures: Vec<Option<Failure>> = self
            .operators
            .iter()
            .map(|it| {
                let found = actual.get(&it.name);
                check(&it.expected, found, phase, it.place + 1, self.total)
            })
            .collect();
        let (reached, done) = self.reached(&failures, phase);
        let verdicts: Vec<Verdict> = self
            .operators
            .iter()
            .zip(&failures)
            .map(|(it, failure)| Verdict {
                name: it.name.clone(),
                reached: reached.contains(&it.place),
                undone: undone(&it.expected, actual.get(&it.name)),
                failure: failure.clone(),
            })
            .collect();
        let blamed = verdicts.iter().filter(|verdict| verdict.reached);
        let failure = Failure::combine(blamed.filter_map(|it| it.failure.clone()).collect());
        Evaluation {
            operators: verdicts,
            done,
            total: self.total,
            failure,
        }
    }

    /// Places of the operators that are reached, and how many manifests are done.
    fn reached(&self, failures: &[Option<Failure>], phase: Phase) -> (BTreeSet<usize>, usize) {
        let fails = |place: &usize| {
            let index = self.by_place.get(place);
            index.is_some_and(|index| failures.get(*index).is_some_and(Option::is_some))
        };
        let mut reached = BTreeSet::new();
        let mut done = 0;
        if phase != Phase::Updating {
            reached.extend(self.by_place.keys());
            let failing = self.by_place.keys().filter(|place| fails(place)).count();
            return (reached, self.total - failing);
        }
        for step in &self.steps {
            let mut is_done = true;
            for part in &step.parts {
                let before = part.places.iter().take_while(|place| !fails(place)).count();
                done += before;
                is_done &= before == part.places.len();
                // The first that fails is reached as well: it is waited for.
                let seen = part.places.iter().take(before + 1);
                reached.extend(seen.filter(|place| self.by_place.contains_key(place)));
            }
            if !is_done {
                break;
            }
        }
        (reached, done)
    }
}
