//! `medley release status`: the progress of a cluster towards a release.

use ::release_migration::report::Details;
use anyhow::{Context as _, bail};
use clap::{Args, ValueEnum};

use super::cluster::ReleaseArguments;
use crate::governance::output::Data;
use crate::{exit, process};

/// Values of `--details`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Detail {
    /// Nothing.
    None,
    /// Everything.
    All,
    /// All nodes.
    Nodes,
    /// Messages in full.
    Health,
    /// Operators that are not done, and why.
    Operators,
}

/// Values of `--gate`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Gate {
    /// All operators, and the control plane nodes.
    ControlPlane,
    /// All other nodes as well.
    Workers,
}

/// Show the progress of a cluster towards a release, and whether it is complete.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  medley release status
  medley release status --release quay.io/x/release:4.18.0-multi --details operators
  medley release status --release release -o json
  until medley release status --release release --gate workers; do sleep 60; done")]
pub(super) struct Arguments {
    /// Additional details to show.
    #[arg(long, value_enum, value_name = "WHAT", default_value = "none")]
    details: Detail,

    /// Fail unless these have completed.
    #[arg(long, value_enum, value_name = "WHAT")]
    gate: Option<Gate>,

    /// Output format; text by default.
    #[arg(short, long, value_enum)]
    output: Option<Data>,

    #[command(flatten)]
    release: ReleaseArguments,
}

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
            "the cluster has not completed {} yet",
            report.control_plane.target.text
        );
    }
    Ok(())
}
