//! `medley cpu`: CPU models of nodes and virtual machines.

mod explain;
mod list;
mod objects;
mod vms;
mod what_if;

use clap::{Args, Subcommand};

pub(crate) use objects::view;
pub(crate) use vms::state;

/// Show the CPU models of nodes and virtual machines, and explain how they are chosen.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct CpuArguments {
    #[command(subcommand)]
    command: Option<Command>,

    #[command(flatten)]
    list: list::Arguments,
}

#[derive(Debug, Subcommand)]
enum Command {
    Explain(explain::Arguments),
    Vms(vms::Arguments),
    WhatIf(what_if::Arguments),
}

/// Runs `medley cpu ...`.
pub(crate) fn run(arguments: &CpuArguments) -> anyhow::Result<()> {
    match &arguments.command {
        None => list::run(&arguments.list),
        Some(Command::Explain(arguments)) => explain::run(arguments),
        Some(Command::Vms(arguments)) => vms::run(arguments),
        Some(Command::WhatIf(arguments)) => what_if::run(arguments),
    }
}
