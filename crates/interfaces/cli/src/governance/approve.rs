//! `medley approve`: approves the plan under review.

#[cfg(test)]
mod tests;

use std::fmt::Write as _;

use ::governance::answer::{self, Choice, PlanApproval, Refused};
use ::governance::recorder;
use anyhow::{Context as _, anyhow};
use api::advisor::{Item, VirtPlatformConfig};
use clap::Args;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::jiff::Timestamp;
use kube::{Api, Client, ResourceExt as _};

use super::configs::{api_error, configs};
use super::output::{confirm, diff, short_digest};
use super::render;
use crate::cluster::ClusterArguments;
use crate::{exit, process};

/// Approve the plan under review: exactly this plan, and no other, is applied.
///
/// Fails if there is no plan to review, or if it is stale. If several approvals are required, this
/// adds the approval of the current user.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The configuration.
    name: String,

    /// Apply only these items, separated by commas, and their dependencies.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    items: Vec<String>,

    /// Consent to taking over fields owned by other field managers: of these items, or only these
    /// fields, separated by commas. Without a value: all takeovers of the plan.
    #[arg(
        long,
        value_name = "ITEM[:PATH]",
        value_delimiter = ',',
        num_args = 0..,
        require_equals = true
    )]
    take_over: Option<Vec<String>>,

    /// Approve only if the digest of the plan is this one, or begins with it.
    #[arg(long, value_name = "DIGEST")]
    digest: Option<String>,

    /// Do not ask for confirmation.
    #[arg(short, long)]
    yes: bool,

    #[command(flatten)]
    cluster: ClusterArguments,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    process::build_runtime()?.block_on(async {
        let client = arguments.cluster.client().await?;
        let configs = configs(&client);
        let config = configs.get(&arguments.name).await?;
        let approving = arguments.decide(&config)?;
        exit::print(&show(&approving, &config, !arguments.yes))?;
        confirm("Apply it?", arguments.yes)?;
        let changed = configs.change(&config, approving.patch()).await?;
        let mut text = format!(
            "virtplatformconfig.{}/{} approved\n",
            api::advisor::GROUP,
            arguments.name
        );
        if let Some(held) = held(&approving, &client, &changed).await? {
            let _ = writeln!(text, "It is not applied yet: {held}");
        }
        exit::print(&text)
    })
}

impl Arguments {
    /// The approval to write, if the plan can be approved.
    fn decide(&self, config: &VirtPlatformConfig) -> anyhow::Result<PlanApproval> {
        let choice = Choice {
            items: &self.items,
            take_over: self.take_over.as_deref(),
            digest: self.digest.as_deref(),
        };
        answer::approve(config, choice).map_err(|refused| match refused {
            Refused::MissingConsent(_) => anyhow!(
                "{refused}\n--take-over consents to all of them, --take-over=ITEM:PATH,... to some"
            ),
            Refused::UnknownTakeover { .. } => anyhow!("--take-over={refused}"),
            Refused::Told(why) => anyhow!(why),
        })
    }
}

/// The summary shown before confirmation.
fn show(approving: &PlanApproval, config: &VirtPlatformConfig, with_diffs: bool) -> String {
    let status = config.status.clone().unwrap_or_default();
    let items: Vec<Item> = status
        .items
        .into_iter()
        .filter(|item| approving.granted.contains(&item.name))
        .collect();
    let mut text = format!(
        "The plan {} of {}, impact {}:\n\n{}",
        short_digest(&approving.digest),
        config.name_any(),
        approving.impact,
        render::items(&items, false)
    );
    text.push_str(&render::section(
        "Taken over from other managers",
        &render::takeovers(&items),
    ));
    text.push_str(&render::section("Warnings", &status.warnings));
    text.push('\n');
    if with_diffs {
        for shown in items.iter().filter_map(|item| item.diff.as_deref()) {
            let _ = writeln!(text, "{}", diff(shown));
        }
    }
    text
}

/// Why an approved plan is not applied yet, if it needs more approvals.
async fn held(
    approving: &PlanApproval,
    client: &Client,
    config: &VirtPlatformConfig,
) -> anyhow::Result<Option<String>> {
    if approving.requirements.is_empty() {
        return Ok(None);
    }
    let webhooks: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    let webhook = webhooks
        .get_opt(controllers::governance::WEBHOOK)
        .await
        .map_err(api_error)
        .context("reading the webhook configuration")?;
    let recorder = recorder::verify(webhook.as_ref(), None);
    let held = approving.held(config, &recorder, Timestamp::now());
    held.map_err(|why| anyhow!(why))
}
