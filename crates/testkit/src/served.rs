//! A cluster on a socket, for programs such as kubectl.

use std::path::PathBuf;

use tempfile::TempDir;
use tokio::sync::oneshot;

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
    pub fn folder(&self) -> &std::path::Path {
        self.folder.path()
    }
}
