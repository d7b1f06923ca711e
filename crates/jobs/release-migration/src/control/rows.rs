//! Operators one by one: how each fares, how long it took, and how many there are of each sort.

use std::collections::BTreeMap;

use api::release::{OperatorHistory, OperatorState, Progress, ReleasePolicyStatus, UndoneVersion};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::judge::Judged;
use crate::adoption::OPERATOR_IMAGE;
use crate::diagnose::diagnose;
use crate::evaluate::{Evaluation, Verdict};
use crate::failure::Reason;

/// How often it is remembered how long an operator took.
const TIMES: usize = 5;

/// An operator that has arrived.
pub(super) const ARRIVED: &str = "Arrived";
/// An operator that is on its way.
const UPDATING: &str = "Updating";

/// How an operator fares, in a word.
fn state(verdict: &Verdict) -> &'static str {
    match &verdict.failure {
        None if verdict.undone.is_empty() => ARRIVED,
        None => UPDATING,
        Some(_) if !verdict.reached => "NotReached",
        Some(failure) => match failure.reason() {
            Reason::NoVersions => "NoVersions",
            Reason::NotAvailable => "NotAvailable",
            Reason::Degraded => "Degraded",
            Reason::NotFound => "NotFound",
            Reason::Updating | Reason::Pool | Reason::Multiple => UPDATING,
        },
    }
}

/// Every operator of the release, by name.
pub(super) fn rows(judged: &Judged<'_>) -> Vec<OperatorState> {
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
            undone: verdict.undone.iter().map(told).collect(),
        };
        // An operator that two files have is waited for until both are content.
        let known = rows.get(verdict.name.as_str());
        if known.is_none_or(|known| known.state == ARRIVED) {
            rows.insert(&verdict.name, row);
        }
    }
    rows.into_values().collect()
}

fn told(undone: &crate::evaluate::Undone) -> UndoneVersion {
    let diagnosis = diagnose(undone, &[]);
    UndoneVersion {
        name: undone.name.clone(),
        from: undone.from.clone(),
        to: undone.to.clone(),
        reason: format!("{:?}", diagnosis.mismatch),
        message: diagnosis.message,
    }
}

/// How far it has come.
pub(super) fn progress(judged: &Judged<'_>, rows: &[OperatorState]) -> Option<Progress> {
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

/// Operators that have arrived since the last time, and how long they were waited for.
pub(super) fn arrivals<'a>(
    before: &'a [OperatorState],
    rows: &'a [OperatorState],
    now: Timestamp,
) -> impl Iterator<Item = (&'a str, i64)> {
    rows.iter().filter_map(move |row| {
        let old = before.iter().find(|it| it.name == row.name)?;
        // Who was only unwell has taken no step towards the release.
        let waited = old
            .waiting_since
            .as_ref()
            .filter(|_| !old.undone.is_empty())?;
        (row.state == ARRIVED).then(|| (row.name.as_str(), now.duration_since(waited.0).as_secs()))
    })
}

/// What is remembered of how long operators took.
pub(super) fn history(
    before: &ReleasePolicyStatus,
    rows: &[OperatorState],
    now: Timestamp,
) -> Vec<OperatorHistory> {
    let known = before.history.iter().cloned();
    let mut all: BTreeMap<String, OperatorHistory> =
        known.map(|it| (it.operator.clone(), it)).collect();
    for (name, took) in arrivals(&before.operators, rows, now) {
        let entry = all
            .entry(name.to_owned())
            .or_insert_with(|| OperatorHistory {
                operator: name.to_owned(),
                took_seconds: Vec::new(),
            });
        entry.took_seconds.insert(0, took.max(0));
        entry.took_seconds.truncate(TIMES);
    }
    all.into_values().collect()
}

/// How operators fare, in numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a number of its own for those who count"
)]
pub struct Tally {
    /// Those that have arrived.
    pub arrived: usize,
    /// Those that are on their way, or not reached yet.
    pub updating: usize,
    /// Those that are not well or not there.
    pub unwell: usize,
    /// Of all, those that report what will never be what the release wants.
    pub hopeless: usize,
    /// Of all, those that do not have to report their image.
    pub silent: usize,
    /// Whether the release has arrived.
    pub complete: bool,
    /// Whether the ClusterVersion says so, and it has not.
    pub claimed_early: bool,
    /// Whether the cluster does not get on, or too slowly.
    pub failing: bool,
    /// Whether the files of the release are there.
    pub payload_ready: bool,
    /// Whether Medley is to keep the ClusterVersion, and does not.
    pub not_owned: bool,
}

impl Tally {
    pub(super) fn of(judged: &Judged<'_>, status: &ReleasePolicyStatus) -> Self {
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
        let is_hopeless = |verdict: &&Verdict| {
            // Who reports nothing yet may just be the one before.
            let told = verdict.undone.iter().filter(|it| it.from.is_some());
            told.map(|it| diagnose(it, &[])).any(|it| !it.passes)
        };
        tally.hopeless = verdicts.filter(is_hopeless).count();
        let says = |kind: &str, reason: &str| {
            let mut all = status.conditions.iter();
            all.any(|it| it.type_ == kind && it.reason == reason)
        };
        tally.claimed_early = says("Agrees", "ClaimedEarly");
        tally.failing = status
            .conditions
            .iter()
            .any(|it| it.type_ == "Failing" && it.status != "False" && judged.loaded.is_some());
        tally.not_owned = ["ForeignOwner", "Forbidden"]
            .iter()
            .any(|reason| says("KeepsClusterVersion", reason));
        tally
    }

    /// How many operators there are of each sort, with its name for those who count.
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
