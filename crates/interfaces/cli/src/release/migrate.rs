//! `medley release migrate`: a cluster is asked to become multi-arch.

use ::release_migration::migrate::{ALREADY_REQUESTED, Migration, REQUESTED, migrate};
use api::openshift::{CLUSTER_VERSION, ClusterVersion};
use clap::Args;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::cluster::version;
use crate::cluster::ClusterArguments;
use crate::governance::configs::{MANAGER, said};
use crate::governance::output::Data;
use crate::images::change::ChangeArguments;
use crate::{exit, process};

/// Ask a cluster to become multi-arch: to run the release of its version for several architectures.
///
/// `medley release preflight` proves before that all images of that release are there; `medley release
/// status` shows what comes of it.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  medley release migrate --to-multi-arch
  medley release migrate --to-multi-arch --dry-run=server")]
pub(super) struct Arguments {
    /// Ask for the current version for several architectures.
    #[arg(long, required = true)]
    to_multi_arch: bool,

    /// Have the cluster skip its own checks, such as that of the release's signature.
    #[arg(long)]
    force: bool,

    /// Ask although an update is under way, or something is wrong.
    #[arg(long)]
    allow_upgrade_with_warnings: bool,

    /// Form of the output; a line of text if absent.
    #[arg(short, long, value_enum)]
    output: Option<Data>,

    #[command(flatten)]
    change: ChangeArguments,

    #[command(flatten)]
    cluster: ClusterArguments,
}

/// Asks.
pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let migration = process::build_runtime()?.block_on(ask(arguments))?;
    let (requested, text) = match &migration {
        Migration::Ask(_) => (true, REQUESTED.to_owned()),
        Migration::AlreadyRequested => (false, ALREADY_REQUESTED.to_owned()),
        Migration::AlreadyMulti { version } => (
            false,
            format!(
                "info: The cluster is multi-arch already: its release is {version} for several architectures"
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
            said(error).context(format!("changing ClusterVersion {CLUSTER_VERSION}"))
        })?;
    }
    Ok(migration)
}
