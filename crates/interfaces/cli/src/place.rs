//! `medley place`: which nodes can run pods, by the platforms of their images, and pods that are held.

pub(crate) mod cluster;
mod explain;
mod release;
mod report;

use clap::{Args, Subcommand};

/// Explain which nodes can run a pod's images, report pods that cannot run, and release held pods.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Explain(explain::Arguments),
    Report(report::Arguments),
    Release(release::Arguments),
}

/// Runs `medley place ...`.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    match &arguments.command {
        Command::Explain(arguments) => explain::run(arguments),
        Command::Report(arguments) => report::run(arguments),
        Command::Release(arguments) => release::run(arguments),
    }
}
