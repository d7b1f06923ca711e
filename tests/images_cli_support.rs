//! Container disks of two architectures, made by `qemu-img`, and helpers to run commands on them.
#![expect(clippy::unwrap_used, reason = "test helpers may panic like tests")]

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::{ContainerDisk, FaultyServer, Layout, Registry, RegistryOptions, ScriptedResponse};

#[allow(unused_imports, reason = "no suite uses all of it")]
pub(crate) use testkit::{CommandOutput, certificate, has};

pub(crate) const MEDLEY: &str = env!("CARGO_BIN_EXE_medley");

/// Runs the binary without the test user's credentials.
pub(crate) async fn medley(line: &[&str]) -> anyhow::Result<CommandOutput> {
    let output = tokio::process::Command::new(MEDLEY)
        .args(line)
        .env_remove("REGISTRY_AUTH_FILE")
        .env_remove("XDG_RUNTIME_DIR")
        .env("HOME", "/nonexistent")
        .stdin(Stdio::null())
        .output()
        .await?;
    let said = CommandOutput::of(&output);
    // An error is printed on standard error only.
    ensure!(
        said.code != Some(1) || said.out.is_empty(),
        "{}{}",
        said.out,
        said.err
    );
    Ok(said)
}

/// Imports the disk of an architecture from an image, with additional arguments.
pub(crate) async fn import(
    image: &str,
    architecture: &str,
    to: &Path,
    more: &[&str],
) -> anyhow::Result<CommandOutput> {
    let line = ["images", "import", image, "--arch", architecture];
    medley(&[&line[..], &["--to", path(to)], more].concat()).await
}

/// Inspects an image, with additional arguments.
pub(crate) async fn inspect(image: &str, more: &[&str]) -> anyhow::Result<CommandOutput> {
    medley(&[&["image", "inspect", image], more].concat()).await
}

