//! How it is with an image, in one word: the same word wherever it is said.

use std::fmt;

use api::cdi::{DataImportCronStatus, DataSource};
use serde::Serialize;

use crate::conditions;

/// How it is with the image for an architecture.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub enum State {
    /// It can be cloned.
    Ready,
    /// It is on its way, or nobody has begun.
    #[default]
    Pending,
    /// It cannot be had.
    Failed,
    /// No node has its architecture any more; it goes soon.
    Leaving,
}

impl State {
    /// What counts first.
    pub(crate) fn of(leaving: bool, ready: bool, failed: bool) -> Self {
        match () {
            () if leaving => Self::Leaving,
            () if ready => Self::Ready,
            () if failed => Self::Failed,
            () => Self::Pending,
        }
    }

    /// The word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "Ready",
            Self::Pending => "Pending",
            Self::Failed => "Failed",
            Self::Leaving => "Leaving",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Whether a DataSource can be cloned.
pub(crate) fn is_ready(source: &DataSource) -> bool {
    let status = source.status.as_ref();
    status
        .and_then(|status| conditions::get(&status.conditions, "Ready"))
        .is_some_and(|ready| ready.status == "True")
}

/// Whether the newest version cannot be had. What is only on its way is no failure.
pub(crate) fn is_failed(status: Option<&DataImportCronStatus>) -> bool {
    let known = status.and_then(|status| conditions::get(&status.conditions, "UpToDate"));
    known.is_some_and(|known| {
        known.status == "False"
            && !matches!(
                known.reason.as_deref(),
                Some("NoDigest" | "Outdated" | "ImportProgressing") | None
            )
    })
}
