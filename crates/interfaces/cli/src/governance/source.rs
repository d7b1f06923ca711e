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
    /// Namespace of the operator, which keeps the history of plans there.
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

    /// Plan on an in-memory copy of a cluster, without connecting to one.
    #[arg(long, requires = "filename")]
    offline: bool,

    /// Snapshot to plan on, as written by `medley snapshot`.
    #[arg(short, long, value_name = "SNAPSHOT", requires = "offline")]
    filename: Option<PathBuf>,
}

impl SourceArguments {
    /// Connects to the cluster, or loads the snapshot.
    pub(super) async fn open(&self) -> anyhow::Result<Client> {
        match &self.filename {
            Some(path) => open_snapshot(path, self.history_namespace()).await,
            None => self.cluster.client().await,
        }
    }

    pub(super) fn history_namespace(&self) -> &str {
        &self.history.history_namespace
    }
}

/// Fails: the API server that would answer for the snapshot is part of the lab.
#[cfg(not(feature = "lab"))]
#[expect(
    clippy::unused_async,
    reason = "the lab's function of this name is async"
)]
async fn open_snapshot(path: &std::path::Path, _history_namespace: &str) -> anyhow::Result<Client> {
    anyhow::bail!(
        "cannot plan on the snapshot {}: --offline needs the embedded API server, which this build lacks; use a build with \
         the feature `lab` (the default of `cargo build`)",
        path.display()
    )
}
