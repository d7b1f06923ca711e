//! CDI's controller as a process.

use std::path::Path;
use std::process::Command;

use anyhow::Context as _;
use testkit::{Process, peer};

use crate::fixture::GenuineCluster;

/// Keys are read from a constant path, so the process gets a mount namespace of its own.
const START: &str = r#"set -e
openssl genrsa -out id_rsa 2048
openssl rsa -in id_rsa -pubout -out id_rsa.pub
mount -t tmpfs tmpfs /run
mkdir -p /run/cdi/token/keys
cp id_rsa id_rsa.pub /run/cdi/token/keys
exec "$0" -kubeconfig "$1" -v 1
"#;

/// Starts it in a folder of its own.
pub(crate) fn start(beside: &GenuineCluster, folder: &Path) -> anyhow::Result<Process> {
    std::fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
    let mut command = Command::new("unshare");
    command
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", START])
        .arg(peer("cdi-controller")?)
        .arg(&beside.served.kubeconfig)
        .env("IMPORTER_IMAGE", "registry.example/cdi-importer:1")
        .env("CLONER_IMAGE", "registry.example/cdi-cloner:1")
        .env("UPLOADSERVER_IMAGE", "registry.example/cdi-uploadserver:1")
        .env("OVIRT_POPULATOR_IMAGE", "registry.example/populator:1")
        .env("UPLOADPROXY_SERVICE", "cdi-uploadproxy");
    Process::spawn(&mut command, folder)
}
