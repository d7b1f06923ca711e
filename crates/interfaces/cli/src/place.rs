//! `medley place`: which nodes can run pods, by the platforms of their images, pods that are held, and who places pods.

pub(crate) mod cluster;
mod explain;
mod hand_over;
mod release;
mod report;

use clap::{Args, Subcommand};

/// Explain which nodes can run a pod's images, report pods that cannot run, release held pods, and choose the operator that
/// places pods.
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
    TakeOver(hand_over::TakeOver),
    HandBack(hand_over::HandBack),
}

/// Runs `medley place ...`.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    match &arguments.command {
        Command::Explain(arguments) => explain::run(arguments),
        Command::Report(arguments) => report::run(arguments),
        Command::Release(arguments) => release::run(arguments),
        Command::TakeOver(arguments) => arguments.run(),
        Command::HandBack(arguments) => arguments.run(),
    }
}
