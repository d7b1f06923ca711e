//! The text form of a report, in the layout of `oc adm upgrade status`.

use std::fmt::Write as _;

use jiff::{SignedDuration, Timestamp};
use machinery::time::{format_duration, format_time};

use super::nodes::{NodeAssessment, NodePhase, NodeReport, PoolReport};
use super::{Assessment, Report};
use crate::history::Change;

/// Maximum number of nodes shown per pool, unless all are requested.
///
/// `oc adm upgrade status` shows as many.
const MAX_NODES: usize = 10;

/// Optional parts of the text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Details {
    /// All nodes.
    pub nodes: bool,
    /// Updating operators with their messages.
    pub operators: bool,
    /// Insights with their full messages.
    pub health: bool,
}

impl Report {
    /// The text of the report.
    pub fn text(&self, details: Details, now: Timestamp) -> String {
        if !self.updating {
            let mut text = "The cluster is not updating.\n".to_owned();
            if self.control_plane.assessment != Assessment::Completed && !self.health.is_empty() {
                self.health_text(details, now, &mut text);
            }
            return text;
        }
        let mut text = String::new();
        self.control_plane_text(details, now, &mut text);
        if !self.workers.is_empty() {
            workers(&self.workers, details, &mut text);
        }
        self.health_text(details, now, &mut text);
        text
    }

    fn health_text(&self, details: Details, now: Timestamp, text: &mut String) {
        let rows = self.health.iter().map(|it| {
            let since = it.since.map(|since| short(now.duration_since(since)));
            let message = if details.health {
                it.message.clone()
            } else {
                it.message.lines().next().unwrap_or_default().to_owned()
            };
            [
                since.unwrap_or_else(|| "-".to_owned()),
                it.level.to_string(),
                it.impact.to_owned(),
                message,
            ]
        });
        let rows = rows.collect::<Vec<_>>();
        text.push_str("\n= Update Health =\n");
        text.push_str(&table(["SINCE", "LEVEL", "IMPACT", "MESSAGE"], &rows));
    }

    fn control_plane_text(&self, details: Details, now: Timestamp, text: &mut String) {
        let plane = &self.control_plane;
        text.push_str("= Control Plane =\n");
        let duration = plane.duration.map(short).unwrap_or_default();
        if plane.assessment == Assessment::Completed {
            let at = plane.completed.map(format_time).unwrap_or_default();
            let version = &plane.target.version;
            let _ = writeln!(
                text,
                "Update to {version} successfully completed at {at} (duration: {duration})"
            );
        } else {
            let _ = writeln!(text, "Assessment:      {}", plane.assessment.word());
            let _ = writeln!(text, "Target Version:  {}", plane.target.text);
            if !plane.updating.is_empty() {
                let _ = writeln!(text, "Updating:        {}", plane.updating.join(", "));
            }
            let all = plane.completion;
            let _ = writeln!(
                text,
                "Completion:      {}% ({} operators updated, {} updating, {} waiting)",
                all.percent, all.updated, all.updating, all.waiting
            );
            let remaining = self.remaining_text();
            let _ = writeln!(text, "Duration:        {duration}{remaining}");
        }
        let health = plane.health;
        let mut words = format!("{} Healthy", health.healthy);
        if health.unavailable > 0 {
            let _ = write!(words, ", {} Unavailable", health.unavailable);
        }
        if health.degraded > 0 {
            let _ = write!(words, ", {} Available but degraded", health.degraded);
        }
        if plane.assessment != Assessment::Completed {
            let _ = writeln!(text, "Operator Health: {words}");
        }
        if details.operators {
            self.updating_text(now, text);
        }
        if !plane.pools.is_empty() && plane.pools.iter().all(PoolReport::is_done) {
            let version = &plane.target.version;
            let _ = writeln!(
                text,
                "\nAll control plane nodes successfully updated to {version}"
            );
            return;
        }
        for pool in plane.pools.iter().filter(|it| !it.nodes.is_empty()) {
            text.push_str("\nControl Plane Nodes\n");
            nodes(pool, details, text);
        }
    }

    /// The estimated remaining time. For a migration without an estimate none is given, as upstream.
    fn remaining_text(&self) -> String {
        let plane = &self.control_plane;
        let is_migration = !matches!(plane.target.change, Change::Install | Change::Update { .. });
        let estimate_text = match plane.remaining {
            _ if plane.completed.is_some() => return String::new(),
            Some(estimate) if estimate.remaining < SignedDuration::from_mins(10) => {
                "<10m".to_owned()
            }
            Some(estimate) => {
                // Seconds would suggest a precision that the estimate does not have.
                let minutes = estimate.remaining.as_secs().saturating_add(59) / 60;
                short(SignedDuration::from_mins(minutes))
            }
            None if is_migration => "N/A for Multi-Architecture Migration".to_owned(),
            None => return String::new(),
        };
        format!(" (Est. Time Remaining: {estimate_text})")
    }

