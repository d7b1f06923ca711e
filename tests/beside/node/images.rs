//! A registry with images of busybox, and mirror rules that lead to it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::{Layout, Registry, Tar};

/// A registry; its folder has the layout that images are pushed from.
pub(crate) struct Images {
    pub(crate) registry: Registry,
    layout: Layout,
    busybox: Vec<u8>,
    folder: TempDir,
}

impl Images {
    pub(crate) async fn start() -> anyhow::Result<Self> {
        let folder = tempfile::tempdir().context("creating a folder for images")?;
        Ok(Self {
            registry: Registry::start().await?,
            layout: Layout::new(&folder.path().join("layout"))?,
            busybox: busybox(folder.path())?,
            folder,
        })
    }

    /// An image for an architecture. Its program is that of this host: it does not run if the architecture is another one.
    pub(crate) fn image(&self, architecture: &str, config: &Value) -> anyhow::Result<Value> {
        let layer = Tar::new()
            .folder("bin", 0o755)
            .file("bin/busybox", 0o755, &self.busybox)
            .folder("etc", 0o755)
            .file("etc/architecture", 0o644, architecture)
            .finish();
        let config = json!({"os": "linux", "architecture": architecture, "config": config});
        self.layout.image_of(&config, &[&layer])
    }

    /// Pushes an image of this host's architecture, and returns its reference.
    pub(crate) fn push(&mut self, name: &str, config: &Value) -> anyhow::Result<String> {
        let image = self.image(host_architecture(), config)?;
        self.push_as(&image, name)
    }

    /// Pushes an index of images for amd64 and arm64, and returns its reference.
    pub(crate) fn push_index(&mut self, name: &str, config: &Value) -> anyhow::Result<String> {
        let images = [self.image("amd64", config)?, self.image("arm64", config)?];
        let index = self.layout.index(&images)?;
        self.push_as(&index, name)
    }

    pub(crate) fn push_as(&mut self, descriptor: &Value, name: &str) -> anyhow::Result<String> {
        self.layout.name("pushed", descriptor)?;
        self.registry.push(&self.layout.source("pushed"), name)?;
        Ok(format!("{}/{name}", self.registry.host()))
    }

    /// A folder with a `hosts.toml` for each of these registries, which leads here.
    pub(crate) fn mirrors(&self, hosts: &[&str]) -> anyhow::Result<PathBuf> {
        let mirrors = self.folder.path().join("mirrors");
        fs::create_dir_all(&mirrors).context("creating a folder for mirrors")?;
        let own = self.registry.host();
        for host in hosts.iter().copied().chain([own.as_str()]) {
            let folder = mirrors.join(host);
            fs::create_dir_all(&folder).context("creating a folder for a mirror")?;
            let rule = format!("[host.\"http://{own}\"]\ncapabilities = [\"pull\", \"resolve\"]\n");
            fs::write(folder.join("hosts.toml"), rule).context("writing a mirror")?;
        }
        Ok(mirrors)
    }
}

/// The architecture of this host, in the words of images.
pub(crate) fn host_architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// The program of all images: one file that runs alone.
fn busybox(folder: &Path) -> anyhow::Result<Vec<u8>> {
    let found = Command::new("sh")
        .args(["-c", "command -v busybox"])
        .output()?;
    let path = String::from_utf8_lossy(&found.stdout);
    let advice = "this suite needs the Debian package busybox-static";
    let program = fs::read(path.trim()).context(advice)?;
    let alone = folder.join("busybox");
    fs::copy(path.trim(), &alone).context("copying busybox")?;
    // In a folder without libraries.
    let runs = Command::new("chroot")
        .arg(folder)
        .args(["/busybox", "true"])
        .status()?;
    ensure!(
        runs.success(),
        "{}: {advice}, which runs without libraries",
        path.trim()
    );
    Ok(program)
}
