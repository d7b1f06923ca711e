//! `medley images take-over` and `hand-back`: who writes a layer of golden images.
//!
//! Both scale the Deployments of the genuine operator. Which layer writes follows from these, so an interrupted command
//! leaves no state of its own, and can be repeated.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::{anyhow, bail};
use clap::Args;
use cluster_view::layers::LayerObjects;
use golden_images::hand_over::{self, HandOver, HandOverInputs, Installed, Refusal};
use golden_images::layers::Layer;
use golden_images::policy::EffectivePolicy;
use kube::Client;
use tokio::time::Instant;

use super::change::ChangeArguments;
use super::objects::try_read;
use crate::cluster::ClusterArguments;
use crate::governance::configs::MANAGER;
use crate::layers::{installed_jobs, is_enabled};
use crate::output::{ConfirmArguments, plural, remark, table};
use crate::{exit, process};

/// Interval between two reads while waiting.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Let Medley manage layers of golden images instead of their genuine operators.
///
/// Scales the Deployment of the operator to 0, and that of an operator that would restore it, after showing what
/// changes. Then waits until Medley manages the layer. Nothing is imported again. The command refuses if the Deployment
/// would be restored, or if no controller of Medley would manage the layer. It can be repeated after an interruption.
#[derive(Debug, Args)]
pub(super) struct TakeOverArguments {
    #[command(flatten)]
    common: CommonArguments,
}

/// Hand layers of golden images back to their genuine operators.
///
/// Scales the Deployments that take-over scaled to 0 up again, after showing what changes. Medley steps back by itself.
/// Nothing is imported again. The command can be repeated after an interruption.
#[derive(Debug, Args)]
pub(super) struct HandBackArguments {
    #[command(flatten)]
    common: CommonArguments,
}

#[derive(Debug, Args)]
struct CommonArguments {
    /// Layers: images-hco, images-ssp, images-cdi.
    /// [default: those that another operator manages, or that were taken over]
    #[arg(value_name = "LAYER")]
    layers: Vec<Layer>,

    /// Namespace of the installation of Medley.
    #[arg(long, value_name = "NAME", default_value = manifests::NAMESPACE)]
    namespace: String,

    /// How long to wait for the new manager. 0 does not wait.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    timeout: u64,

    #[command(flatten)]
    confirm: ConfirmArguments,

    #[command(flatten)]
    change: ChangeArguments,

    #[command(flatten)]
    cluster: ClusterArguments,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    TakeOver,
    HandBack,
}

pub(super) fn take_over(arguments: &TakeOverArguments) -> anyhow::Result<()> {
    process::build_runtime()?.block_on(run(&arguments.common, Direction::TakeOver))
}

pub(super) fn hand_back(arguments: &HandBackArguments) -> anyhow::Result<()> {
    process::build_runtime()?.block_on(run(&arguments.common, Direction::HandBack))
}

async fn run(arguments: &CommonArguments, direction: Direction) -> anyhow::Result<()> {
    let client = arguments.cluster.client().await?;
    let objects = LayerObjects::read(&client).await?;
    let jobs = installed_jobs(&client, &arguments.namespace).await;
    let decide = |layer: Layer| {
        // Unknown counts as not enabled: without a controller, nothing would be imported any more.
        let enabled = is_enabled(&objects, jobs.as_ref(), layer) == Some(true);
        decide(&objects, layer, enabled, direction)
    };
    let mut plans = Vec::new();
    if arguments.layers.is_empty() {
        for layer in Layer::ALL.into_iter().filter(|it| it.operator().is_some()) {
            match decide(layer) {
                Ok(plan) if !plan.scale.is_empty() => plans.push(plan),
                // Nothing to do for a layer whose operator is not installed.
                Ok(_) | Err(Refusal::NoDeployment { .. } | Refusal::NotInstalled { .. }) => {}
                // A layer that is not enabled stays with its operator, unless it is named.
                Err(refusal @ Refusal::NotEnabled(_)) => remark(&refusal.to_string()),
                Err(refusal) => return Err(refusal.into()),
            }
        }
    } else {
        // All before the first change.
        for layer in &arguments.layers {
            plans.push(decide(*layer)?);
        }
    }
    let scales = || plans.iter().flat_map(|plan| &plan.scale);
    if scales().next().is_none() && plans.is_empty() {
        remark("Nothing to do: no layer of golden images changes its manager.");
        return Ok(());
    }
    if scales().next().is_some() {
        let is_changed = arguments.change.is_sent() && !arguments.change.is_tried();
        exit::print(&preview(&plans, affected(&client).await.as_ref()))?;
        if is_changed {
            let count = scales().count();
            arguments
                .confirm
                .ask(&format!("Scale {count} Deployment{}?", plural(count)))?;
        }
        for scale in scales() {
            let (of, suffix) = (&scale.deployment, arguments.change.suffix());
            if arguments.change.is_sent() {
                let sender = (MANAGER, arguments.change.is_tried());
                if !edits::scale(&client, scale, sender).await? {
                    bail!(
                        "Deployment {}/{} changed in the meantime; run the command again",
                        of.namespace,
                        of.name
                    );
                }
            }
            exit::print(&format!(
                "deployment.apps/{} of namespace {} scaled to {}{suffix}\n",
                of.name, of.namespace, scale.to
            ))?;
        }
        if !is_changed {
            return Ok(());
        }
    } else if !arguments.change.is_sent() || arguments.change.is_tried() {
        return exit::print("Nothing to scale.\n");
    }
    for plan in &plans {
        wait(&client, plan.layer, direction, arguments.timeout).await?;
    }
    Ok(())
}