    fn updating_text(&self, now: Timestamp, text: &mut String) {
        let updating = self.control_plane.operators.iter();
        let rows: Vec<_> = updating
            .filter(|it| !it.updated)
            .map(|it| {
                // The conditions of an operator that has not started are not about this update.
                let own = Some(it).filter(|it| it.progressing);
                let since = own.and_then(|it| it.since);
                let since = since.map(|since| short(now.duration_since(since)));
                let reason = own.map(|it| it.reason.as_str()).filter(|it| !it.is_empty());
                let undone: Vec<String> = it.undone.iter().map(ToString::to_string).collect();
                let message = own.map(|it| it.message.clone()).filter(|it| !it.is_empty());
                [
                    it.name.clone(),
                    since.unwrap_or_else(|| "-".to_owned()),
                    reason.unwrap_or("-").to_owned(),
                    message.unwrap_or_else(|| undone.join("; ")),
                ]
            })
            .collect();
        if !rows.is_empty() {
            text.push_str("\nUpdating Cluster Operators\n");
            text.push_str(&table(["NAME", "SINCE", "REASON", "MESSAGE"], &rows));
        }
    }
}

fn workers(pools: &[PoolReport], details: Details, text: &mut String) {
    text.push_str("\n= Worker Upgrade =\n\n");
    let rows: Vec<_> = pools
        .iter()
        .map(|pool| {
            let name = pool.name.clone();
            let Some(percent) = (pool.updated * 100).checked_div(pool.total) else {
                return [
                    name,
                    "Empty".to_owned(),
                    String::new(),
                    "0 Total".to_owned(),
                ];
            };
            [
                name,
                format!("{:?}", pool.assessment),
                format!("{percent}% ({}/{})", pool.updated, pool.total),
                status(pool),
            ]
        })
        .collect();
    let headers = ["WORKER POOL", "ASSESSMENT", "COMPLETION", "STATUS"];
    text.push_str(&table(headers, &rows));
    for pool in pools.iter().filter(|it| !it.nodes.is_empty()) {
        let _ = writeln!(text, "\nWorker Pool Nodes: {}", pool.name);
        nodes(pool, details, text);
    }
}

/// `2 Available, 1 Progressing, 1 Draining`, and further counts.
fn status(pool: &PoolReport) -> String {
    let like = |assessment| pool.count(|it| it.assessment == assessment);
    let mut words = vec![
        format!("{} Available", pool.count(|it| it.available)),
        format!("{} Progressing", like(NodeAssessment::Progressing)),
        format!(
            "{} Draining",
            pool.count(|it| it.phase == NodePhase::Draining)
        ),
    ];
    for (assessment, word) in [
        (NodeAssessment::Excluded, "Excluded"),
        (NodeAssessment::Degraded, "Degraded"),
    ] {
        let count = like(assessment);
        if count > 0 {
            words.push(format!("{count} {word}"));
        }
    }
    words.join(", ")
}

fn nodes(pool: &PoolReport, details: Details, text: &mut String) {
    let most = if details.nodes { usize::MAX } else { MAX_NODES };
    let rows: Vec<_> = pool
        .nodes
        .iter()
        .take(most)
        .map(|it| {
            [
                it.name.clone(),
                format!("{:?}", it.assessment),
                format!("{:?}", it.phase),
                it.version.clone(),
                it.phase.estimate().to_owned(),
                it.message.clone(),
            ]
        })
        .collect();
    let headers = ["NAME", "ASSESSMENT", "PHASE", "VERSION", "EST", "MESSAGE"];
    text.push_str(&table(headers, &rows));
    let rest: Vec<&NodeReport> = pool.nodes.iter().skip(most).collect();
    if rest.is_empty() {
        return;
    }
    let like = |assessment| rest.iter().filter(|it| it.assessment == assessment).count();
    let _ = writeln!(
        text,
        "...\nOmitted additional {} Total, {} Completed, {} Available, {} Progressing, {} Outdated, {} Draining, {} Excluded, and {} Degraded nodes",
        rest.len(),
        like(NodeAssessment::Completed),
        rest.iter().filter(|it| it.available).count(),
        like(NodeAssessment::Progressing),
        like(NodeAssessment::Outdated),
        rest.iter()
            .filter(|it| it.phase == NodePhase::Draining)
            .count(),
        like(NodeAssessment::Excluded),
        like(NodeAssessment::Degraded),
    );
}

/// A Go duration without fractions and trailing zeros; `now` if it is zero.
fn short(duration: SignedDuration) -> String {
    let whole = SignedDuration::from_secs(duration.as_secs());
    if whole.is_zero() {
        return "now".to_owned();
    }
    let mut text = format_duration(whole);
    for (ending, kept) in [("h0m0s", 1), ("m0s", 1)] {
        if text.ends_with(ending) {
            text.truncate(text.len() - ending.len() + kept);
            break;
        }
    }
    text
}

/// A table with three spaces between columns.
fn table<const N: usize>(headers: [&str; N], rows: &[[String; N]]) -> String {
    let mut widths = headers.map(str::len);
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let mut text = String::new();
    let mut line = |cells: [&str; N]| {
        let cells = cells.iter().zip(widths);
        // Control characters from cluster objects must not reach the terminal.
        let cells: Vec<String> = cells
            .map(|(cell, width)| format!("{:<width$}", cell.replace(char::is_control, " ")))
            .collect();
        text.push_str(cells.join("   ").trim_end());
        text.push('\n');
    };
    line(headers);
    for row in rows {
        line(row.each_ref().map(String::as_str));
    }
    text
}
