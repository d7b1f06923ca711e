//! `medley approve`: the plan under review is carried out.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt::Write as _;

use ::governance::approval::{self, Approvals};
use ::governance::{conditions, plan};
use anyhow::{Context as _, anyhow, bail, ensure};
use api::advisor::{
    Action, ConsentedTakeover, Impact, Item, Phase, VirtPlatformConfig, VirtPlatformConfigStatus,
    names,
};
use clap::Args;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};

use super::configs::{Configs, said};
use super::output::{confirm, diff, short_digest};
use super::render;
use crate::cluster::ClusterArguments;
use crate::{exit, runtime};

/// So many digits of a digest are needed to name a plan.
const DIGITS: usize = 12;

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

/// What is approved.
#[derive(Debug, PartialEq)]
struct Approving {
    digest: String,
    /// As the specification has them; empty for all.
    items: Vec<String>,
    /// What is carried out.
    granted: BTreeSet<String>,
    takeovers: Vec<ConsentedTakeover>,
    impact: Impact,
    /// How many have to approve.
    needed: u32,
}

/// Approves.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    runtime::build()?.block_on(async {
        let client = arguments.cluster.client().await?;
        let configs = Configs::new(&client);
        let config = configs.get(&arguments.name).await?;
        let approving = arguments.decide(&config)?;
        exit::print(&approving.show(&config, !arguments.yes))?;
        confirm("Carry it out?", arguments.yes)?;
        let changed = configs.change(&config, approving.patch()).await?;
        let mut text = format!(
            "virtplatformconfig.{}/{} approved\n",
            api::advisor::GROUP,
            arguments.name
        );
        if let Some(held) = approving.held(&client, &changed).await? {
            let _ = writeln!(text, "It is not carried out yet: {held}");
        }
        exit::print(&text)
    })
}

/// The plan that waits for an answer, if it can be answered: not one that is outdated.
pub(super) fn under_review(
    config: &VirtPlatformConfig,
) -> anyhow::Result<(&VirtPlatformConfigStatus, &str)> {
    let name = config.name_any();
    let status = config.status.as_ref();
    let planned = status.and_then(|status| Some((status, status.plan_digest.as_deref()?)));
    let phase = status.and_then(|status| status.phase);
    let Some((status, digest)) = planned else {
        bail!(
            "{name} has no plan yet{}; `medley explain {name}` says why",
            phase.map_or_else(String::new, |phase| format!(": it is {phase}"))
        );
    };
    ensure!(
        status.observed_generation == config.metadata.generation,
        "the specification of {name} was changed, and the plan is not up to date yet; try again in a moment"
    );
    ensure!(
        phase == Some(Phase::ReviewRequired),
        "{name} has no plan under review: it is {}; `medley explain {name}` says what can be done",
        phase.map_or("not looked at yet", Phase::as_str)
    );
    if let Some(stale) = conditions::get(&status.conditions, conditions::PLAN_STALE)
        && stale.status == "True"
    {
        bail!(
            "the plan of {name} is stale: {}; `medley plan {name} --renew` makes a new one",
            stale.message
        );
    }
    Ok((status, digest))
}

impl Arguments {
    /// What is approved, if it can be.
    fn decide(&self, config: &VirtPlatformConfig) -> anyhow::Result<Approving> {
        let (status, digest) = under_review(config)?;
        if let Some(asked) = &self.digest {
            ensure!(
                names_digest(asked, digest),
                "the plan under review is {digest}, not {asked}; {DIGITS} digits or more name a plan"
            );
        }
        let items = &status.items;
        // Whoever joins an approval that waits for more approvers approves the same.
        let joined = config.spec.approval.as_ref().filter(|there| {
            config.spec.action == Action::Apply && there.plan_digest.as_deref() == Some(digest)
        });
        let chosen = match joined {
            Some(joined) if self.items.is_empty() => joined.items.clone(),
            _ => self.items.clone(),
        };
        let granted = approval::closure(items, &chosen).map_err(|why| anyhow!(why))?;
        let concerned: Vec<Item> = items
            .iter()
            .filter(|item| granted.contains(&item.name))
            .cloned()
            .collect();
        let takeovers = match (&self.take_over, joined) {
            (None, Some(joined)) => joined.takeovers.clone(),
            (None, None) => Vec::new(),
            (Some(named), _) => consents(&concerned, named)?,
        };
        let missing = approval::consented(&concerned, &takeovers);
        if !missing.is_empty() && !config.spec.bypass_optimistic_lock {
            let lines: Vec<String> = missing
                .iter()
                .map(|one| {
                    format!(
                        "\n  {}:{} from {}",
                        one.item, one.takeover.path, one.takeover.manager
                    )
                })
                .collect();
            bail!(
                "the plan takes fields from other managers, and nobody agreed to that:{}\n\
                 --take-over agrees to all of them, --take-over=ITEM:PATH,... to some",
                lines.concat()
            );
        }
        let impact = plan::worst(items).unwrap_or(Impact::Low);
        let policy = config.spec.approval_policy.clone().unwrap_or_default();
        Ok(Approving {
            digest: digest.to_owned(),
            items: chosen,
            granted,
            takeovers,
            impact,
            needed: approval::needed(&policy.required_approvals, impact),
        })
    }
}

