//! `medley approve`: approves the plan under review.

#[cfg(test)]
mod tests;

use std::fmt::Write as _;

use ::governance::recorder;
use ::governance::user_patches::{self, ApprovalScope, PatchError, PlanApproval};
use anyhow::{Context as _, anyhow};
use api::advisor::{Item, VirtPlatformConfig};
use clap::Args;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::jiff::Timestamp;
use kube::{Api, Client, ResourceExt as _};

use super::configs::ConfigChangeArguments;
use super::render;
use crate::exit;
use crate::output::{ConfirmArguments, diff, section, short_digest};
use crate::read::api_error;

/// Approve the plan under review, so that the operator applies exactly this plan.
///
/// Fails if no plan is under review, or if the plan is stale. Where several approvals are required,
/// this records the approval of the current user.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Comma-separated items to apply, together with the items they depend on.
    /// [default: all items]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    items: Vec<String>,

    /// Consent to taking over fields owned by other field managers: comma-separated items, or
    /// single fields of items. Without a value, consent to all takeovers of the plan.
    #[arg(long, value_name = "ITEM[:PATH]", value_delimiter = ',')]
    #[arg(num_args = 0.., require_equals = true)]
    take_over: Option<Vec<String>>,

    /// Approve only a plan whose digest is, or begins with, this one.
    #[arg(long, value_name = "DIGEST")]
    digest: Option<String>,

    #[command(flatten)]
    confirm: ConfirmArguments,

    #[command(flatten)]
    config: ConfigChangeArguments,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    arguments.config.config.run(async |client, configs| {
        let config = configs.get(&arguments.config.config.name).await?;
        let approving = arguments.decide(&config)?;
        arguments.config.check(&client).await?;
        exit::print(&show(&approving, &config, !arguments.confirm.yes))?;
        arguments.confirm.ask("Apply it?")?;
        // Fails if the plan has changed since it was shown: the user would approve one that they
        // have not read.
        let changed = configs.change(&config, approving.patch()).await?;
        let held = held(&approving, &client, &changed).await?;
        arguments.config.report("approved")?;
        match held {
            Some(held) => exit::print(&format!("It is not applied yet: {held}\n")),
            None => arguments.config.result(&configs, &changed).await,
        }
    })
}

impl Arguments {
    /// The approval to write, if the plan can be approved.
    fn decide(&self, config: &VirtPlatformConfig) -> anyhow::Result<PlanApproval> {
        let choice = ApprovalScope {
            items: &self.items,
            take_over: self.take_over.as_deref(),
            digest: self.digest.as_deref(),
        };
        user_patches::approve(config, choice).map_err(|refused| match refused {
            PatchError::MissingConsent(_) => anyhow!(
                "{refused}\n--take-over consents to all of them, --take-over=ITEM:PATH,... to some"
            ),
            PatchError::UnknownTakeover { .. } => anyhow!("--take-over={refused}"),
            PatchError::Other(why) => anyhow!(why),
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
    let takeovers = render::takeovers(&items);
    text.push_str(&section("Taken over from other managers", &takeovers));
    let deviations = render::deviations(&items);
    text.push_str(&section("Kept otherwise by the API server", &deviations));
    text.push_str(&section("Warnings", &status.warnings));
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
        .get_opt(api::advisor::WEBHOOK)
        .await
        .map_err(api_error)
        .context("reading the webhook configuration")?;
    let recorder = recorder::verify(webhook.as_ref(), None);
    let held = approving.held(config, &recorder, Timestamp::now());
    held.map_err(|why| anyhow!(why))
}
