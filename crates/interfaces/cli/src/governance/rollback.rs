//! `medley rollback`: reverts applied plans by a plan that is reviewed like any other.

use ::governance::answer;
use api::advisor::{GROUP, VirtPlatformConfig};
use clap::Args;
use controllers::governance::history::records;
use edits::Configs;

use super::configs::configs;
use super::output::{confirm, short_digest};
use super::source::HistoryArguments;
use crate::cluster::ClusterArguments;
use crate::{exit, process};

/// Revert applied plans: the inverse comes as a plan for review, and nothing is changed before it
/// is approved.
///
/// Changed fields get their former value, created objects are deleted.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The configuration.
    name: String,

    /// Revert this revision of the history and all later ones.
    /// [default: the last one that is in force]
    #[arg(long, value_name = "REVISION")]
    to: Option<i64>,

    /// Cancel or end the rollback: the desired state of the profile comes as a plan for review
    /// again.
    #[arg(long, visible_alias = "resume", conflicts_with = "to")]
    clear: bool,

    /// Do not ask for confirmation.
    #[arg(short, long)]
    yes: bool,

    #[command(flatten)]
    history: HistoryArguments,

    #[command(flatten)]
    cluster: ClusterArguments,
}

/// Requests the inverse.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    process::build_runtime()?.block_on(async {
        let client = arguments.cluster.client().await?;
        let configs = configs(&client);
        let name = &arguments.name;
        let config = configs.get(name).await?;
        if arguments.clear {
            return clear(&configs, &config, name).await;
        }
        let records = records(&client, &arguments.history.history_namespace, name).await?;
        let revision = answer::revision(&records, arguments.to, name)?;
        let patch = answer::roll_back(&config, revision)?;
        let undone: Vec<String> = records
            .iter()
            .filter(|record| record.revision >= revision)
            .map(|record| {
                format!(
                    "  revision {} ({})\n",
                    record.revision,
                    short_digest(&record.plan_digest)
                )
            })
            .collect();
        exit::print(&format!("To be reverted:\n{}", undone.concat()))?;
        confirm("Request a plan for that?", arguments.yes)?;
        configs.change(&config, patch).await?;
        exit::print(&format!(
            "virtplatformconfig.{GROUP}/{name} will be rolled back to before revision {revision}\n\
             Nothing is reverted yet. Review the plan with `medley diff {name}`, then `medley approve {name}`.\n\
             To return to the profile afterwards: `medley rollback {name} --clear`.\n"
        ))
    })
}

async fn clear(configs: &Configs, config: &VirtPlatformConfig, name: &str) -> anyhow::Result<()> {
    let patch = answer::go_forward(config)?;
    configs.change(config, patch).await?;
    exit::print(&format!(
        "virtplatformconfig.{GROUP}/{name} is no longer rolled back\n\
         The desired state of the profile comes as a plan for review: `medley diff {name}`, then `medley approve {name}`.\n"
    ))
}
