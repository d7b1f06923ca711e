//! The pages, in the order of the navigation.

mod cpu;
mod governance;
mod images;
mod machines;
mod overview;
pub(crate) mod placement;
mod release;
pub(crate) mod sign_in;

use axum::Router;
use futures::future::BoxFuture;

use crate::Console;
use crate::viewer::Viewer;

/// All pages of the navigation.
pub(crate) const PAGES: &[Page] = &[
    overview::PAGE,
    governance::PAGE,
    images::PAGE,
    cpu::PAGE,
    release::PAGE,
    placement::PAGE,
    machines::PAGE,
];

/// One page of the navigation, with its subpages.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Page {
    /// Its path.
    pub(crate) path: &'static str,
    /// Its label.
    pub(crate) label: &'static str,
    /// Its icon: SVG path data in a 24 by 24 box.
    pub(crate) icon: &'static str,
    /// Plural names of the kinds whose changes refresh the page.
    pub(crate) kinds: &'static [&'static str],
    /// Routes of its path and below.
    pub(crate) routes: fn() -> Router<Console>,
    /// State of its job, for the overview; `None` if the user may not read it.
    pub(crate) standing: Option<StandingFn>,
}

/// Computes the state of a job.
pub(crate) type StandingFn = for<'a> fn(&'a Viewer) -> BoxFuture<'a, Option<Standing>>;

/// Severity.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// Ready.
    #[default]
    Good,
    /// In progress; no action is needed.
    Busy,
    /// The user should inspect it.
    Warn,
    /// It has failed.
    Bad,
}

impl Level {
    /// Its CSS class.
    pub(crate) fn class(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Busy => "busy",
            Self::Warn => "warn",
            Self::Bad => "bad",
        }
    }

    /// Its text, for users who do not see colours.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Good => "Ready",
            Self::Busy => "Working",
            Self::Warn => "Needs attention",
            Self::Bad => "Failing",
        }
    }
}

/// The beginning of a digest.
pub(crate) fn short_digest(digest: &str) -> String {
    let hex = digest.strip_prefix("sha256:").unwrap_or(digest);
    hex.chars().take(12).collect()
}

/// State of one job.
#[derive(Debug, Clone, Default)]
pub(crate) struct Standing {
    /// A short summary: `4 profiles, 1 waits for review`.
    pub(crate) headline: String,
    /// Items that need attention or are in progress.
    pub(crate) notices: Vec<Notice>,
    /// Number of further items, none worse than the worst of `notices`.
    pub(crate) more: usize,
}

impl Standing {
    /// The worst level.
    pub(crate) fn level(&self) -> Level {
        let levels = self.notices.iter().map(|notice| notice.level);
        levels.max().unwrap_or_default()
    }
}

/// An item that needs attention.
#[derive(Debug, Clone)]
pub(crate) struct Notice {
    /// Its severity.
    pub(crate) level: Level,
    /// The object.
    pub(crate) subject: String,
    /// The message.
    pub(crate) text: String,
    /// The page to act on it.
    pub(crate) href: String,
}
