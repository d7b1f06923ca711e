//! The text form of a report, in the layout of `oc adm upgrade status`.

use std::fmt::Write as _;

use jiff::{SignedDuration, Timestamp};
use machinery::time::{format_duration, format_time};

use super::nodes::{NodeAssessment, NodePhase, NodeReport, PoolReport};
use super::projection::LONG;
use super::{Assessment, Insight, Level, Report};
use crate::history::Change;

/// Maximum number of nodes shown per pool, unless all are requested.
///
/// `oc adm upgrade status` shows as many.
const MAX_NODES: usize = 10;

/// Shorter names of nodes may be part of other words of a message.
const SHORT_NAME: usize = 8;

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
        // Without any worker, as in a compact cluster, there is nothing to show.
        if self.workers.iter().any(|it| it.total > 0) {
            workers(&self.workers, details, &mut text);
        }
        self.health_text(details, now, &mut text);
        text
    }

    fn health_text(&self, details: Details, now: Timestamp, text: &mut String) {
        text.push_str("\n= Update Health =\n");
        let since = |it: &Insight| match it.since {
            Some(since) => short(now.duration_since(since)),
            None => "-".to_owned(),
        };
        let has_problem = self.health.iter().any(|it| it.level != Level::Info);
        if details.health && has_problem {
            let all: Vec<String> = self
                .health
                .iter()
                .map(|it| described(it, &since(it)))
                .collect();
            text.push_str(&all.join("\n"));
            return;
        }
        let rows = self.health.iter().map(|it| {
            let message = it.message.lines().next().unwrap_or_default();
            [
                since(it),
                it.level.to_string(),
                it.impact.to_owned(),
                message.to_owned(),
            ]
        });
        let rows = rows.collect::<Vec<_>>();
        text.push_str(&table(["SINCE", "LEVEL", "IMPACT", "MESSAGE"], &rows));
        if has_problem {
            text.push_str("\nRun with --details=health for additional description and links to related online documentation\n");
        }
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
        let estimate_text = match (plane.projected, plane.remaining) {
            _ if plane.completed.is_some() => return String::new(),
            (Some(projected), _) if projected.remaining.is_zero() => return String::new(),
            (Some(projected), _) if projected.is_stalled() => {
                format!("N/A; estimate duration was {}", short(projected.total))
            }
            (Some(projected), _) if projected.remaining >= LONG => short(projected.remaining),
            (Some(_), _) => "<10m".to_owned(),
            (None, Some(estimate)) if estimate.remaining < LONG => "<10m".to_owned(),
            (None, Some(estimate)) => {
                // Seconds would suggest a precision that the estimate does not have.
                let minutes = estimate.remaining.as_secs().saturating_add(59) / 60;
                short(SignedDuration::from_mins(minutes))
            }
            (None, None) if is_migration => "N/A for Multi-Architecture Migration".to_owned(),
            (None, None) => return String::new(),
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

/// An insight with all of its details.
fn described(insight: &Insight, since: &str) -> String {
    let mut text = format!("Message: {}\n", printable(&insight.message));
    let mut line = |label: &str, value: &str| {
        if !value.is_empty() {
            let _ = writeln!(text, "  {:<13}{value}", format!("{label}:"));
        }
    };
    line("Since", since);
    line("Level", &insight.level.to_string());
    line("Impact", insight.impact);
    line("Reference", insight.reference);
    if let Some((resource, name)) = &insight.object {
        let _ = writeln!(text, "  Resources:\n    {resource}: {}", printable(name));
    }
    if !insight.description.is_empty() {
        let lines: Vec<String> = insight.description.split('\n').map(printable).collect();
        let joint = format!("\n{:15}, ", "");
        let _ = writeln!(text, "  Description: {}", lines.join(&joint));
    }
    text
}

/// Control characters from cluster objects must not reach the terminal.
fn printable(text: &str) -> String {
    text.replace(char::is_control, " ")
}

fn workers(pools: &[PoolReport], details: Details, text: &mut String) {
    text.push_str("\n= Worker Upgrade =\n\n");
    let rows: Vec<_> = pools
        .iter()
        .map(|pool| {
            let name = pool.name.clone();
            let doubled = pool.updated * 200 + pool.total;
            let Some(percent) = doubled.checked_div(pool.total * 2) else {
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

/// The message of a node without its name, which is in the same row and may be long.
fn without_name(node: &NodeReport) -> String {
    if node.name.len() < SHORT_NAME {
        return node.message.clone();
    }
    node.message.replace(&node.name, "<node>")
}

fn nodes(pool: &PoolReport, details: Details, text: &mut String) {
    let most = if details.nodes { usize::MAX } else { MAX_NODES };
    // Nodes with problems are shown however many there are.
    let (shown, rest): (Vec<_>, Vec<_>) = pool.nodes.iter().enumerate().partition(|(place, it)| {
        let has_problem = matches!(
            it.assessment,
            NodeAssessment::Degraded | NodeAssessment::Unavailable
        );
        *place < most || has_problem
    });
    let rows: Vec<_> = shown
        .into_iter()
        .map(|(_, it)| it)
        .map(|it| {
            [
                it.name.clone(),
                format!("{:?}", it.assessment),
                format!("{:?}", it.phase),
                it.version.clone(),
                it.estimate().to_owned(),
                without_name(it),
            ]
        })
        .collect();
    let headers = ["NAME", "ASSESSMENT", "PHASE", "VERSION", "EST", "MESSAGE"];
    text.push_str(&table(headers, &rows));
    let rest: Vec<&NodeReport> = rest.into_iter().map(|(_, it)| it).collect();
    if rest.is_empty() {
        return;
    }
    let like = |assessment| rest.iter().filter(|it| it.assessment == assessment).count();
    let _ = writeln!(
        text,
        "...\nOmitted additional {} Total, {} Completed, {} Available, {} Progressing, {} Outdated, {} Draining, {} Excluded, and {} Degraded nodes.\nPass along --details=nodes to see all information.",
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
        let cells: Vec<String> = cells
            .map(|(cell, width)| format!("{:<width$}", printable(cell)))
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
