//! `medley reject`: rejects the plan under review.

use ::governance::user_patches;
use clap::Args;

use super::configs::ConfigChangeArguments;

/// Reject the plan under review, so that it cannot be applied.
///
/// The plan stays rejected even if spec.action is set to Apply. A different plan, computed from
/// other options or another state of the cluster, can still be approved.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Why the plan is rejected; recorded in the spec.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,

    #[command(flatten)]
    config: ConfigChangeArguments,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    arguments.config.config.run(async |client, configs| {
        let config = configs.get(&arguments.config.config.name).await?;
        let patch = user_patches::reject(&config, arguments.reason.as_deref())?;
        arguments.config.check(&client).await?;
        let changed = configs.change(&config, patch).await?;
        arguments.config.report("rejected")?;
        arguments.config.result(&configs, &changed).await
    })
}
