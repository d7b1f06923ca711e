//! `medley man`: manual pages.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use clap_mangen::Man;

use crate::exit;

/// Print the manual page, or write the manual pages of all commands to a directory.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Directory to write the pages of all commands to, created if missing.
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
}

/// Writes the pages.
pub(crate) fn run(arguments: &Arguments, command: clap::Command) -> anyhow::Result<()> {
    let Some(folder) = &arguments.to else {
        let mut page = Vec::new();
        Man::new(command)
            .render(&mut page)
            .context("writing the manual page")?;
        return exit::print(&String::from_utf8_lossy(&page));
    };
    let what = || format!("writing manual pages to {}", folder.display());
    std::fs::create_dir_all(folder).with_context(what)?;
    clap_mangen::generate_to(command, folder).with_context(what)
}
