//! `medley rollback`: reverts applied plans by a plan that is reviewed like any other.

use ::governance::user_patches;
use clap::Args;
use cluster_view::history::records;

use super::configs::ConfigChangeArguments;
use super::source::HistoryArguments;
use crate::exit;
use crate::output::{ConfirmArguments, short_digest};

/// Revert applied plans by a plan that undoes them.
///
/// The plan sets changed fields back to their former values and deletes created objects. The
/// operator applies it only after it is reviewed and approved, like any other plan.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Revert this revision of the history and all later ones.
    /// [default: the last revision in force]
    #[arg(long, value_name = "REVISION")]
    to: Option<i64>,

    /// Cancel or end the rollback. The operator plans the desired state of the profile again, for
    /// review.
    #[arg(long, visible_alias = "resume", conflicts_with = "to")]
    clear: bool,

    #[command(flatten)]
    confirm: ConfirmArguments,

    #[command(flatten)]
    history: HistoryArguments,

    #[command(flatten)]
    config: ConfigChangeArguments,
}

/// Requests the inverse.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    arguments.config.config.run(async |client, configs| {
        let name = &arguments.config.config.name;
        let config = configs.get(name).await?;
        if arguments.clear {
            let patch = user_patches::go_forward(&config)?;
            arguments.config.check(&client).await?;
            let changed = configs.change(&config, patch).await?;
            arguments.config.report("is no longer rolled back")?;
            exit::print(&format!(
                "The operator now plans the desired state of the profile: review it with `medley diff {name}`, then `medley approve {name}`.\n"
            ))?;
            return arguments.config.result(&configs, &changed).await;
        }
        let records = records(&client, &arguments.history.history_namespace, name).await?;
        let revision = user_patches::revision(&records, arguments.to, name)?;
        let patch = user_patches::roll_back(&config, revision)?;
        arguments.config.check(&client).await?;
        let undone = records.iter().filter(|record| record.revision >= revision);
        let undone = undone.map(|record| {
            let digest = short_digest(&record.plan_digest);
            format!("  revision {} ({digest})\n", record.revision)
        });
        exit::print(&format!("To be reverted:\n{}", undone.collect::<String>()))?;
        arguments.confirm.ask("Request a plan that reverts them?")?;
        let changed = configs.change(&config, patch).await?;
        let done = format!("will be rolled back to before revision {revision}");
        arguments.config.report(&done)?;
        exit::print(&format!(
            "Nothing is reverted yet. Review the plan with `medley diff {name}`, then `medley approve {name}`.\n\
             To return to the profile afterwards: `medley rollback {name} --clear`.\n"
        ))?;
        arguments.config.result(&configs, &changed).await
    })
}
