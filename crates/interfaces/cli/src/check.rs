//! `medley check`: whether a cluster is ready for Medley, and whether an installation is as it should be.
//!
//! ```text
//! gather  what there is, and what could not be seen   -> Facts
//! decide  Facts -> findings, each with a hint and a page
//! render  findings, for people
//! ```

mod decide;
mod facts;
mod gather;
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

/// Check a cluster before or after Medley is installed, and say what to do about what is wrong.
///
/// Looks at the version of Kubernetes, kinds, rights, what runs, who leads, admission checks and policies.
/// What is not installed of others is told and is no failure. The exit code is 1 if a check fails.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Check whether Medley can be installed, and not whether it runs.
    #[arg(long)]
    pre: bool,

    /// The namespace of the installation.
    #[arg(long, value_name = "NAME", default_value = manifests::NAMESPACE)]
    namespace: String,

    /// The controllers that run, or are to run, separated by commas.
    /// [default: what the operator was told; before it is there governance, cpu-models, release]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    controllers: Option<Vec<Job>>,

    /// When to use colours.
    #[arg(long, value_enum, value_name = "WHEN", default_value = "auto")]
    color: Colour,

    /// Form of the output; a list for people if absent.
    #[arg(short, long, value_enum)]
    output: Option<Data>,

    #[command(flatten)]
    cluster: ClusterArguments,
}

/// Checks.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let wanted = gather::Wanted {
        pre: arguments.pre,
        namespace: arguments.namespace.clone(),
        jobs: arguments
            .controllers
            .as_ref()
            .map(|jobs| jobs.iter().copied().collect()),
    };
    let findings = process::build_runtime()?.block_on(async {
        let client = arguments.cluster.client().await?;
        let facts = Box::pin(gather::gather(&client, &wanted)).await?;
        anyhow::Ok(decide::decide(&facts))
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

/// As programs read it.
fn data(findings: &[Finding]) -> anyhow::Result<Value> {
    Ok(json!({ "kind": "List", "items": serde_json::to_value(findings)? }))
}
