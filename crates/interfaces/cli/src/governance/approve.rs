//! `medley approve`: the plan under review is carried out.

#[cfg(test)]
mod tests;

use std::fmt::Write as _;

use ::governance::answer::{self, Approving, Choice, Refused};
use ::governance::recorder;
use anyhow::{Context as _, anyhow};
use api::advisor::{Item, VirtPlatformConfig};
use clap::Args;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::jiff::Timestamp;
use kube::{Api, Client, ResourceExt as _};

use super::configs::{configs, said};
use super::output::{confirm, diff, short_digest};
use super::render;
use crate::cluster::ClusterArguments;
use crate::{exit, process};

/// Approve the plan under review: exactly this plan, and no other, is carried out.
///
/// Refuses if there is no plan to review, or if it is not up to date. If several have to approve,
/// this is the approval of whoever calls it.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The configuration.
    name: String,

    /// Carry out only these items, separated by commas, and those they depend on.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    items: Vec<String>,

    /// Agree that fields are taken from the managers that own them: of these items, or only these
    /// fields, separated by commas. Without a value: all that the plan takes.
    #[arg(
        long,
        value_name = "ITEM[:PATH]",
        value_delimiter = ',',
        num_args = 0..,
        require_equals = true
    )]
    take_over: Option<Vec<String>>,

    /// Approve only if the plan has this digest, or one that begins so.
    #[arg(long, value_name = "DIGEST")]
    digest: Option<String>,

    /// Ask nothing.
    #[arg(short, long)]
    yes: bool,

    #[command(flatten)]
    cluster: ClusterArguments,
}

/// Approves.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    process::build_runtime()?.block_on(async {
        let client = arguments.cluster.client().await?;
        let configs = configs(&client);
        let config = configs.get(&arguments.name).await?;
        let approving = arguments.decide(&config)?;
        exit::print(&show(&approving, &config, !arguments.yes))?;
        confirm("Carry it out?", arguments.yes)?;
        let changed = configs.change(&config, approving.patch()).await?;
        let mut text = format!(
            "virtplatformconfig.{}/{} approved\n",
            api::advisor::GROUP,
            arguments.name
        );
        if let Some(held) = held(&approving, &client, &changed).await? {
            let _ = writeln!(text, "It is not carried out yet: {held}");
        }
        exit::print(&text)
    })
}

impl Arguments {
    /// What is approved, if it can be.
    fn decide(&self, config: &VirtPlatformConfig) -> anyhow::Result<Approving> {
        let choice = Choice {
            items: &self.items,
            take_over: self.take_over.as_deref(),
            digest: self.digest.as_deref(),
        };
        answer::approve(config, choice).map_err(|refused| match refused {
            Refused::TakesOver(_) => anyhow!(
                "{refused}\n--take-over agrees to all of them, --take-over=ITEM:PATH,... to some"
            ),
            Refused::TakesNothing { .. } => anyhow!("--take-over={refused}"),
            Refused::Told(why) => anyhow!(why),
        })
    }
}

/// What is approved, for whoever is asked.
fn show(approving: &Approving, config: &VirtPlatformConfig, with_diffs: bool) -> String {
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
        "Taken from other managers",
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

/// Why the plan is not applied although it is approved, if more have to approve.
async fn held(
    approving: &Approving,
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
        .map_err(said)
        .context("reading the registration of the admission webhook")?;
    let recorder = recorder::verify(webhook.as_ref(), None);
    let held = approving.held(config, &recorder, Timestamp::now());
    held.map_err(|why| anyhow!(why))
}
