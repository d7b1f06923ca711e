//! `medley place`: where pods can run, by what their images are for.

mod cluster;
mod explain;
mod report;

use clap::{Args, Subcommand};

/// Explain where pods can run, by what their images are for, and look for those that cannot.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Explain(explain::Arguments),
    Report(report::Arguments),
}

/// Runs `medley place ...`.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    match &arguments.command {
        Command::Explain(arguments) => explain::run(arguments),
        Command::Report(arguments) => report::run(arguments),
    }
}
