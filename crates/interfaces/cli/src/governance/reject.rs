//! `medley reject`: rejects the plan under review.

use ::governance::answer;
use clap::Args;

use super::configs::configs;
use crate::cluster::ClusterArguments;
use crate::{exit, process};

/// Reject the plan under review; it is not applied even if the action is set to Apply.
///
/// Another plan, made from other options or another cluster state, can be approved.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The configuration.
    name: String,

    /// The reason, recorded in the spec.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,

    #[command(flatten)]
    cluster: ClusterArguments,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    process::build_runtime()?.block_on(async {
        let configs = configs(&arguments.cluster.client().await?);
        let config = configs.get(&arguments.name).await?;
        let patch = answer::reject(&config, arguments.reason.as_deref())?;
        configs.change(&config, patch).await?;
        exit::print(&format!(
            "virtplatformconfig.{}/{} rejected\n",
            api::advisor::GROUP,
            arguments.name
        ))
    })
}
