//! `medley release status`: where a cluster is on its way to a release.

use ::release_migration::report::Details;
use anyhow::{Context as _, bail};
use clap::{Args, ValueEnum};

use super::cluster::ReleaseArguments;
use crate::governance::output::Data;
use crate::{exit, process};

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

/// What has to have arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Gate {
    /// All operators, and the machines of the control plane.
    ControlPlane,
    /// All other machines as well.
    Workers,
}

/// Show where a cluster is on its way to a release, and whether it has truly arrived.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  medley release status
  medley release status --release quay.io/x/release:4.18.0-multi --details operators
  medley release status --release release -o json
  until medley release status --release release --gate workers; do sleep 60; done")]
pub(super) struct Arguments {
    /// What to show beyond the usual.
    #[arg(long, value_enum, value_name = "WHAT", default_value = "none")]
    details: Detail,

    /// Fail unless this has arrived.
    #[arg(long, value_enum, value_name = "WHAT")]
    gate: Option<Gate>,

    /// Form of the output; text if absent.
    #[arg(short, long, value_enum)]
    output: Option<Data>,

    #[command(flatten)]
    release: ReleaseArguments,
}

/// Shows.
pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let read = process::build_runtime()?.block_on(arguments.release.read())?;
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
    exit::print(&text)?;
    if let Some(gate) = arguments.gate
        && !report.is_complete(gate == Gate::Workers)
    {
        bail!(
            "the cluster has not arrived at {} yet",
            report.control_plane.target.text
        );
    }
    Ok(())
}
