//! Access to configurations and profiles.

use anyhow::bail;
use api::advisor::{GROUP, Phase, VirtPlatformConfig};
use clap::Args;
use controllers::Job;
use edits::Configs;
use kube::Client;

use crate::cluster::ClusterArguments;
use crate::controller::{ControllerArguments, WaitArguments};
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

/// One configuration to change.
#[derive(Debug, Args)]
pub(super) struct ConfigChangeArguments {
    #[command(flatten)]
    pub(super) config: ConfigArguments,

    #[command(flatten)]
    controller: ControllerArguments,

    #[command(flatten)]
    wait: WaitArguments,
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
}

impl ConfigChangeArguments {
    /// Names the controller that will act on a change; an error if there is none.
    pub(super) async fn check(&self, client: &Client) -> anyhow::Result<()> {
        self.controller.check(client, Job::Governance, true).await
    }

    /// Waits until the operator has reconciled a change, if requested, and prints the resulting phase. Returns an error
    /// if the plan failed.
    pub(super) async fn result(
        &self,
        configs: &Configs,
        changed: &VirtPlatformConfig,
    ) -> anyhow::Result<()> {
        if !self.wait.is_set() {
            return Ok(());
        }
        let name = &self.config.name;
        let what = format!("the operator to act on VirtPlatformConfig {name}");
        let reading = async || {
            let now = configs.get(name).await?;
            Ok(settled(changed, &now).map(|phase| (phase, now)))
        };
        let (phase, now) = self.wait.wait_for(&what, reading).await?;
        let conditions = now.status.iter().flat_map(|it| &it.conditions);
        let mut current = conditions.filter(|it| it.type_ == phase.as_str());
        let message = current.next().map(|it| it.message.as_str());
        let message = message.filter(|it| !it.is_empty());
        let message = message.map_or_else(String::new, |it| format!(": {it}"));
        if phase == Phase::Failed || phase == Phase::CompletedWithErrors {
            bail!("{name} is {phase}{message}");
        }
        exit::print(&format!("{name} is {phase}{message}\n"))
    }

    /// Prints what was done, as kubectl does: `virtplatformconfig.GROUP/NAME approved`.
    pub(super) fn report(&self, done: &str) -> anyhow::Result<()> {
        exit::print(&format!(
            "virtplatformconfig.{GROUP}/{} {done}\n",
            self.config.name
        ))
    }
}

/// The phase that a change of a configuration led to; `None` while the operator is still at work.
fn settled(changed: &VirtPlatformConfig, now: &VirtPlatformConfig) -> Option<Phase> {
    let status = now.status.as_ref()?;
    if status.observed_generation < changed.metadata.generation {
        return None;
    }
    let is_busy =
        |phase: &Phase| matches!(phase, Phase::Pending | Phase::Drafting | Phase::InProgress);
    status.phase.filter(|phase| !is_busy(phase))
}
