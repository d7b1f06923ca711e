//! The state of each operator, its duration, and the counts per state.

use std::collections::BTreeMap;

use api::release::{OperatorHistory, OperatorState, Progress, ReleasePolicyStatus, UndoneVersion};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::evaluation::ClusterEvaluation;
use crate::adoption::OPERATOR_IMAGE;
use crate::diagnose::diagnose;
use crate::evaluate::{Evaluation, OperatorVerdict};
use crate::failure::Reason;

/// Number of durations to keep per operator.
///
/// A median of five ignores two outliers, such as an update that waited for an administrator; older ones describe a
/// cluster of another size.
const KEPT_DURATIONS: usize = 5;

/// State of an operator that is done.
pub(super) const ARRIVED: &str = "Arrived";
/// State of an operator that is updating.
const UPDATING: &str = "Updating";

/// The state of an operator.
fn state(verdict: &OperatorVerdict) -> &'static str {
    match &verdict.failure {
        None if verdict.undone.is_empty() => ARRIVED,
        None => UPDATING,
        Some(_) if !verdict.reached => "NotReached",
        Some(failure) => match failure.reason() {
            Reason::NoVersions => "NoVersions",
            Reason::NotAvailable => "NotAvailable",
            Reason::Degraded => "Degraded",
            Reason::NotFound => "NotFound",
            Reason::Updating
            | Reason::Pool
            | Reason::ClusterVersion
            | Reason::Manifests
            | Reason::Multiple => UPDATING,
        },
    }
}

/// Every operator of the release, by name.
pub(super) fn rows(judged: &ClusterEvaluation<'_>) -> Vec<OperatorState> {
    let (Some(loaded), Some(evaluation)) = (judged.loaded, &judged.evaluation) else {
        return Vec::new();
    };
    let wanted = loaded.plan.operators().iter().zip(&evaluation.operators);
    let mut rows: BTreeMap<&str, OperatorState> = BTreeMap::new();
    for (wanted, verdict) in wanted {
        let row = OperatorState {
            name: verdict.name.clone(),
            state: state(verdict).to_owned(),
            reports_image: wanted.expected.version(OPERATOR_IMAGE).is_some(),
            waiting_since: judged.waits.since(&verdict.name).map(Time),
            undone: verdict.undone.iter().map(undone_version).collect(),
        };
        // An operator with two manifests is waited for until both are satisfied.
        let known = rows.get(verdict.name.as_str());
        if known.is_none_or(|known| known.state == ARRIVED) {
            rows.insert(&verdict.name, row);
        }
    }
    rows.into_values().collect()
}

fn undone_version(undone: &crate::evaluate::MissingVersion) -> UndoneVersion {
    // Without pods: the status does not cause a list of all pods for each change of an operator.
    let diagnosis = diagnose(undone, &[]);
    UndoneVersion {
        name: undone.name.clone(),
        from: undone.from.clone(),
        to: undone.to.clone(),
        reason: format!("{:?}", diagnosis.mismatch),
        message: diagnosis.message,
    }
}

/// The progress of the release.
pub(super) fn progress(judged: &ClusterEvaluation<'_>, rows: &[OperatorState]) -> Option<Progress> {
    let evaluation: &Evaluation = judged.evaluation.as_ref()?;
    let count = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
    let arrived = rows.iter().filter(|it| it.state == ARRIVED).count();
    Some(Progress {
        operators: count(rows.len()),
        arrived: count(arrived),
        reporting: count(rows.iter().filter(|it| it.reports_image).count()),
        manifests: count(evaluation.total),
        done: count(evaluation.done),
    })
}

