//! `cargo xtask generate`: files that are written by programs.

use std::fs;

use anyhow::{Context as _, bail};
use clap::Args;

use crate::shell;

/// Where the reference of the command line is kept.
const CLI: &str = "docs/reference/cli.md";

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Change nothing; fail if a file is not as it would be written.
    #[arg(long)]
    check: bool,
}

/// Writes or checks all generated files.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let page = shell::read(shell::cargo().args([
        "run",
        "--quiet",
        "--package",
        "medley",
        "--example",
        "reference",
    ]))?;
    let path = shell::root().join(CLI);
    let current = fs::read_to_string(&path).unwrap_or_default();
    if current == page {
        return Ok(());
    }
    if arguments.check {
        bail!("{CLI} is out of date; write it with `cargo xtask generate`");
    }
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    }
    fs::write(&path, page).with_context(|| format!("writing {CLI}"))
}
