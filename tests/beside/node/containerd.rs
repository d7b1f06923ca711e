//! containerd on a test node, in two versions.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Context as _;
use testkit::{CriClient, Process, peer, wait_until};

use crate::fixture::WAIT_TIMEOUT;
use crate::machine::Machine;

/// For requests while containerd starts.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// Which containerd.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version {
    /// The pinned peer, version 2.
    Peer,
    /// The package of the distribution, version 1.
    Debian,
}

impl Version {
    /// How it reports its version.
    pub(crate) fn prefix(self) -> &'static str {
        match self {
            Self::Peer => "v2.",
            Self::Debian => "1.",
        }
    }
}

/// A running containerd. Its shims and containers end with the machine.
pub(crate) struct Containerd {
    process: Process,
    /// The socket of its CRI.
    pub(crate) socket: PathBuf,
}

impl Containerd {
    /// Starts it, with `arm` as a second runtime handler. `sandbox` is the image of sandboxes, and `mirrors` a folder with
    /// a `hosts.toml` for each registry.
    pub(crate) async fn start(
        version: Version,
        machine: &Machine,
        sandbox: &str,
        mirrors: &Path,
    ) -> anyhow::Result<Self> {
        let folder = machine.folder("containerd")?;
        // There is no CNI plugin, so only pods in the network of the host can run. Without a network, the node is not ready.
        let networks = machine.folder("cni")?;
        let network = r#"{"cniVersion":"1.0.0","name":"none","plugins":[{"type":"none"}]}"#;
        fs::write(networks.join("10-none.conflist"), network).context("writing a network")?;
        let config = folder.join("config.toml");
        let text = configuration(version, &folder, &networks, sandbox, mirrors);
        fs::write(&config, text).with_context(|| format!("writing {}", config.display()))?;
        let program = match version {
            // Its shim is found beside it.
            Version::Peer => peer("containerd")?,
            Version::Debian => PathBuf::from("/usr/bin/containerd"),
        };
        let mut command = machine.command(&program);
        command.arg("--config").arg(&config);
        let process = Process::spawn(
            with_path_of(&mut command, &program),
            &machine.folder("log-containerd")?,
        )?;
        let socket = folder.join("containerd.sock");
        let mut containerd = Self { process, socket };
        let client = CriClient::new(&containerd.socket).within(REQUEST_TIMEOUT);
        wait_until("containerd serves images", WAIT_TIMEOUT, || {
            let (client, checked) = (client.clone(), containerd.process.check());
            async move {
                checked?;
                Ok(client.list(None).await.ok().map(drop))
            }
        })
        .await
        .with_context(|| containerd.log())?;
        Ok(containerd)
    }

    pub(crate) fn log(&self) -> String {
        self.process.output()
    }
}

/// Puts the folder of a program first, where containerd looks for its shim.
fn with_path_of<'a>(command: &'a mut Command, program: &Path) -> &'a mut Command {
    let path = std::env::var("PATH").unwrap_or_default();
    let folder = program.parent().unwrap_or_else(|| Path::new("/")).display();
    command.env("PATH", format!("{folder}:{path}:/usr/sbin"))
}

/// Both versions have the same settings, in plugins of other names.
fn configuration(
    version: Version,
    folder: &Path,
    networks: &Path,
    sandbox: &str,
    mirrors: &Path,
) -> String {
    let (folder, networks, mirrors) = (folder.display(), networks.display(), mirrors.display());
    let (number, runtimes, images, sandbox_key) = match version {
        Version::Peer => (
            3,
            "io.containerd.cri.v1.runtime",
            "io.containerd.cri.v1.images",
            "pinned_images.sandbox",
        ),
        Version::Debian => (
            2,
            "io.containerd.grpc.v1.cri",
            "io.containerd.grpc.v1.cri",
            "sandbox_image",
        ),
    };
    // With dotted keys, because version 1 has one plugin for both: a table must not be opened twice.
    format!(
        r#"
version = {number}
root = "{folder}/root"
state = "{folder}/state"
grpc.address = "{folder}/containerd.sock"

[plugins]
"io.containerd.internal.v1.opt".path = "{folder}/opt"
# The score of sandboxes is below that of this process; to lower it needs CAP_SYS_RESOURCE, which containers of CI lack.
"{runtimes}".restrict_oom_score_adj = true
"{runtimes}".cni.conf_dir = "{networks}"
"{runtimes}".containerd.runtimes.runc.runtime_type = "io.containerd.runc.v2"
"{runtimes}".containerd.runtimes.arm.runtime_type = "io.containerd.runc.v2"
"{images}".{sandbox_key} = "{sandbox}"
"{images}".registry.config_path = "{mirrors}"
"#
    )
}