/// Operators that finished since the last reconcile, and the durations of their waits.
pub(super) fn finished_operators<'a>(
    before: &'a [OperatorState],
    rows: &'a [OperatorState],
    now: Timestamp,
) -> impl Iterator<Item = (&'a str, i64)> {
    rows.iter().filter_map(move |row| {
        let old = before.iter().find(|it| it.name == row.name)?;
        // An operator that was only unhealthy made no progress towards the release.
        let waited = old
            .waiting_since
            .as_ref()
            .filter(|_| !old.undone.is_empty())?;
        (row.state == ARRIVED).then(|| (row.name.as_str(), now.duration_since(waited.0).as_secs()))
    })
}

/// The recorded durations of operators.
pub(super) fn history(
    before: &ReleasePolicyStatus,
    rows: &[OperatorState],
    now: Timestamp,
) -> Vec<OperatorHistory> {
    let known = before.history.iter().cloned();
    let mut all: BTreeMap<String, OperatorHistory> =
        known.map(|it| (it.operator.clone(), it)).collect();
    for (name, took) in finished_operators(&before.operators, rows, now) {
        let entry = all
            .entry(name.to_owned())
            .or_insert_with(|| OperatorHistory {
                operator: name.to_owned(),
                took_seconds: Vec::new(),
            });
        entry.took_seconds.insert(0, took.max(0));
        entry.took_seconds.truncate(KEPT_DURATIONS);
    }
    all.into_values().collect()
}

/// Counts for the metrics.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a metric of its own")]
pub struct Tally {
    /// Operators that are done.
    pub arrived: usize,
    /// Operators that are updating, or not reached yet.
    pub updating: usize,
    /// Operators that are unhealthy or missing.
    pub unwell: usize,
    /// Among all, operators whose reported version can never match the release.
    pub hopeless: usize,
    /// Among all, operators that do not have to report their image.
    pub silent: usize,
    /// Whether the release is complete.
    pub complete: bool,
    /// Whether the ClusterVersion claims completion too early.
    pub claimed_early: bool,
    /// Whether the update fails or is slow.
    pub failing: bool,
    /// Whether the files of the release are loaded.
    pub payload_ready: bool,
    /// Whether Medley should maintain the ClusterVersion, but does not.
    pub not_owned: bool,
}

impl Tally {
    pub(super) fn of(judged: &ClusterEvaluation<'_>, status: &ReleasePolicyStatus) -> Self {
        let mut tally = Self {
            complete: judged.complete,
            payload_ready: judged.trouble.is_none(),
            ..Self::default()
        };
        for row in &status.operators {
            match row.state.as_str() {
                ARRIVED => tally.arrived += 1,
                UPDATING | "NotReached" => tally.updating += 1,
                _ => tally.unwell += 1,
            }
            tally.silent += usize::from(!row.reports_image);
        }
        let verdicts = judged.evaluation.iter().flat_map(|it| &it.operators);
        let is_hopeless = |verdict: &&OperatorVerdict| {
            // An operator that reports nothing yet may still be the previous build.
            let undone_version = verdict.undone.iter().filter(|it| it.from.is_some());
            undone_version
                .map(|it| diagnose(it, &[]))
                .any(|it| !it.passes)
        };
        tally.hopeless = verdicts.filter(is_hopeless).count();
        let has_condition = |kind: &str, reason: &str| {
            let mut all = status.conditions.iter();
            all.any(|it| it.type_ == kind && it.reason == reason)
        };
        tally.claimed_early = has_condition("Agrees", "ClaimedEarly");
        tally.failing = status
            .conditions
            .iter()
            .any(|it| it.type_ == "Failing" && it.status != "False" && judged.loaded.is_some());
        tally.not_owned = ["ForeignOwner", "Forbidden"]
            .iter()
            .any(|reason| has_condition("KeepsClusterVersion", reason));
        tally
    }

    /// The number of operators per value of the `state` label.
    pub fn states(&self) -> [(&'static str, usize); 5] {
        [
            ("arrived", self.arrived),
            ("updating", self.updating),
            ("unwell", self.unwell),
            ("hopeless", self.hopeless),
            ("silent", self.silent),
        ]
    }
}
