//! Output of a finished program, and assertions on it.

use std::process::Output;

use anyhow::{Context as _, ensure};
use serde_json::Value;

/// Output of a finished program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandOutput {
    /// Exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

impl CommandOutput {
    /// Reads the output of a finished program.
    pub fn of(output: &Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self {
            code: output.status.code(),
            out: text(&output.stdout),
            err: text(&output.stderr),
        }
    }

    /// Standard output of a command that succeeded.
    pub fn ok(self) -> anyhow::Result<String> {
        ensure!(self.code == Some(0), "{:?}: {}", self.code, self.err);
        Ok(self.out)
    }

    /// Standard error of a command that failed.
    pub fn refused(self) -> anyhow::Result<String> {
        ensure!(self.code == Some(1), "{:?}: {}", self.code, self.out);
        let has_error = self.err.lines().any(|line| line.starts_with("error: "));
        ensure!(has_error, "{}", self.err);
        Ok(self.err)
    }

    /// The parsed JSON output of a command that succeeded.
    pub fn json(self) -> anyhow::Result<Value> {
        let out = self.ok()?;
        serde_json::from_str(&out).context(out)
    }
}

/// Panics unless the text contains all parts.
#[track_caller]
pub fn has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part} in\n{text}");
    }
}
