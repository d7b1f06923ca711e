//! `medley profile`: PlatformProfiles before they are in a cluster.
//!
//! A profile comes from a file, or from an image in a registry or an OCI layout, whose first layer is the file. All of it
//! is checked by the operator's own code, so that what passes here is ready there.

mod lint;
mod pack;
mod render;
mod source;
mod test;

use clap::{Args, Subcommand};

/// Check, test and render profiles as data (PlatformProfiles), and pack them as OCI artifacts.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Lint(lint::Arguments),
    Test(test::Arguments),
    Render(Box<render::Arguments>),
    Pack(pack::Arguments),
}

/// Runs `medley profile ...`.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    match &arguments.command {
        Command::Lint(arguments) => lint::run(arguments),
        Command::Test(arguments) => test::run(arguments),
        Command::Render(arguments) => render::run(arguments),
        Command::Pack(arguments) => pack::run(arguments),
    }
}
