//! `medley release migrate`: requests the migration of a cluster to multi-arch.

use ::release_migration::migrate::{ALREADY_REQUESTED, Migration, REQUESTED, migrate};
use api::openshift::{CLUSTER_VERSION, ClusterVersion};
use clap::Args;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::cluster::version;
use crate::cluster::ClusterArguments;
use crate::governance::configs::{MANAGER, api_error};
use crate::governance::output::Data;
use crate::images::change::ChangeArguments;
use crate::{exit, process};

/// Request the migration of a cluster to multi-arch: to the multi-arch release of its current
/// version.
///
/// Run `medley release preflight` first to prove that all images of that release exist; `medley
/// release status` shows the progress.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  medley release migrate --to-multi-arch
  medley release migrate --to-multi-arch --dry-run=server")]
pub(super) struct Arguments {
    /// Request the current version for several architectures.
    #[arg(long, required = true)]
    to_multi_arch: bool,

    /// Make the cluster skip its own checks, such as that of the release signature.
    #[arg(long)]
    force: bool,

    /// Request it even during an update, or while conditions report problems.
    #[arg(long)]
    allow_upgrade_with_warnings: bool,

    /// Output format; a line of text by default.
    #[arg(short, long, value_enum)]
    output: Option<Data>,

    #[command(flatten)]
    change: ChangeArguments,

    #[command(flatten)]
    cluster: ClusterArguments,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let migration = process::build_runtime()?.block_on(ask(arguments))?;
    let (requested, text) = match &migration {
        Migration::Ask(_) => (true, REQUESTED.to_owned()),
        Migration::AlreadyRequested => (false, ALREADY_REQUESTED.to_owned()),
        Migration::AlreadyMulti { version } => (
            false,
            format!(
                "info: The cluster is already multi-arch: its release is {version} for several architectures"
            ),
        ),
    };
    let text = match arguments.output {
        Some(form) => form.write(&json!({
            "requested": requested,
            "dryRun": arguments.change.is_tried() || !arguments.change.is_sent(),
            "message": text,
            "patch": match migration {
                Migration::Ask(patch) => Some(patch),
                _ => None,
            },
        }))?,
        None if requested => format!("{text}{}\n", arguments.change.suffix()),
        None => format!("{text}\n"),
    };
    exit::print(&text)
}

async fn ask(arguments: &Arguments) -> anyhow::Result<Migration> {
    let client = arguments.cluster.client().await?;
    let current = version(&client).await?;
    let migration = migrate(
        &current,
        arguments.force,
        arguments.allow_upgrade_with_warnings,
    )?;
    if let Migration::Ask(patch) = &migration
        && arguments.change.is_sent()
    {
        let api: Api<ClusterVersion> = Api::all(client);
        let params = PatchParams {
            field_manager: Some(MANAGER.to_owned()),
            dry_run: arguments.change.is_tried(),
            ..PatchParams::default()
        };
        let sent = api
            .patch(CLUSTER_VERSION, &params, &Patch::Merge(patch))
            .await;
        sent.map_err(|error| {
            api_error(error).context(format!("changing ClusterVersion {CLUSTER_VERSION}"))
        })?;
    }
    Ok(migration)
}
