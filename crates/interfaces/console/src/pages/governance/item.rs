//! One item of a plan, for review and progress.

use ::governance::deviation::describe;
use ::governance::explain::since;
use ::governance::values::short;
use api::advisor::{Impact, Item, ItemState, Operation, Takeover};
use machinery::time::format_time;

use super::diff::{self, Line, Pair};
use crate::pages::Level;

/// Data of an item.
pub(super) struct ItemView {
    pub(super) name: String,
    pub(super) target: String,
    pub(super) does: &'static str,
    pub(super) impact: Option<Impact>,
    pub(super) state: &'static str,
    pub(super) level: Level,
    pub(super) is_done: bool,
    pub(super) message: Option<String>,
    pub(super) since: Option<String>,
    pub(super) depends_on: String,
    pub(super) added: usize,
    pub(super) removed: usize,
    pub(super) lines: Vec<Line>,
    pub(super) pairs: Vec<Pair>,
    pub(super) takeovers: Vec<TakeoverView>,
    /// What the API server keeps instead of what is requested.
    pub(super) deviations: Vec<String>,
}

/// A field that is taken over from another manager.
pub(super) struct TakeoverView {
    pub(super) path: String,
    pub(super) manager: String,
    /// Since when that manager owns it, as the end of a sentence.
    pub(super) since: String,
    pub(super) live: String,
    pub(super) wanted: String,
    /// Whether Medley owned it before, so that no consent is needed.
    pub(super) reclaimed: bool,
}

impl ItemView {
    pub(super) fn new(item: &Item, split: bool) -> Self {
        let lines = diff::lines(item.diff.as_deref().unwrap_or_default());
        let (added, removed) = diff::count(&lines);
        let (state, level) = match item.state {
            ItemState::Pending => ("Pending", Level::Good),
            ItemState::InProgress => ("In progress", Level::Busy),
            ItemState::Completed => ("Done", Level::Good),
            ItemState::Failed => ("Failed", Level::Bad),
        };
        let pairs = if split {
            diff::pairs(&lines)
        } else {
            Vec::new()
        };
        Self {
            name: item.name.clone(),
            target: item.target_ref.to_string(),
            does: match item.operation {
                Operation::Apply if lines.is_empty() && item.state == ItemState::Completed => {
                    "keeps"
                }
                Operation::Apply if lines.is_empty() => "leaves unchanged",
                Operation::Apply => "changes",
                Operation::Restore => "releases fields of",
                Operation::Delete => "deletes",
            },
            impact: item.impact_severity,
            state,
            level,
            is_done: item.state == ItemState::Completed,
            message: item.message.clone().filter(|text| !text.is_empty()),
            since: item
                .last_transition_time
                .as_ref()
                .map(|time| format_time(time.0)),
            depends_on: item.depends_on.join(", "),
            added,
            removed,
            pairs,
            lines,
            takeovers: item.takeovers.iter().map(TakeoverView::new).collect(),
            deviations: item.deviations.iter().map(describe).collect(),
        }
    }

    /// CSS class of the impact.
    pub(super) fn impact_class(&self) -> &'static str {
        impact_class(self.impact)
    }
}

/// CSS class of an impact.
pub(super) fn impact_class(impact: Option<Impact>) -> &'static str {
    match impact {
        Some(Impact::High) => "bad",
        Some(Impact::Medium) => "warn",
        Some(Impact::Low) | None => "good",
    }
}

impl TakeoverView {
    fn new(takeover: &Takeover) -> Self {
        Self {
            path: takeover.path.clone(),
            manager: takeover.manager.clone(),
            since: since(takeover),
            live: short(takeover.live.as_ref()),
            wanted: short(takeover.wanted.as_ref()),
            reclaimed: takeover.reclaimed,
        }
    }
}
