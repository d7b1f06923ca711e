//! `medley reject`: the plan under review is not carried out.

use api::advisor::{Action, Rejection};
use clap::Args;
use serde_json::json;

use super::approve::under_review;
use super::configs::Configs;
use crate::cluster::ClusterArguments;
use crate::{exit, runtime};

/// Reject the plan under review: it is not carried out, whoever sets the action to Apply.
///
/// Another plan, made from other options or another cluster, can be approved.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The configuration.
    name: String,

    /// Why, for those who read the specification.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,

    #[command(flatten)]
    cluster: ClusterArguments,
}

/// Rejects.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    runtime::build()?.block_on(async {
        let configs = Configs::new(&arguments.cluster.client().await?);
        let config = configs.get(&arguments.name).await?;
        let (_, digest) = under_review(&config)?;
        let rejected = Rejection {
            plan_digest: digest.to_owned(),
            reason: arguments.reason.clone(),
        };
        let mut rejected = json!(rejected);
        // A reason of before is not the reason of this one.
        rejected["reason"] = json!(arguments.reason);
        let patch = json!({ "spec": {
            "action": Action::DryRun,
            "approval": { "planDigest": null, "items": null, "takeovers": null, "rejected": rejected },
        } });
        configs.change(&config, patch).await?;
        exit::print(&format!(
            "virtplatformconfig.{}/{} rejected\n",
            api::advisor::GROUP,
            arguments.name
        ))
    })
}
