//! `medley adopt`: what somebody has set by hand becomes what is wanted.

use std::fmt::Write as _;

use ::governance::Profile;
use ::governance::values::short;
use anyhow::{anyhow, bail, ensure};
use api::advisor::{Action, Drift, DriftClass, GROUP, ProfileOptions, VirtPlatformConfig};
use clap::Args;
use kube::ResourceExt as _;
use machinery::patch::merge_difference;
use serde_json::{Value, json};

use super::configs::{Configs, registry, there_are};
use super::output::{confirm, remark};
use crate::cluster::ClusterArguments;
use crate::{exit, runtime};

/// Turn what somebody has changed by hand into options, so that it is what the profile wants.
///
/// What no option is for is said, and stays drift.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The configuration.
    name: String,

    /// Adopt only this field, or what is in it.
    /// [default: all that drifted]
    #[arg(long, value_name = "PATH")]
    path: Option<String>,

    /// Ask nothing.
    #[arg(short, long)]
    yes: bool,

    #[command(flatten)]
    cluster: ClusterArguments,
}

/// What is adopted, and what is not.
#[derive(Debug)]
struct Adoption {
    options: ProfileOptions,
    adopted: Vec<Drift>,
    refused: Vec<String>,
    /// Whether something is left that differs.
    leaves_drift: bool,
}

/// Adopts.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    runtime::build()?.block_on(async {
        let configs = Configs::new(&arguments.cluster.client().await?);
        let name = &arguments.name;
        let config = configs.get(name).await?;
        let registry = registry()?;
        let profile = registry
            .get(&config.spec.profile)
            .ok_or_else(|| anyhow!("there is no profile {}", config.spec.profile))?;
        let adoption = adopt(&**profile, &config, arguments.path.as_deref())?;
        for why in &adoption.refused {
            remark(why);
        }
        let mut text = String::new();
        for drift in &adoption.adopted {
            let _ = writeln!(
                text,
                "{} of item {}: {} instead of {}{}",
                drift.path,
                drift.item,
                short(drift.live.as_ref()),
                short(drift.applied.as_ref()),
                drift
                    .manager
                    .as_ref()
                    .map(|manager| format!(", as set by {manager}"))
                    .unwrap_or_default(),
            );
        }
        exit::print(&text)?;
        confirm("Make that the options?", arguments.yes)?;
        let review = adoption.leaves_drift && config.spec.action == Action::Apply;
        configs.change(&config, adoption.patch(&config, review)).await?;
        let mut text = format!("virtplatformconfig.{GROUP}/{name} adopted\n");
        if review {
            text.push_str(
                "Its action is DryRun now: what was not adopted would be put back otherwise, and that is for review.\n",
            );
        }
        exit::print(&text)
    })
}

/// Asks the profile for options that want what there is.
fn adopt(
    profile: &dyn Profile,
    config: &VirtPlatformConfig,
    path: Option<&str>,
) -> anyhow::Result<Adoption> {
    let name = config.name_any();
    let status = config.status.clone().unwrap_or_default();
    ensure!(
        status.observed_generation == config.metadata.generation,
        "the specification of {name} was changed, and what drifted is not known yet; try again in a moment"
    );
    let edits: Vec<&Drift> = status
        .drift
        .iter()
        .filter(|drift| drift.class == DriftClass::ExternalEdit)
        .collect();
    ensure!(
        !edits.is_empty(),
        "{name} has nothing to adopt: nobody else has changed what was applied"
    );
    let chosen: Vec<&Drift> = edits
        .iter()
        .copied()
        .filter(|drift| path.is_none_or(|path| within(&drift.path, path)))
        .collect();
    if chosen.is_empty() {
        let known: Vec<&str> = edits.iter().map(|drift| drift.path.as_str()).collect();
        bail!(
            "nothing drifted at {}; {}",
            path.unwrap_or_default(),
            there_are(&known)
        );
    }
    let mut adoption = Adoption {
        options: config.spec.options.clone().unwrap_or_default(),
        adopted: Vec::new(),
        refused: Vec::new(),
        leaves_drift: false,
    };
    for drift in chosen {
        match profile.adopt(&adoption.options, drift) {
            Ok(options) => {
                adoption.options = options;
                adoption.adopted.push(drift.clone());
            }
            Err(why) => adoption.refused.push(why),
        }
    }
    ensure!(
        !adoption.adopted.is_empty(),
        "nothing can be adopted: {}",
        adoption.refused.join("; ")
    );
    adoption.leaves_drift = adoption.adopted.len() < status.drift.len();
    Ok(adoption)
}

/// Whether a field is another one, or in it.
fn within(field: &str, path: &str) -> bool {
    field
        .strip_prefix(path)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

impl Adoption {
    fn patch(&self, config: &VirtPlatformConfig, review: bool) -> Value {
        let before = config
            .spec
            .options
            .as_ref()
            .map_or_else(|| json!({}), |options| json!(options));
        let mut patch =
            json!({ "spec": { "options": merge_difference(&before, &json!(self.options)) } });
        if review {
            patch["spec"]["action"] = json!(Action::DryRun);
        }
        patch
    }
}
