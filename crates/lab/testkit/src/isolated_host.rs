//! A host whose only way out is a proxy: programs in a network namespace without any interface but loopback.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;
use tempfile::TempDir;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpStream, UnixListener};
use tokio::task::AbortHandle;

use crate::proxy::Proxy;

/// Enables the loopback interface, and runs a program beside a relay to the proxy. Python is needed by other suites anyway; no
/// other program of theirs can do both.
const ENTER: &str = include_str!("isolated_host/enter.py");
/// Where programs find the proxy. The namespace has no other listeners.
const PORT: u16 = 3128;

/// A host behind a proxy. It ends with the test.
#[derive(Debug)]
pub struct IsolatedHost {
    folder: TempDir,
    relay: AbortHandle,
}

impl IsolatedHost {
    /// A host that reaches this proxy, and nothing else.
    pub fn behind(proxy: &Proxy) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir().context("creating a folder for an isolated host")?;
        let listener = UnixListener::bind(folder.path().join("proxy"))
            .context("listening for an isolated host")?;
        let port = proxy.port();
        let relay = tokio::spawn(async move {
            while let Ok((mut inside, _)) = listener.accept().await {
                tokio::spawn(async move {
                    if let Ok(mut outside) = TcpStream::connect(("127.0.0.1", port)).await {
                        // A connection that is reset ends on both sides.
                        let _ = copy_bidirectional(&mut inside, &mut outside).await;
                    }
                });
            }
        });
        Ok(Self {
            folder,
            relay: relay.abort_handle(),
        })
    }

    /// The proxy as programs of the host reach it: a value for `HTTPS_PROXY`.
    pub fn proxy_url(&self) -> String {
        format!("http://127.0.0.1:{PORT}")
    }

    /// A command that runs a program on this host. Commands share files and nothing else: each has a namespace of its own.
    pub fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new("unshare");
        command
            .args(["--user", "--map-root-user", "--net", "python3", "-c", ENTER])
            .arg(self.socket())
            .arg(PORT.to_string())
            .arg(program.as_ref());
        command
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("proxy")
    }
}

impl Drop for IsolatedHost {
    fn drop(&mut self) {
        self.relay.abort();
    }
}
