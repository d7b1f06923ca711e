//! `cargo xtask tidy`: rules of the house that no other tool checks.

mod purity;
mod sources;

use std::io::Write as _;

use anyhow::bail;

/// Checks everything and reports all that is wrong, not only the first.
pub(crate) fn run() -> anyhow::Result<()> {
    let mut wrong = purity::check()?;
    wrong.extend(sources::check()?);
    if wrong.is_empty() {
        return Ok(());
    }
    let mut out = std::io::stderr().lock();
    for line in &wrong {
        // A closed pipe changes nothing about the verdict.
        let _ = writeln!(out, "{line}");
    }
    bail!("{} rule(s) of the house are broken", wrong.len());
}
