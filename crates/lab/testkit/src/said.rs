//! What a program said, and what it had to say.

use std::process::Output;

use anyhow::{Context as _, ensure};
use serde_json::Value;

/// What a program said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// Its exit code, unless a signal ended it.
    pub code: Option<i32>,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

impl Said {
    /// Of a program that has ended.
    pub fn of(output: &Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self {
            code: output.status.code(),
            out: text(&output.stdout),
            err: text(&output.stderr),
        }
    }

    /// The output of a command that worked.
    pub fn ok(self) -> anyhow::Result<String> {
        ensure!(self.code == Some(0), "{:?}: {}", self.code, self.err);
        Ok(self.out)
    }

    /// The errors of a command that was refused.
    pub fn refused(self) -> anyhow::Result<String> {
        ensure!(self.code == Some(1), "{:?}: {}", self.code, self.out);
        let told = self.err.lines().any(|line| line.starts_with("error: "));
        ensure!(told, "{}", self.err);
        Ok(self.err)
    }

    /// The output of a command that worked and writes JSON.
    pub fn json(self) -> anyhow::Result<Value> {
        let out = self.ok()?;
        serde_json::from_str(&out).context(out)
    }
}

/// Panics unless all parts are in a text.
#[track_caller]
pub fn has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part} in\n{text}");
    }
}
