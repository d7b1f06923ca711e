//! `medley rollback`: what was done is undone, as a plan that is reviewed like any other.

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

/// Undo what was carried out: the inverse comes as a plan for review, and nothing is changed before
/// it is approved.
///
/// What was changed gets its former value, what was created is deleted.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The configuration.
    name: String,

    /// Undo this revision of the history and all later ones.
    /// [default: the last one that is in force]
    #[arg(long, value_name = "REVISION")]
    to: Option<i64>,

    /// Give up the rollback, or end it: what the profile wants comes as a plan for review again.
    #[arg(long, visible_alias = "resume", conflicts_with = "to")]
    clear: bool,

    /// Ask nothing.
    #[arg(short, long)]
    yes: bool,

    #[command(flatten)]
    history: HistoryArguments,

    #[command(flatten)]
    cluster: ClusterArguments,
}

/// Asks for the inverse.
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
        exit::print(&format!("To be undone:\n{}", undone.concat()))?;
        confirm("Make a plan for that?", arguments.yes)?;
        configs.change(&config, patch).await?;
        exit::print(&format!(
            "virtplatformconfig.{GROUP}/{name} is to be rolled back to before revision {revision}\n\
             Nothing is undone yet. Look at the plan with `medley diff {name}`, then `medley approve {name}`.\n\
             To go forward again afterwards: `medley rollback {name} --clear`.\n"
        ))
    })
}

async fn clear(configs: &Configs, config: &VirtPlatformConfig, name: &str) -> anyhow::Result<()> {
    let patch = answer::go_forward(config)?;
    configs.change(config, patch).await?;
    exit::print(&format!(
        "virtplatformconfig.{GROUP}/{name} is not rolled back any more\n\
         What the profile wants comes as a plan for review: `medley diff {name}`, then `medley approve {name}`.\n"
    ))
}