fn decide(
    objects: &LayerObjects,
    layer: Layer,
    enabled: bool,
    direction: Direction,
) -> Result<HandOver, Refusal> {
    let installed = |operator| Installed {
        operator,
        deployment: objects.operators.deployment(&operator),
    };
    let running = layer
        .operator()
        .and_then(|it| objects.operators.running(&it, objects.now));
    let elsewhere = running.filter(|it| it.deployment.is_none());
    let lease = elsewhere.as_ref().and_then(|it| it.lease.as_ref());
    let setting = objects.policy.as_ref().map(|it| it.spec.mode);
    let inputs = HandOverInputs {
        layer,
        operator: layer.operator().map(installed),
        restoring: layer.restorer().map(installed),
        runs_elsewhere: lease.map(|(of, _)| of),
        enabled,
        installed: !objects.missing.contains(&layer),
        setting: setting.unwrap_or_default(),
    };
    match direction {
        Direction::TakeOver => hand_over::take_over(&inputs),
        Direction::HandBack => hand_over::hand_back(&inputs),
    }
}

/// How many objects of images there are, for the preview.
struct Affected {
    crons: usize,
    sources: usize,
    importing: usize,
}

/// The objects of images; `None` if the user may not read them.
async fn affected(client: &Client) -> Option<Affected> {
    let objects = try_read(client, None).await.ok()??;
    let images = objects.images();
    let variants = images.iter().flat_map(|it| &it.architectures);
    Some(Affected {
        crons: objects.crons.len(),
        sources: objects.sources.len(),
        importing: variants.filter(|it| it.importing.is_some()).count(),
    })
}

fn preview(plans: &[HandOver], affected: Option<&Affected>) -> String {
    let rows = plans.iter().flat_map(|plan| {
        plan.scale.iter().map(|scale| {
            [
                plan.layer.to_string(),
                scale.operator.to_owned(),
                format!("{}/{}", scale.deployment.namespace, scale.deployment.name),
                format!("{} -> {}", scale.from, scale.to),
            ]
        })
    });
    let mut text = table(&["LAYER", "OPERATOR", "DEPLOYMENT", "REPLICAS"], rows);
    text.push('\n');
    for plan in plans {
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "{} is managed by {} afterwards",
            plan.layer, plan.owner
        );
        if let Some(Affected {
            crons,
            sources,
            importing,
        }) = affected
        {
            let _ = write!(
                text,
                ": {crons} DataImportCron{}, {sources} DataSource{}, {importing} import{} under way",
                plural(*crons),
                plural(*sources),
                plural(*importing)
            );
        }
        text.push_str(".\n");
        for consequence in &plan.consequences {
            let _ = writeln!(text, "  {consequence}");
        }
    }
    text
}

/// Waits until the layer has its new manager, and Medley has reported it.
async fn wait(
    client: &Client,
    layer: Layer,
    direction: Direction,
    seconds: u64,
) -> anyhow::Result<()> {
    let until = Instant::now() + Duration::from_secs(seconds);
    loop {
        let objects = LayerObjects::read(client).await?;
        let view = objects.view(layer, true);
        let decided = match direction {
            Direction::TakeOver => view.ownership.manages(),
            Direction::HandBack => view.running.is_some(),
        };
        let reported = reported(&EffectivePolicy::new(objects.policy.clone()), layer);
        let manages = direction == Direction::TakeOver;
        if decided && reported.is_none_or(|it| it == manages) {
            let owner = view.ownership.owner.unwrap_or_default();
            let note = match reported {
                Some(_) => "",
                None => {
                    " (without a GoldenImagePolicy, Medley's controller reports it in its log only)"
                }
            };
            return exit::print(&format!("{layer} is managed by {owner}{note}\n"));
        }
        if Instant::now() >= until {
            // After hand-back, the operator runs, and Medley cannot report anything if it was uninstalled.
            if seconds == 0 || (decided && direction == Direction::HandBack) {
                remark(&format!("{layer}: {}", view.ownership.message));
                return Ok(());
            }
            let why = if decided {
                format!(
                    "condition {} of GoldenImagePolicy default does not say so yet; see the log of Medley",
                    layer.condition()
                )
            } else {
                view.ownership.message
            };
            return Err(anyhow!(
                "{layer} has no new manager after {seconds} s: {why}; run the command again to continue"
            ));
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Whether the policy reports that Medley manages the layer; `None` without a policy.
fn reported(policy: &EffectivePolicy, layer: Layer) -> Option<bool> {
    let status = policy.object.as_ref()?.status.as_ref();
    let mut conditions = status.iter().flat_map(|it| &it.conditions);
    let found = conditions.find(|it| it.type_ == layer.condition());
    // A policy without the condition is not read by the controller yet.
    Some(found.is_some_and(|it| it.status == "True"))
}
