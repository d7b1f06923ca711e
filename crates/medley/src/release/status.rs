//! `medley release status`: where a cluster is on its way to a release.

use ::release::report::Details;
use anyhow::Context as _;
use clap::{Args, ValueEnum};

use super::cluster::ReleaseArguments;
use crate::governance::output::Data;
use crate::{exit, runtime};

/// What is shown beyond the usual.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Detail {
    /// Nothing.
    None,
    /// Everything.
    All,
    /// All machines.
    Nodes,
    /// Remarks with all their words.
    Health,
    /// Operators that are on their way, and why.
    Operators,
}

/// Show where a cluster is on its way to a release, and whether it has truly arrived.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  medley release status
  medley release status --release quay.io/x/release:4.18.0-multi --details operators
  medley release status --release release -o json")]
pub(super) struct Arguments {
    /// What to show beyond the usual.
    #[arg(long, value_enum, value_name = "WHAT", default_value = "none")]
    details: Detail,

    /// Form of the output; text if absent.
    #[arg(short, long, value_enum)]
    output: Option<Data>,

    #[command(flatten)]
    release: ReleaseArguments,
}

/// Shows.
pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let read = runtime::build()?.block_on(arguments.release.read())?;
    let report = read.report();
    let wants = |detail| arguments.details == detail || arguments.details == Detail::All;
    let text = match arguments.output {
        Some(form) => form.write(&serde_json::to_value(&report).context("writing the result")?)?,
        None => report.text(
            Details {
                nodes: wants(Detail::Nodes),
                operators: wants(Detail::Operators),
                health: wants(Detail::Health),
            },
            read.now,
        ),
    };
    exit::print(&text)
}
