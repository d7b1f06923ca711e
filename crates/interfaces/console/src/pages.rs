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

/// One page of the navigation, with those below it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Page {
    /// Where it is.
    pub(crate) path: &'static str,
    /// What it is called.
    pub(crate) label: &'static str,
    /// Its sign in the navigation: the outline of a drawing 24 wide and high, as SVG paths have it.
    pub(crate) icon: &'static str,
    /// The plural names of the kinds that have it rendered again when they change.
    pub(crate) kinds: &'static [&'static str],
    /// What is answered at its path and below.
    pub(crate) routes: fn() -> Router<Console>,
    /// How it is with its job, for the overview. What the user may not see is left out: `None`.
    pub(crate) standing: Option<Stands>,
}

/// Tells how it is with a job.
pub(crate) type Stands = for<'a> fn(&'a Viewer) -> BoxFuture<'a, Option<Standing>>;

/// How good or bad something is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// All is well.
    #[default]
    Good,
    /// Something is going on; nobody has to do anything.
    Busy,
    /// Somebody should look.
    Warn,
    /// Something does not work.
    Bad,
}

impl Level {
    /// The class that it is shown with.
    pub(crate) fn class(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Busy => "busy",
            Self::Warn => "warn",
            Self::Bad => "bad",
        }
    }

    /// The same for those who do not see colours.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Good => "All is well",
            Self::Busy => "Working",
            Self::Warn => "Needs attention",
            Self::Bad => "Failing",
        }
    }
}

/// How it is with one job.
#[derive(Debug, Clone, Default)]
pub(crate) struct Standing {
    /// What there is, in a few words: `4 profiles, 1 waits for review`.
    pub(crate) headline: String,
    /// What needs attention, or is going on.
    pub(crate) notices: Vec<Notice>,
    /// How much of that there is besides, which is no better than the worst of it.
    pub(crate) more: usize,
}

impl Standing {
    /// The worst of it.
    pub(crate) fn level(&self) -> Level {
        let levels = self.notices.iter().map(|notice| notice.level);
        levels.max().unwrap_or_default()
    }
}

/// Something that needs attention.
#[derive(Debug, Clone)]
pub(crate) struct Notice {
    /// How bad it is.
    pub(crate) level: Level,
    /// What it is about.
    pub(crate) subject: String,
    /// What about it.
    pub(crate) text: String,
    /// Where to do something about it.
    pub(crate) href: String,
}
