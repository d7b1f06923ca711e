//! The cluster a command connects to.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use runtime::client;
use tower::util::MapRequestLayer;

use crate::otlp;

/// Client configuration of a kubeconfig file.
pub(crate) fn config_at(path: &Path, options: &KubeConfigOptions) -> anyhow::Result<Config> {
    let what = || format!("reading the kubeconfig {}", path.display());
    let kubeconfig = Kubeconfig::read_from(path).with_context(what)?;
    client::in_kubeconfig(&kubeconfig, options).with_context(what)
}

/// Connection flags, named as in kubectl.
#[derive(Debug, Args)]
pub(crate) struct ClusterArguments {
    /// Path to the kubeconfig file.
    /// [default: $KUBECONFIG, then ~/.kube/config, then the service account of the pod]
    #[arg(long, value_name = "PATH", env = "MEDLEY_KUBECONFIG", global = true)]
    kubeconfig: Option<PathBuf>,

    /// Name of the kubeconfig context.
    /// [default: the current context]
    #[arg(long, value_name = "NAME", env = "MEDLEY_CONTEXT", global = true)]
    context: Option<String>,
}

impl ClusterArguments {
    /// A client for the cluster.
    pub(crate) async fn client(&self) -> anyhow::Result<Client> {
        let config = self.config().await?;
        // A credential plugin may wait for a login in a browser.
        let building = tokio::task::spawn_blocking(move || client(config));
        building
            .await
            .context("creating a client for the cluster")?
    }

    /// Client configuration of the cluster, with credentials.
    pub(crate) async fn config(&self) -> anyhow::Result<Config> {
        let path = self.kubeconfig.clone();
        let options = KubeConfigOptions {
            context: self.context.clone(),
            ..KubeConfigOptions::default()
        };
        // Files, which may be on a network file system.
        let reading = tokio::task::spawn_blocking(move || match (&path, &options.context) {
            (Some(path), _) => config_at(path, &options),
            // Not `usual`, which takes no context and falls back to the service account of the pod.
            (None, Some(_)) => {
                client::in_usual_kubeconfig(&options).context("reading the kubeconfig")
            }
            (None, None) => client::usual()
                .context("finding a cluster; name one with --kubeconfig PATH or $KUBECONFIG"),
        });
        reading.await.context("reading the kubeconfig")?
    }
}

/// A client whose requests are part of the current trace.
pub(crate) fn client(config: Config) -> anyhow::Result<Client> {
    let builder = client::builder(config).context("creating a client for the cluster")?;
    let traced = MapRequestLayer::new(otlp::propagate);
    Ok(builder.with_layer(&traced).build())
}
