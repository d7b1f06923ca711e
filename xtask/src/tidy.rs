//! `cargo xtask tidy`: repository rules that no other tool checks.

mod purity;
mod sources;

use std::io::Write as _;

use anyhow::bail;

/// Runs all checks and reports every problem, not only the first.
pub(crate) fn run() -> anyhow::Result<()> {
    let mut problems = purity::check()?;
    problems.extend(sources::check()?);
    if problems.is_empty() {
        return Ok(());
    }
    let mut out = std::io::stderr().lock();
    for line in &problems {
        // A closed pipe does not change the result.
        let _ = writeln!(out, "{line}");
    }
    bail!("{} problem(s) found", problems.len());
}