/// Whether somebody means this digest.
fn names_digest(asked: &str, digest: &str) -> bool {
    let hex = |text: &str| text.strip_prefix("sha256:").unwrap_or(text).to_owned();
    let (asked, digest) = (hex(asked), hex(digest));
    asked.len() >= DIGITS && digest.starts_with(&asked)
}

/// The consents that are meant; each has to be about something that the plan takes.
fn consents(items: &[Item], named: &[String]) -> anyhow::Result<Vec<ConsentedTakeover>> {
    let all = super::planning::takeovers(items);
    if named.is_empty() {
        return Ok(all);
    }
    let mut consents = Vec::new();
    for name in named {
        let (item, path) = name
            .split_once(':')
            .map_or((name.as_str(), None), |(item, path)| (item, Some(path)));
        let consent = ConsentedTakeover {
            item: item.to_owned(),
            path: path.map(str::to_owned),
        };
        let still_missing = approval::consented(items, std::slice::from_ref(&consent));
        if still_missing.len() == all.len() {
            let known: Vec<String> = all
                .iter()
                .map(|one| format!("{}:{}", one.item, one.path.as_deref().unwrap_or_default()))
                .collect();
            bail!(
                "--take-over={name} is about nothing that the plan takes from others; {}",
                super::configs::there_are(&known)
            );
        }
        consents.push(consent);
    }
    Ok(consents)
}

impl Approving {
    /// What is approved, for whoever is asked.
    fn show(&self, config: &VirtPlatformConfig, with_diffs: bool) -> String {
        let status = config.status.clone().unwrap_or_default();
        let items: Vec<Item> = status
            .items
            .into_iter()
            .filter(|item| self.granted.contains(&item.name))
            .collect();
        let mut text = format!(
            "The plan {} of {}, impact {}:\n\n{}",
            short_digest(&self.digest),
            config.name_any(),
            self.impact,
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

    /// Everything in one change, so that nothing is ever half approved.
    fn patch(&self) -> Value {
        let list = |list: Value| {
            if list.as_array().is_some_and(Vec::is_empty) {
                Value::Null
            } else {
                list
            }
        };
        let mut patch = json!({ "spec": {
            "action": Action::Apply,
            "approval": {
                "planDigest": self.digest,
                "items": list(json!(self.items)),
                "takeovers": list(json!(self.takeovers)),
                "rejected": null,
            },
        } });
        if self.needed > 0 {
            // Admission turns the request into an approval in the name of the user who asks.
            patch["metadata"]["annotations"][names::APPROVE] = json!(self.digest);
        }
        patch
    }

    /// Why the plan is not carried out although it is approved, if more have to approve.
    async fn held(
        &self,
        client: &Client,
        config: &VirtPlatformConfig,
    ) -> anyhow::Result<Option<String>> {
        if self.needed == 0 {
            return Ok(None);
        }
        let webhooks: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
        let webhook = webhooks
            .get_opt(operator::governance::WEBHOOK)
            .await
            .map_err(said)
            .context("looking whether approvals are recorded")?;
        let annotation = |name| config.annotations().get(name).map(String::as_str);
        let approvals =
            Approvals::parse(annotation(names::APPROVALS)).map_err(|why| anyhow!(why))?;
        let items = config.status.clone().unwrap_or_default().items;
        let answer = approval::gate(
            &config.spec,
            &items,
            &self.digest,
            self.impact,
            &approvals,
            annotation(names::AUTHOR),
            webhook.is_some(),
        );
        Ok(answer.err().map(|withheld| withheld.to_string()))
    }
}
