//! Flags of commands whose change a controller carries out: which controller that is, and waiting for its result.

use std::time::Duration;

use anyhow::{anyhow, bail};
use clap::Args;
use controllers::Job;
use edits::{Acting, acting, operators};
use jiff::Timestamp;
use kube::Client;
use runtime::Error;

use crate::cluster::duration;
use crate::output::remark;

/// The interval of reads while waiting for a controller.
// Reads and not a watch: what is waited for is derived from several objects.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// The controller that carries out a change.
#[derive(Debug, Args)]
pub(crate) struct ControllerArguments {
    /// Write the change even if no controller will act on it, for example before the operator is
    /// installed.
    #[arg(long)]
    without_controller: bool,

    /// Namespace of the operator that acts on the change. Other namespaces are searched if it is not
    /// there.
    #[arg(long, value_name = "NAME", default_value = manifests::NAMESPACE)]
    operator_namespace: String,
}

/// Waiting for the result of a change.
#[derive(Debug, Args)]
pub(crate) struct WaitArguments {
    /// Wait until the controller has acted on the change, and print the result.
    #[arg(long, conflicts_with = "without_controller")]
    wait: bool,

    /// Length of time to wait, such as 30s or 5m; 0 waits without a limit.
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration)]
    #[arg(requires = "wait")]
    timeout: Duration,
}

impl ControllerArguments {
    /// Names the controller that will act on a change, before it is written; an error if there is none. A change that
    /// `is_persisted` not is only warned about.
    pub(crate) async fn check(
        &self,
        client: &Client,
        job: Job,
        is_persisted: bool,
    ) -> anyhow::Result<()> {
        let found = operators(client, &self.operator_namespace).await;
        self.settle(acting(&found, job, Timestamp::now()), is_persisted)
    }

    /// The same for a pin of a golden image, which another operator may import.
    pub(crate) async fn check_pin(
        &self,
        client: &Client,
        is_persisted: bool,
    ) -> anyhow::Result<()> {
        let found = operators(client, &self.operator_namespace).await;
        let acting = edits::acting_on_pins(client, &found, Timestamp::now()).await;
        self.settle(acting, is_persisted)
    }

    /// The same for a poll of the source of an image, which CDI itself carries out as well.
    pub(crate) async fn check_poll(
        &self,
        client: &Client,
        is_persisted: bool,
    ) -> anyhow::Result<()> {
        let found = operators(client, &self.operator_namespace).await;
        let acting = edits::acting_on_polls(client, &found, Timestamp::now()).await;
        self.settle(acting, is_persisted)
    }

    fn settle(&self, acting: Result<Acting, Error>, is_persisted: bool) -> anyhow::Result<()> {
        match acting {
            Ok(Acting::Unknown(why)) => remark(&format!(
                "warning: cannot tell whether a controller will act on this: {why}"
            )),
            Ok(acting) => remark(&format!("Acted on by {acting}.")),
            Err(refused) if self.without_controller || !is_persisted => {
                remark(&format!("warning: {refused}"));
            }
            Err(refused) => {
                return Err(anyhow!(
                    "{refused}. To write the change anyway, use --without-controller"
                ));
            }
        }
        Ok(())
    }
}

impl WaitArguments {
    /// Whether to wait.
    pub(crate) fn is_set(&self) -> bool {
        self.wait
    }

    /// Waits until `read` has a result.
    pub(crate) async fn wait_for<T>(
        &self,
        what: &str,
        mut read: impl AsyncFnMut() -> anyhow::Result<Option<T>>,
    ) -> anyhow::Result<T> {
        let reading = async {
            loop {
                if let Some(result) = read().await? {
                    return Ok(result);
                }
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        };
        if self.timeout.is_zero() {
            return reading.await;
        }
        match tokio::time::timeout(self.timeout, reading).await {
            Ok(result) => result,
            Err(_) => bail!(
                "timed out waiting for {what}: the change was written, but had no result within {:?}",
                self.timeout
            ),
        }
    }
}
