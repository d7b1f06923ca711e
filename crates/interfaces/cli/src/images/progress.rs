//! Progress of an import: a bar on a terminal, lines of JSON otherwise.

use std::io::{IsTerminal as _, Write as _};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use importer::{Found, Mounted, Watch};
use indicatif::{ProgressBar, ProgressStyle};
use oci::resolve::Chosen;
use serde_json::{Value, json};

/// Interval between two progress lines.
const INTERVAL: Duration = Duration::from_secs(1);

const STYLE: &str =
    "{msg} [{bar:30}] {binary_bytes}/{binary_total_bytes} {binary_bytes_per_sec} ETA {eta}";

/// Reports progress on standard error.
pub(crate) enum ProgressReporter {
    Bar(ProgressBar),
    Lines { last: Option<Instant> },
}

impl ProgressReporter {
    /// A bar, if standard error is a terminal.
    pub(super) fn new() -> Self {
        if !std::io::stderr().is_terminal() {
            return Self::Lines { last: None };
        }
        let bar = ProgressBar::new(0);
        if let Ok(style) = ProgressStyle::with_template(STYLE) {
            bar.set_style(style.progress_chars("=> "));
        }
        Self::Bar(bar)
    }

    /// Always lines of JSON.
    pub(crate) fn lines() -> Self {
        Self::Lines { last: None }
    }
}

/// Prints one line of JSON; the import continues when standard error is closed.
pub(crate) fn line(value: &Value) {
    let _ = writeln!(std::io::stderr(), "{value}");
}

impl Watch for ProgressReporter {
    fn chosen(&mut self, chosen: &Chosen) {
        match self {
            Self::Bar(bar) => bar.set_message(chosen.platform.to_string()),
            Self::Lines { .. } => line(&json!({
                "event": "chosen",
                "platform": chosen.platform.to_string(),
                "digest": chosen.digest.to_string(),
                "size": chosen.manifest.size(),
            })),
        }
    }

    fn found(&mut self, found: &Found) {
        match self {
            Self::Bar(bar) => bar.set_message("file"),
            Self::Lines { .. } => line(&json!({
                "event": "found",
                "etag": found.version.etag,
                "lastModified": found.version.modified,
                "size": found.version.length,
            })),
        }
    }

    fn mounted(&mut self, mounted: &Mounted) {
        match self {
            Self::Bar(bar) => bar.set_message("mounted"),
            Self::Lines { .. } => line(&json!({
                "event": "mounted",
                "path": mounted.path.display().to_string(),
                "size": mounted.size,
            })),
        }
    }

    fn progress(&mut self, progress: &importer::Progress) -> ControlFlow<()> {
        match self {
            Self::Bar(bar) => {
                if let Some(total) = progress.total {
                    bar.set_length(total);
                }
                bar.set_position(progress.fetched);
            }
            Self::Lines { last } => {
                if last.is_none_or(|last| last.elapsed() >= INTERVAL) {
                    *last = Some(Instant::now());
                    let mut value = json!(progress);
                    value["event"] = json!("progress");
                    line(&value);
                }
            }
        }
        ControlFlow::Continue(())
    }
}

impl Drop for ProgressReporter {
    fn drop(&mut self) {
        if let Self::Bar(bar) = self {
            bar.finish_and_clear();
        }
    }
}
