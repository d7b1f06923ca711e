//! Where plans are computed: in a cluster, or in a snapshot of one.

use std::path::PathBuf;

use clap::Args;
use kube::Client;

use crate::cluster::ClusterArguments;
#[cfg(feature = "lab")]
use crate::lab::offline::open as open_snapshot;

/// Namespace of the history of plans.
#[derive(Debug, Args)]
pub(super) struct HistoryArguments {
    /// The namespace of the operator, where the history of plans is kept.
    #[arg(long, value_name = "NAME", default_value = "medley-system")]
    pub(super) history_namespace: String,
}

/// A cluster, or a snapshot of one.
#[derive(Debug, Args)]
pub(super) struct SourceArguments {
    #[command(flatten)]
    cluster: ClusterArguments,

    #[command(flatten)]
    history: HistoryArguments,

    /// Plan on a copy of a cluster in memory; nothing is written anywhere.
    #[arg(long, requires = "filename")]
    offline: bool,

    /// The snapshot to plan on, written by `medley snapshot`.
    #[arg(short, long, value_name = "SNAPSHOT", requires = "offline")]
    filename: Option<PathBuf>,
}

/// The cluster or copy to plan on.
pub(super) struct Source {
    pub(super) client: Client,
    pub(super) history_namespace: String,
}

impl SourceArguments {
    /// Connects to the cluster, or loads the snapshot.
    pub(super) async fn open(&self) -> anyhow::Result<Source> {
        let history_namespace = self.history.history_namespace.clone();
        let client = match &self.filename {
            Some(path) => open_snapshot(path, &history_namespace).await?,
            None => self.cluster.client().await?,
        };
        Ok(Source {
            client,
            history_namespace,
        })
    }
}

/// Fails: the API server that would answer for the snapshot is part of the lab.
#[cfg(not(feature = "lab"))]
async fn open_snapshot(path: &std::path::Path, _history_namespace: &str) -> anyhow::Result<Client> {
    anyhow::bail!(
        "cannot plan on the snapshot {}: --offline needs the embedded API server, which this build does not contain; use a \
         build with the feature `lab` (the default of `cargo build`)",
        path.display()
    )
}
