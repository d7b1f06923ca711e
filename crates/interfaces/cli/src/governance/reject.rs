//! `medley reject`: rejects the plan under review.

use ::governance::user_patches;
use clap::Args;

use super::configs::ConfigArguments;

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
    config: ConfigArguments,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    arguments.config.run(async |_, configs| {
        let config = configs.get(&arguments.config.name).await?;
        let patch = user_patches::reject(&config, arguments.reason.as_deref())?;
        configs.change(&config, patch).await?;
        arguments.config.report("rejected")
    })
}