pub(crate) fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn run(program: &str, arguments: &[&str]) -> anyhow::Result<()> {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .with_context(|| format!("the tests need {program}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{program} {arguments:?}: {said}");
    Ok(())
}

/// A layout with images under the names `all`, `single`, `liar`, `empty` and `bootc`.
pub(crate) struct Fixture {
    folder: TempDir,
    layout: Layout,
    digests: BTreeMap<&'static str, String>,
}

impl Fixture {
    pub(crate) fn new() -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let mut layout = Layout::new(&folder.path().join("layout"))?;
        let mut digests = BTreeMap::new();
        let mut images = Vec::new();
        let labels = json!({ "instancetype": "u1.small" });
        for (seed, architecture) in [(1, "amd64"), (2, "arm64")] {
            let disk = ContainerDisk::make(folder.path(), architecture, seed)?;
            let image = layout.image(architecture, &[&disk.layer], &labels)?;
            digests.insert(architecture, image["digest"].as_str().unwrap().to_owned());
            images.push(image);
        }
        let all = layout.index(&images)?;
        layout.name("all", &all)?;
        layout.name("single", &images[0])?;
        let mut lie = images[0].clone();
        lie["platform"]["architecture"] = json!("arm64");
        let liar = layout.index(&[lie])?;
        layout.name("liar", &liar)?;
        let nothing = vec![0; 1024];
        let empty = layout.image("amd64", &[&nothing], &json!({}))?;
        layout.name("empty", &layout.index(&[empty])?)?;
        let labels = json!({ "containers.bootc": "1" });
        let bootc = layout.image("amd64", &[&nothing], &labels)?;
        layout.name("bootc", &layout.index(&[bootc])?)?;
        Ok(Self {
            folder,
            layout,
            digests,
        })
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The reference of an image in the layout.
    pub(crate) fn source(&self, name: &str) -> String {
        self.layout.source(name)
    }

    /// A registry that has some of the images, as `disks/NAME:1`.
    pub(crate) async fn registry(
        &self,
        names: &[&str],
        options: RegistryOptions,
    ) -> anyhow::Result<Registry> {
        let registry = Registry::start_with(options).await?;
        for name in names {
            registry.push(&self.source(name), &format!("disks/{name}:1"))?;
        }
        Ok(registry)
    }

    /// An authfile with the credentials of a registry.
    pub(crate) fn authfile(&self, registry: &Registry) -> anyhow::Result<PathBuf> {
        let file = self.folder().join("auth.json");
        let auths = json!({ "auths": { registry.host(): {
            "username": testkit::USERNAME, "password": testkit::PASSWORD,
        } } });
        std::fs::write(&file, auths.to_string())?;
        Ok(file)
    }

    /// The layout as an archive.
    pub(crate) fn archive(&self) -> anyhow::Result<PathBuf> {
        let file = self.folder().join("layout.tar");
        let layout = self.folder().join("layout");
        run("tar", &["-C", path(&layout), "-cf", path(&file), "."])?;
        Ok(file)
    }

    /// The digest of the manifest of an architecture.
    pub(crate) fn digest(&self, architecture: &str) -> String {
        self.digests[architecture].clone()
    }

    /// The qcow2 of an architecture, compressed once more.
    pub(crate) fn compressed(&self, architecture: &str) -> anyhow::Result<Vec<u8>> {
        let qcow2 = std::fs::read(self.folder().join(architecture).join("disk/disk.img"))?;
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&qcow2)?;
        Ok(gzip.finish()?)
    }

    /// Adds an image with this single layer; returns the digest of the layer.
    pub(crate) fn wrap(&mut self, name: &str, bytes: &[u8]) -> anyhow::Result<String> {
        let image = self.layout.image("amd64", &[bytes], &json!({}))?;
        self.layout.name(name, &image)?;
        Ok(platform::Digest::sha256(bytes).to_string())
    }

    /// The raw disk as converted by `qemu-img`.
    pub(crate) fn raw(&self, architecture: &str) -> PathBuf {
        self.folder().join(architecture).join("expected.raw")
    }

    fn blob(&self, digest: &str) -> anyhow::Result<Vec<u8>> {
        let hash = digest.trim_start_matches("sha256:");
        let path = self.folder().join("layout/blobs/sha256").join(hash);
        Ok(std::fs::read(path)?)
    }

    /// The digest of the layer of an architecture.
    pub(crate) fn layer(&self, architecture: &str) -> anyhow::Result<String> {
        let manifest = self.blob(&self.digest(architecture))?;
        let manifest: Value = serde_json::from_slice(&manifest)?;
        let digest = manifest["layers"][0]["digest"].as_str();
        Ok(digest.context("no layer")?.to_owned())
    }

    /// Asserts that there is neither a disk nor a partial one.
    pub(crate) fn nothing_at(&self, to: &Path) -> anyhow::Result<()> {
        let name = to.file_name().unwrap().to_str().unwrap();
        for entry in std::fs::read_dir(self.folder())? {
            let found = entry?.file_name();
            let found = found.to_string_lossy();
            ensure!(!found.starts_with(name), "{found} is there");
        }
        Ok(())
    }

    /// A registry that serves one image under every tag; the callback answers requests for blobs: digest,
    /// bytes, and the requested offset.
    pub(crate) async fn serve(
        &self,
        name: &str,
        answer: impl Fn(&str, Vec<u8>, usize) -> ScriptedResponse + Send + Sync + 'static,
    ) -> anyhow::Result<FaultyServer> {
        let layout = self.folder().join("layout");
        let index: Value = serde_json::from_slice(&std::fs::read(layout.join("index.json"))?)?;
        let root = index["manifests"]
            .as_array()
            .into_iter()
            .flatten()
            .find(|entry| entry["annotations"]["org.opencontainers.image.ref.name"] == name)
            .and_then(|entry| entry["digest"].as_str())
            .context("no such name")?
            .to_owned();
        FaultyServer::start(move |asked| {
            let last = asked.path.rsplit('/').next().unwrap_or_default();
            let digest = if last.starts_with("sha256:") {
                last
            } else {
                &root
            };
            let hash = digest.trim_start_matches("sha256:");
            let Ok(bytes) = std::fs::read(layout.join("blobs/sha256").join(hash)) else {
                return ScriptedResponse::answer(404, "");
            };
            if asked.path.contains("/blobs/") {
                return answer(digest, bytes, asked.offset());
            }
            if !asked.path.contains("/manifests/") {
                return ScriptedResponse::answer(200, "{}");
            }
            let document: Value = serde_json::from_slice(&bytes).unwrap_or_default();
            let kind = document["mediaType"]
                .as_str()
                .unwrap_or_default()
                .to_owned();
            ScriptedResponse::answer(200, bytes)
                .with("Content-Type", &kind)
                .with("Docker-Content-Digest", digest)
        })
        .await
    }
}
