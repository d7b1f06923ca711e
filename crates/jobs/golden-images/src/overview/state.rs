//! The state of an image, shared by the CLI, the console and the status of the policy.

use std::fmt;

use api::cdi::{DataImportCronStatus, DataSource};
use serde::Serialize;

use crate::conditions;

/// The state of the image for an architecture.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub enum State {
    /// It can be cloned.
    Ready,
    /// It is being imported, or its import has not begun.
    #[default]
    Pending,
    /// Its import fails, and no earlier version is ready.
    Failed,
    /// No node has its architecture any more; it is deleted after the grace period.
    Leaving,
}

impl State {
    /// The state by precedence.
    pub(crate) fn of(leaving: bool, ready: bool, failed: bool) -> Self {
        match () {
            // Before Ready: the image works, but will be deleted, and that is what a user has to
            // know.
            () if leaving => Self::Leaving,
            () if ready => Self::Ready,
            () if failed => Self::Failed,
            () => Self::Pending,
        }
    }

    /// The state as printed.
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

/// Whether the newest version cannot be imported. An import in progress is no failure.
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
