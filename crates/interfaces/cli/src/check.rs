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
mod render;

use anyhow::bail;
use clap::Args;
use controllers::Job;
use serde_json::{Value, json};

use self::decide::{Finding, State};
use crate::cluster::ClusterArguments;
use crate::governance::output::Data;
use crate::terminal::Colour;
use crate::{exit, process};

/// Check a cluster before or after Medley is installed, and suggest a fix for each problem.
///
/// Checks the Kubernetes version, CRDs, RBAC permissions, workloads, leader election, admission
/// webhooks and policies. Optional third-party components that are not installed are reported and
/// do not fail the check. The exit code is 1 if a check fails.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Check only whether Medley can be installed, not whether it runs.
    #[arg(long)]
    pre: bool,

    /// The namespace of the installation.
    #[arg(long, value_name = "NAME", default_value = manifests::NAMESPACE)]
    namespace: String,

    /// The controllers that run, or are to run, separated by commas.
    /// [default: those the operator is configured with; before installation governance, cpu-models,
    /// release]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    controllers: Option<Vec<Job>>,

    /// When to use colours.
    #[arg(long, value_enum, value_name = "WHEN", default_value = "auto")]
    color: Colour,

    /// Output format; a list for people by default.
    #[arg(short, long, value_enum)]
    output: Option<Data>,

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
    let text = match arguments.output {
        Some(form) => form.write(&data(&findings)?)?,
        None => render::render(&findings, arguments.color.is_on()),
    };
    exit::print(&text)?;
    let failed = findings.iter().filter(|it| it.state == State::Failed);
    match failed.count() {
        0 => Ok(()),
        1 => bail!("1 of {} checks failed", findings.len()),
        failed => bail!("{failed} of {} checks failed", findings.len()),
    }
}

/// The findings as JSON, for `-o json` and `-o yaml`.
fn data(findings: &[Finding]) -> anyhow::Result<Value> {
    Ok(json!({ "kind": "List", "items": serde_json::to_value(findings)? }))
}
