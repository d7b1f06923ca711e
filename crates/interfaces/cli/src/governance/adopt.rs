//! `medley adopt`: turns manual changes into options of the configuration.

use ::governance::user_patches;
use ::governance::values::short;
use anyhow::anyhow;
use clap::Args;

use super::configs::ConfigChangeArguments;
use crate::exit;
use crate::output::{ConfirmArguments, remark};

/// Turn manual changes of governed fields into options, so that the profile keeps them.
///
/// Changes that no option covers are listed and remain drift.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Adopt only this field and the fields below it.
    /// [default: all drifted fields]
    #[arg(long, value_name = "PATH")]
    path: Option<String>,

    #[command(flatten)]
    confirm: ConfirmArguments,

    #[command(flatten)]
    config: ConfigChangeArguments,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    arguments.config.config.run(async |client, configs| {
        let config = configs.get(&arguments.config.config.name).await?;
        let registry = edits::registry_of(&client).await?;
        let profile = registry
            .get(&config.spec.profile)
            .ok_or_else(|| anyhow!("there is no profile {}", config.spec.profile))?;
        let adoption = user_patches::adopt(&**profile, &config, arguments.path.as_deref())?;
        arguments.config.check(&client).await?;
        for why in &adoption.refused {
            remark(why);
        }
        let adopted = adoption.adopted.iter().map(|drift| {
            let manager = drift.manager.as_ref();
            let by = manager.map(|manager| format!(", as set by {manager}"));
            format!(
                "{} of item {}: {} instead of {}{}\n",
                drift.path,
                drift.item,
                short(drift.live.as_ref()),
                short(drift.applied.as_ref()),
                by.unwrap_or_default(),
            )
        });
        exit::print(&adopted.collect::<String>())?;
        arguments.confirm.ask("Set these options?")?;
        let review = adoption.is_for_review(&config);
        let changed = configs.change(&config, adoption.patch(&config)).await?;
        arguments.config.report("adopted")?;
        if review {
            exit::print(
                "Its action is now DryRun: otherwise the operator would revert drift that was not adopted, without review.\n",
            )?;
        }
        arguments.config.result(&configs, &changed).await
    })
}
