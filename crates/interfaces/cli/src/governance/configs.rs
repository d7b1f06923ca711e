//! Access to configurations and profiles.

use api::advisor::GROUP;
use clap::Args;
use edits::Configs;
use kube::Client;

use crate::cluster::ClusterArguments;
use crate::{exit, process};

/// Field manager of spec changes.
pub(crate) const MANAGER: &str = "medley-cli";

/// The configurations of a cluster.
pub(crate) fn configs(client: &Client) -> Configs {
    Configs::new(client, MANAGER)
}

/// One configuration of a cluster.
#[derive(Debug, Args)]
pub(super) struct ConfigArguments {
    /// Name of the VirtPlatformConfig.
    pub(super) name: String,

    #[command(flatten)]
    cluster: ClusterArguments,
}

impl ConfigArguments {
    /// Runs a command on the configurations of the cluster.
    pub(super) fn run(
        &self,
        command: impl AsyncFnOnce(Client, Configs) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        process::build_runtime()?.block_on(async {
            let client = self.cluster.client().await?;
            let configs = configs(&client);
            command(client, configs).await
        })
    }

    /// Prints what was done, as kubectl does: `virtplatformconfig.GROUP/NAME approved`.
    pub(super) fn report(&self, done: &str) -> anyhow::Result<()> {
        exit::print(&format!(
            "virtplatformconfig.{GROUP}/{} {done}\n",
            self.name
        ))
    }
}
