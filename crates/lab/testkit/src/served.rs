//! A cluster on a socket, for programs such as kubectl.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use tempfile::TempDir;
use tokio::process::Command;
use tokio::sync::oneshot;

use crate::CommandOutput;

/// A server reachable on a socket. Dropping it closes the socket of an embedded server and deletes
/// the kubeconfig.
#[derive(Debug)]
pub struct ServedCluster {
    /// Address of the server.
    pub url: String,
    /// A kubeconfig with cluster-admin permissions.
    pub kubeconfig: PathBuf,
    pub(crate) folder: TempDir,
    /// Stops the server when it is dropped.
    pub(crate) _stop: Option<oneshot::Sender<()>>,
}

impl ServedCluster {
    /// A folder that lives as long as this, for home directories, caches and files of programs.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Runs kubectl in a namespace, as administrator; returns its output if it succeeds.
    pub async fn kubectl(&self, namespace: &str, arguments: &[&str]) -> anyhow::Result<String> {
        let output = Command::new("kubectl")
            .args(["--namespace", namespace])
            .args(arguments)
            .env("KUBECONFIG", &self.kubeconfig)
            .env("HOME", self.folder())
            .output()
            .await
            .context("running kubectl")?;
        let stdout = CommandOutput::of(&output).ok();
        stdout.with_context(|| format!("kubectl {arguments:?}"))
    }
}
