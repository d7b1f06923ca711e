//! The remaining time of an update by the share of updated operators, as `oc adm upgrade status` projects it.
//!
//! For a migration within one version it says nothing: operators that report no image count as updated at once.

use api::openshift::UpdateHistory;
use jiff::{SignedDuration, Timestamp};

use super::operators::OperatorReport;
use crate::conditions::MACHINE_CONFIG;

/// Assumed duration of an update without an earlier one.
const USUAL_DURATION: SignedDuration = SignedDuration::from_hours(1);
/// Before, the pace of an update is unknown.
const PACE_KNOWN_AFTER: SignedDuration = SignedDuration::from_mins(5);
/// Precision of longer durations is a minute, and of shorter ones a second.
pub(super) const LONG: SignedDuration = SignedDuration::from_mins(10);
/// An estimate that is too long is the smaller error.
const MARGIN: f64 = 1.2;

/// A projected duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Projection {
    /// The remaining time; negative if the update is late.
    pub(super) remaining: SignedDuration,
    /// The duration of the whole update.
    pub(super) total: SignedDuration,
}

impl Projection {
    /// Whether the update is so late that it counts as stalled.
    pub(super) fn is_stalled(self) -> bool {
        self.remaining < -LONG
    }

    /// Whether the update is late.
    pub(super) fn is_slow(self) -> bool {
        self.remaining.is_negative()
    }
}

/// Projects an update that started then. `None` if all operators are updated.
pub(super) fn project(
    history: &[UpdateHistory],
    operators: &[OperatorReport],
    started: Timestamp,
    now: Timestamp,
) -> Option<Projection> {
    let count = |count: usize| u32::try_from(count).map_or(f64::MAX, f64::from);
    let updated = operators.iter().filter(|it| it.updated).count();
    if updated == operators.len() {
        return None;
    }
    let curve = time_share(count(updated) / count(operators.len()));
    let observed = last_progress(operators, started, now).duration_since(started);
    let total = if updated > 0 && curve > 0.0 && observed > PACE_KNOWN_AFTER {
        observed.as_secs_f64() / curve
    } else {
        earlier_duration(history).as_secs_f64()
    };
    let elapsed = now.duration_since(started);
    let left = total - elapsed.as_secs_f64();
    let left = if left < 0.0 {
        left / MARGIN
    } else {
        left * MARGIN
    };
    let left = SignedDuration::try_from_secs_f64(left).ok()?;
    let remaining = rounded(SignedDuration::from_secs(left.as_secs()));
    let minutes = (elapsed + remaining).as_secs() / 60;
    Some(Projection {
        remaining,
        total: SignedDuration::from_mins(minutes),
    })
}

/// A duration in minutes, or in seconds if it is short.
pub(super) fn rounded(duration: SignedDuration) -> SignedDuration {
    let unit: i64 = if duration > LONG { 60 } else { 1 };
    let half = SignedDuration::from_millis(unit * 500);
    let away = if duration.is_negative() {
        duration.saturating_sub(half)
    } else {
        duration.saturating_add(half)
    };
    SignedDuration::from_secs(away.as_secs() / unit * unit)
}

/// The last change of an operator. Operators of DaemonSets change with every node that restarts, so only machine-config
/// counts once it is the last.
fn last_progress(operators: &[OperatorReport], started: Timestamp, now: Timestamp) -> Timestamp {
    let mut late = operators.iter().filter(|it| !it.updated);
    let last = match (late.next(), late.next()) {
        (Some(only), None) if only.name == MACHINE_CONFIG && only.progressing => only.since,
        _ => operators.iter().filter_map(|it| it.since).max(),
    };
    last.filter(|it| *it > started).unwrap_or(now)
}

/// The duration of the last completed update. The oldest entry is the installation.
fn earlier_duration(history: &[UpdateHistory]) -> SignedDuration {
    let updates = history.split_last().map_or(history, |(_, rest)| rest);
    let completed = updates.iter().skip(1).find(|it| it.is_completed());
    let took = completed.and_then(|it| {
        let (from, to) = (it.started_time.as_ref()?, it.completion_time.as_ref()?);
        Some(to.0.duration_since(from.0))
    });
    took.unwrap_or(USUAL_DURATION)
}

/// The share of the time that has usually passed when this share of operators is updated: 97% of them take two thirds of
/// it. The coefficients are those of `timewiseComplete` in pkg/cli/admin/upgrade/status/controlplane.go of oc.
fn time_share(operators: f64) -> f64 {
    let coefficients: &[f64] = if operators < 0.25 {
        &[-0.030_787_88, 2.628_86, -3.823_954]
    } else if operators < 0.9 {
        &[0.185_121_5, 1.649_94, -4.676_898, 5.451_824, -2.125_286]
    } else {
        &[25_053.32, -107_394.3, 172_527.2, -123_107.0, 32_921.81]
    };
    let powers = std::iter::successors(Some(1.0), |power| Some(power * operators));
    coefficients
        .iter()
        .zip(powers)
        .map(|(it, power)| it * power)
        .sum()
}
