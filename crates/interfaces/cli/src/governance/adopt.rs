//! `medley adopt`: turns manual changes into options of the configuration.

use std::fmt::Write as _;

use ::governance::answer;
use ::governance::values::short;
use anyhow::anyhow;
use api::advisor::GROUP;
use clap::Args;

use super::configs::{configs, registry};
use super::output::{confirm, remark};
use crate::cluster::ClusterArguments;
use crate::{exit, process};

/// Turn manual changes into options, so that the profile keeps them.
///
/// Changes that no option covers are listed and remain drift.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The configuration.
    name: String,

    /// Adopt only this field and the fields below it.
    /// [default: all drifted fields]
    #[arg(long, value_name = "PATH")]
    path: Option<String>,

    /// Do not ask for confirmation.
    #[arg(short, long)]
    yes: bool,

    #[command(flatten)]
    cluster: ClusterArguments,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    process::build_runtime()?.block_on(async {
        let configs = configs(&arguments.cluster.client().await?);
        let name = &arguments.name;
        let config = configs.get(name).await?;
        let registry = registry()?;
        let profile = registry
            .get(&config.spec.profile)
            .ok_or_else(|| anyhow!("there is no profile {}", config.spec.profile))?;
        let adoption = answer::adopt(&**profile, &config, arguments.path.as_deref())?;
        for why in &adoption.refused {
            remark(why);
        }
        let mut text = String::new();
        for drift in &adoption.adopted {
            let _ = writeln!(
                text,
                "{} of item {}: {} instead of {}{}",
                drift.path,
                drift.item,
                short(drift.live.as_ref()),
                short(drift.applied.as_ref()),
                drift
                    .manager
                    .as_ref()
                    .map(|manager| format!(", as set by {manager}"))
                    .unwrap_or_default(),
            );
        }
        exit::print(&text)?;
        confirm("Set these options?", arguments.yes)?;
        let review = adoption.is_for_review(&config);
        configs.change(&config, adoption.patch(&config)).await?;
        let mut text = format!("virtplatformconfig.{GROUP}/{name} adopted\n");
        if review {
            text.push_str(
                "Its action is DryRun now: otherwise drift that was not adopted would be reverted without review.\n",
            );
        }
        exit::print(&text)
    })
}
