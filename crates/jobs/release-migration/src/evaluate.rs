//! Whether the operators of a cluster have reached a release.
//!
//! [`check`] evaluates one operator, [`Plan::evaluate`] a whole release, in the order in which manifests are applied:
//! operators that are not reached yet do not count as failing.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use api::openshift::ClusterOperator;
use kube_core::ResourceExt as _;
use serde::Serialize;

use crate::failure::{Effect, Failure, Reason};
use crate::payload::{ApplyStage, Operator, Payload, steps};

/// The phase of a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub enum Phase {
    /// It is being installed.
    Initializing,
    /// The cluster is updating to it.
    Updating,
    /// It is complete, and is being maintained.
    Reconciling,
}

/// An expected version that an operator does not report.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct MissingVersion {
    /// Its name: `operator`, `operator-image`.
    pub name: String,
    /// The reported value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The expected value.
    pub to: String,
}

impl fmt::Display for MissingVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.from {
            Some(from) => write!(f, "{} from {from} to {}", self.name, self.to),
            None => write!(f, "{} to {}", self.name, self.to),
        }
    }
}

/// The verdict about one operator.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OperatorVerdict {
    /// The operator.
    pub name: String,
    /// Whether everything before it in the order is done.
    pub reached: bool,
    /// Versions that it does not report, by name.
    pub undone: Vec<MissingVersion>,
    /// What blocks the release, if it does.
    pub failure: Option<Failure>,
}

/// Expected versions that an operator does not report, sorted. Values are compared as strings; of several reports under
/// one name the first counts, and an empty one counts as missing. Additional reported versions are ignored.
pub fn undone(expected: &ClusterOperator, actual: Option<&ClusterOperator>) -> Vec<MissingVersion> {
    let mut undone: Vec<MissingVersion> = expected
        .versions()
        .iter()
        .filter_map(|wanted| {
            let found = actual.and_then(|it| it.version(&wanted.name));
            (found.unwrap_or_default() != wanted.version).then(|| MissingVersion {
                name: wanted.name.clone(),
                from: found.map(str::to_owned),
                to: wanted.version.clone(),
            })
        })
        .collect();
    // As the cluster-version operator sorts its messages: equal states have equal messages.
    undone.sort();
    undone.dedup();
    undone
}

/// What blocks a release in one operator, if anything: the first problem. `number` is that of its manifest, starting at
/// 1.
///
/// Progressing is not checked: an operator that is healthy and has the expected versions is done.
pub fn check(
    expected: &ClusterOperator,
    actual: Option<&ClusterOperator>,
    phase: Phase,
    number: usize,
    total: usize,
) -> Option<Failure> {
    // The rules and their order are `checkOperatorHealth` in pkg/cvo/internal/operatorstatus.go of the cluster-version
    // operator. The first problem is the reason of the ClusterVersion, so another order would report other reasons.
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
    // A missing condition counts as bad, here and for Degraded below: an operator that has not reported yet is not
    // healthy.
    if !holds("Available", "True") {
        return failure(Reason::NotAvailable, Effect::Fail);
    }
    let installing = phase == Phase::Initializing;
    if !holds("Degraded", "False") {
        // Operators are degraded until their dependencies are installed, so an installation only reports it.
        let effect = if installing {
            Effect::Report
        } else {
            Effect::FailAfterInterval
        };
        return failure(Reason::Degraded, effect);
    }
    // Last: an operator that is unhealthy may never report its versions, and waiting for them would hide that.
    if !installing && !undone(expected, Some(actual)).is_empty() {
        return failure(Reason::Updating, Effect::None);
    }
    None
}

/// The evaluation plan of a release. Created once, and evaluated for every change of an operator.
#[derive(Debug, Clone)]
pub struct Plan {
    operators: Vec<Operator>,
    by_place: BTreeMap<usize, usize>,
    steps: Vec<ApplyStage>,
    total: usize,
}

/// The progress of a cluster.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Evaluation {
    /// The verdict about every operator, in order.
    pub operators: Vec<OperatorVerdict>,
    /// The number of completed manifests.
    pub done: usize,
    /// The number of all manifests.
    pub total: usize,
    /// What blocks completion.
    pub failure: Option<Failure>,
}

impl Evaluation {
    /// Whether the release is complete.
    pub fn is_complete(&self) -> bool {
        self.failure.is_none()
    }
}

impl Plan {
    /// Creates the plan for a release.
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

    /// The number of manifests.
    pub fn total(&self) -> usize {
        self.total
    }

    /// Whether only operators can be left during an update, once so many manifests are done.
    pub fn leaves_only_operators(&self, done: usize) -> bool {
        let mut done = done;
        self.steps.iter().all(|step| {
            let size: usize = step.parts.iter().map(|part| part.places.len()).sum();
            let left = size.saturating_sub(done);
            done = done.saturating_sub(size);
            // Any part may hold all that is left, as the number does not name it.
            step.parts.iter().all(|part| {
                let mut last = part.places.iter().rev().take(left);
                last.all(|place| self.by_place.contains_key(place))
            })
        })
    }

    /// Evaluates all operators. During an update, a step waits for all of the previous step, and a manifest for the
    /// previous one of its component; otherwise nothing waits.
    ///
    /// Everything but operators counts as done as soon as it is reached: only the process that applies it knows more.
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
        let verdicts: Vec<OperatorVerdict> = self
            .operators
            .iter()
            .zip(&failures)
            .map(|(it, failure)| OperatorVerdict {
                name: it.name.clone(),
                reached: reached.contains(&it.place),
                undone: undone(&it.expected, actual.get(&it.name)),
                failure: failure.clone(),
            })
            .collect();
        // An operator that is not reached still has its old versions. That is expected, and no failure.
        let blamed = verdicts.iter().filter(|verdict| verdict.reached);
        let failure = Failure::combine(blamed.filter_map(|it| it.failure.clone()).collect());
        Evaluation {
            operators: verdicts,
            done,
            total: self.total,
            failure,
        }
    }

    /// Indexes of the reached operators, and the number of completed manifests.
    fn reached(&self, failures: &[Option<Failure>], phase: Phase) -> (BTreeSet<usize>, usize) {
        let fails = |place: &usize| {
            let index = self.by_place.get(place);
            index.is_some_and(|index| failures.get(*index).is_some_and(Option::is_some))
        };
        let mut reached = BTreeSet::new();
        let mut done = 0;
        // Upstream applies everything in parallel during an installation, and in random order afterwards.
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
                let reached_places = part.places.iter().take(before + 1);
                reached.extend(reached_places.filter(|place| self.by_place.contains_key(place)));
            }
            if !is_done {
                break;
            }
        }
        (reached, done)
    }
}
