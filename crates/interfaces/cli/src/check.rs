//! `medley check`: whether a cluster is ready for Medley, and whether an installation is healthy.
//!
//! ```text
//! gather  cluster state, and what could not be read -> CheckInputs
//! decide  CheckInputs -> findings, each with a hint and a docs page
//! render  findings as text
//! ```

mod decide;
mod gather;
mod inputs;
mod network;
mod openshift;
mod render;

use anyhow::bail;
use clap::Args;
use controllers::Job;
use serde_json::json;

use self::decide::State;
use crate::cluster::ClusterArguments;
use crate::output::OutputArguments;
use crate::process;
use crate::terminal::Colour;

/// Check a cluster before or after the installation of Medley, and suggest fixes.
///
/// Checks the Kubernetes version, CRDs, RBAC, workloads, leader election, admission webhooks and
/// policies. Missing third-party components that are optional are reported, but do not fail the
/// check. The exit code is 1 if a check fails.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Check whether Medley can be installed, not whether it runs.
    #[arg(long)]
    pre: bool,

    /// Namespace of the installation.
    #[arg(long, value_name = "NAME", default_value = manifests::NAMESPACE)]
    namespace: String,

    /// Comma-separated controllers to check.
    /// [default: those of the installed operator; before installation governance, cpu-models,
    /// release]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    controllers: Option<Vec<Job>>,

    /// When to use colours.
    #[arg(long, value_enum, value_name = "WHEN", default_value = "auto")]
    color: Colour,

    #[command(flatten)]
    output: OutputArguments,

    #[command(flatten)]
    cluster: ClusterArguments,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let wanted = gather::CheckOptions {
        pre: arguments.pre,
        namespace: arguments.namespace.clone(),
        jobs: arguments
            .controllers
            .as_ref()
            .map(|jobs| jobs.iter().copied().collect()),
    };
    let findings = process::build_runtime()?.block_on(async {
        let client = arguments.cluster.client().await?;
        let inputs = Box::pin(gather::gather(&client, &wanted)).await?;
        anyhow::Ok(decide::decide(&inputs))
    })?;
    let value = json!({ "kind": "List", "items": findings });
    let text = || render::render(&findings, arguments.color.is_on());
    arguments.output.print(&value, text)?;
    let failed = findings.iter().filter(|it| it.state == State::Failed);
    match failed.count() {
        0 => Ok(()),
        1 => bail!("1 of {} checks failed", findings.len()),
        failed => bail!("{failed} of {} checks failed", findings.len()),
    }
}
