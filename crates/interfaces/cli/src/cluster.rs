//! The cluster a command connects to.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

/// Connection flags, named as in kubectl.
#[derive(Debug, Args)]
pub(crate) struct ClusterArguments {
    /// The kubeconfig to use.
    /// [default: $KUBECONFIG, then ~/.kube/config, then the service account of the pod]
    #[arg(long, value_name = "PATH", env = "MEDLEY_KUBECONFIG", global = true)]
    kubeconfig: Option<PathBuf>,

    /// The context of the kubeconfig to use.
    #[arg(long, value_name = "NAME", env = "MEDLEY_CONTEXT", global = true)]
    context: Option<String>,
}

impl ClusterArguments {
    /// A client for the cluster.
    pub(crate) async fn client(&self) -> anyhow::Result<Client> {
        Client::try_from(self.config().await?).context("creating a client for the cluster")
    }

    /// Client configuration of the cluster, with credentials.
    pub(crate) async fn config(&self) -> anyhow::Result<Config> {
        let options = KubeConfigOptions {
            context: self.context.clone(),
            ..KubeConfigOptions::default()
        };
        match (&self.kubeconfig, &self.context) {
            (Some(path), _) => {
                let what = || format!("reading the kubeconfig {}", path.display());
                let kubeconfig = Kubeconfig::read_from(path).with_context(what)?;
                Config::from_custom_kubeconfig(kubeconfig, &options)
                    .await
                    .with_context(what)
            }
            (None, Some(_)) => Config::from_kubeconfig(&options)
                .await
                .context("reading the kubeconfig"),
            (None, None) => Config::infer()
                .await
                .context("finding a cluster; name one with --kubeconfig PATH or $KUBECONFIG"),
        }
    }
}
