//! `medley release migrate`: requests the migration of a cluster to multi-arch.

use ::release_migration::migrate::{Migration, REQUESTED, migrate};
use anyhow::bail;
use api::openshift::{CLUSTER_VERSION, ClusterVersion};
use clap::Args;
use kube::Api;
use runtime::{Key, Writer};
use serde_json::json;

use super::cluster::version;
use crate::cluster::ClusterArguments;
use crate::governance::configs::MANAGER;
use crate::images::change::ChangeArguments;
use crate::output::{OutputArguments, remark};
use crate::process;

/// Request the migration of a cluster to the multi-arch release of its current version.
///
/// Run `medley release preflight` first to verify that all images of that release exist, and watch
/// the progress with `medley release status`.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(super) struct Arguments {
    /// Migrate to the multi-arch release.
    #[arg(long, required = true)]
    to_multi_arch: bool,

    /// Not accepted: `oc adm upgrade` has these flags for other updates, and the same error.
    #[arg(long, hide = true, value_name = "VERSION")]
    to: Option<String>,

    /// Not accepted, as `--to`.
    #[arg(long, hide = true, value_name = "IMAGE")]
    to_image: Option<String>,

    /// Not accepted, as `--to`.
    #[arg(long, hide = true)]
    to_latest: bool,

    /// Make the cluster skip its own checks, such as the verification of the release signature.
    #[arg(long)]
    force: bool,

    /// Request the migration even during an update, or while conditions report problems.
    #[arg(long)]
    allow_upgrade_with_warnings: bool,

    #[command(flatten)]
    output: OutputArguments,

    #[command(flatten)]
    change: ChangeArguments,

    #[command(flatten)]
    cluster: ClusterArguments,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    if arguments.to.is_some() || arguments.to_image.is_some() || arguments.to_latest {
        bail!("--to-multi-arch may not be used with --to, --to-image, or --to-latest");
    }
    let migration = process::build_runtime()?.block_on(ask(arguments))?;
    let (patch, message) = match migration {
        Migration::Ask(patch) => (Some(patch), REQUESTED.to_owned()),
        Migration::AlreadyMulti { version } => (
            None,
            format!(
                "info: The cluster is already multi-arch: its release is {version} for several architectures"
            ),
        ),
    };
    let value = json!({
        "requested": patch.is_some(),
        "dryRun": arguments.change.is_tried() || !arguments.change.is_sent(),
        "message": message,
        "patch": patch,
    });
    let suffix = patch.map(|_| arguments.change.suffix()).unwrap_or_default();
    arguments
        .output
        .print(&value, || format!("{message}{suffix}\n"))
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
        let writer = Writer::new(api, MANAGER).dry_run(arguments.change.is_tried());
        writer.merge(&Key::new("", CLUSTER_VERSION), patch).await?;
        // Not checked whether it runs: with a hosted control plane it runs in another cluster.
        remark("Acted on by the cluster-version operator.");
    }
    Ok(migration)
}
