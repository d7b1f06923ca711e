//! `medley release status`: the progress of a cluster towards a release.

use ::release_migration::report::Details;
use anyhow::bail;
use clap::{Args, ValueEnum};

use super::cluster::ReleaseArguments;
use crate::output::OutputArguments;
use crate::process;

/// Values of `--details`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Detail {
    /// No details.
    None,
    /// All of the following.
    All,
    /// Every node.
    Nodes,
    /// Untruncated messages.
    Health,
    /// Operators that have not completed the release, and why.
    Operators,
}

/// Values of `--gate`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Gate {
    /// All operators and the control plane nodes.
    ControlPlane,
    /// All other nodes as well.
    Workers,
}

/// Show how far a cluster has progressed towards a release.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Details to show.
    #[arg(long, value_enum, value_name = "WHAT", default_value = "none")]
    details: Detail,

    /// Exit with 1 unless this part of the cluster has completed the release.
    #[arg(long, value_enum, value_name = "WHAT")]
    gate: Option<Gate>,

    #[command(flatten)]
    output: OutputArguments,

    #[command(flatten)]
    release: ReleaseArguments,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let read = process::build_runtime()?.block_on(arguments.release.read())?;
    let report = read.report();
    let wants = |detail| arguments.details == detail || arguments.details == Detail::All;
    let details = Details {
        nodes: wants(Detail::Nodes),
        operators: wants(Detail::Operators),
        health: wants(Detail::Health),
    };
    arguments
        .output
        .print(&report, || report.text(details, read.now))?;
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
