//! `medley rollback`: what was done is undone, as a plan that is reviewed like any other.

#[cfg(test)]
mod tests;

use ::governance::record::Record;
use anyhow::{bail, ensure};
use api::advisor::{Action, GROUP, VirtPlatformConfig};
use clap::Args;
use operator::governance::history::records;
use serde_json::json;

use super::configs::{Configs, there_are};
use super::output::{confirm, short_digest};
use super::source::HistoryArguments;
use crate::cluster::ClusterArguments;
use crate::{exit, runtime};

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
    runtime::build()?.block_on(async {
        let client = arguments.cluster.client().await?;
        let configs = Configs::new(&client);
        let name = &arguments.name;
        let config = configs.get(name).await?;
        if arguments.clear {
            return clear(&configs, &config, name).await;
        }
        let records = records(&client, &arguments.history.history_namespace, name).await?;
        let revision = choose(&records, arguments.to, name)?;
        let status = config.status.clone().unwrap_or_default();
        ensure!(
            config.spec.rollback_to != Some(revision) || status.rolled_back_to != Some(revision),
            "{name} was rolled back to before revision {revision} already; `medley rollback {name} --clear` ends that"
        );
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
        let patch = json!({ "spec": {
            "rollbackTo": revision,
            "action": Action::DryRun,
            // What was agreed to before was about something else.
            "approval": null,
        } });
        configs.change(&config, patch).await?;
        exit::print(&format!(
            "virtplatformconfig.{GROUP}/{name} is to be rolled back to before revision {revision}\n\
             Nothing is undone yet. Look at the plan with `medley diff {name}`, then `medley approve {name}`.\n\
             To go forward again afterwards: `medley rollback {name} --clear`.\n"
        ))
    })
}

async fn clear(configs: &Configs, config: &VirtPlatformConfig, name: &str) -> anyhow::Result<()> {
    ensure!(
        config.spec.rollback_to.is_some(),
        "{name} is not being rolled back: spec.rollbackTo is not set"
    );
    // With action Apply, what was undone would be done again unseen.
    let patch = json!({ "spec": {
        "rollbackTo": null,
        "action": Action::DryRun,
        "approval": null,
    } });
    configs.change(config, patch).await?;
    exit::print(&format!(
        "virtplatformconfig.{GROUP}/{name} is not rolled back any more\n\
         What the profile wants comes as a plan for review: `medley diff {name}`, then `medley approve {name}`.\n"
    ))
}

/// The revision to undo, with all later ones.
fn choose(records: &[Record], asked: Option<i64>, name: &str) -> anyhow::Result<i64> {
    let Some(asked) = asked else {
        return match in_force(records).last() {
            Some(last) => Ok(*last),
            None => bail!("{name} has nothing to undo: nothing in its history is in force"),
        };
    };
    if records.iter().any(|record| record.revision == asked) {
        return Ok(asked);
    }
    let known: Vec<String> = records
        .iter()
        .map(|record| record.revision.to_string())
        .collect();
    bail!(
        "the history of {name} has no revision {asked}; {}",
        there_are(&known)
    )
}

/// The revisions that are neither rollbacks nor undone by one, oldest first.
fn in_force(records: &[Record]) -> Vec<i64> {
    let mut revisions: Vec<i64> = Vec::new();
    for record in records {
        match record.rollback_to {
            Some(to) => revisions.retain(|revision| *revision < to),
            None => revisions.push(record.revision),
        }
    }
    revisions
}
