//! A cluster on a socket, for programs such as kubectl.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use tempfile::TempDir;
use tokio::process::Command;
use tokio::sync::oneshot;

use crate::Said;

/// A server that programs can reach. The socket of an embedded server closes when this is
/// dropped, and the kubeconfig goes away.
#[derive(Debug)]
pub struct ServedCluster {
    /// Address of the server.
    pub url: String,
    /// A kubeconfig for an administrator.
    pub kubeconfig: PathBuf,
    pub(crate) folder: TempDir,
    /// Ends the server when it is dropped.
    pub(crate) _stop: Option<oneshot::Sender<()>>,
}

impl ServedCluster {
    /// A folder that lives as long as this, for homes, caches and files of programs.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Runs kubectl in a namespace, as an administrator; what it says if it works.
    pub async fn kubectl(&self, namespace: &str, arguments: &[&str]) -> anyhow::Result<String> {
        let output = Command::new("kubectl")
            .args(["--namespace", namespace])
            .args(arguments)
            .env("KUBECONFIG", &self.kubeconfig)
            .env("HOME", self.folder())
            .output()
            .await
            .context("running kubectl")?;
        let said = Said::of(&output).ok();
        said.with_context(|| format!("kubectl {arguments:?}"))
    }
}
