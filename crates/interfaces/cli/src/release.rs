//! `medley release`: releases as files, and whether a cluster has completed one.

mod cluster;
mod explain;
mod lint;
mod migrate;
mod mirror;
mod output;
mod preflight;
mod render;
mod report;
mod source;
mod status;
mod verify;

use std::process::ExitCode;

use clap::{Args, Subcommand};

pub(crate) use cluster::{Read, try_version};

use crate::exit;

/// Build and check releases, migrate a cluster to multi-arch, and verify the migration.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Status(status::Arguments),
    Explain(explain::Arguments),
    Preflight(preflight::Arguments),
    Migrate(migrate::Arguments),
    Verify(verify::Arguments),
    Report(report::Arguments),
    Lint(lint::Arguments),
    Render(render::Arguments),
    Mirror(mirror::Arguments),
}

/// Runs `medley release ...`.
pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    let outcome = match &arguments.command {
        Command::Status(arguments) => status::run(arguments),
        Command::Explain(arguments) => explain::run(arguments),
        Command::Preflight(arguments) => preflight::run(arguments),
        Command::Migrate(arguments) => migrate::run(arguments),
        // Its exit code distinguishes more than success and failure.
        Command::Verify(arguments) => return verify::run(arguments),
        Command::Report(arguments) => report::run(arguments),
        Command::Lint(arguments) => lint::run(arguments),
        Command::Render(arguments) => render::run(arguments),
        Command::Mirror(arguments) => mirror::run(arguments),
    };
    exit::outcome(outcome)
}
