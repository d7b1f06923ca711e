//! Images to import: in a folder, pushed to a registry, or served by one that misbehaves on demand.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::{Asked, ContainerDisk, FaultyServer, Layout, Registry, ScriptedResponse};

/// Default architectures of an image.
pub(crate) const ALL: [&str; 3] = ["amd64", "arm64", "s390x"];

/// Images of disks, by architecture and version.
pub(crate) struct Library {
    folder: TempDir,
    layout: Layout,
    images: BTreeMap<(String, u64), Value>,
}

impl Library {
    fn new() -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let layout = Layout::new(&folder.path().join("layout"))?;
        Ok(Self {
            folder,
            layout,
            images: BTreeMap::new(),
        })
    }

    /// The first version of all architectures, under a tag.
    pub(crate) fn published(tag: &str) -> anyhow::Result<Self> {
        let mut library = Self::new()?;
        library.publish_all(tag, 1)?;
        Ok(library)
    }

    /// The first version of all architectures, as `latest` in a real registry.
    pub(crate) async fn in_registry() -> anyhow::Result<(Self, Registry)> {
        let library = Self::published("1")?;
        let registry = Registry::start().await?;
        registry.push(&library.source("1"), "disks/fedora:latest")?;
        Ok((library, registry))
    }

    fn name(architecture: &str, version: u64) -> String {
        format!("{architecture}-{version}")
    }

    /// The image of an architecture in a version.
    fn image(&mut self, architecture: &str, version: u64) -> anyhow::Result<Value> {
        let key = (architecture.to_owned(), version);
        if let Some(known) = self.images.get(&key) {
            return Ok(known.clone());
        }
        let seed = version * 1000 + u64::from(architecture.as_bytes()[0]) * 7;
        let name = Self::name(architecture, version);
        let disk = ContainerDisk::make(self.folder.path(), &name, seed)?;
        let image = self
            .layout
            .image(architecture, &[&disk.layer], &json!({}))?;
        self.images.insert(key, image.clone());
        Ok(image)
    }

    /// Tags an index of these architectures and versions.
    pub(crate) fn publish(&mut self, name: &str, what: &[(&str, u64)]) -> anyhow::Result<()> {
        let images: Vec<Value> = what
            .iter()
            .map(|(architecture, version)| self.image(architecture, *version))
            .collect::<anyhow::Result<_>>()?;
        let index = self.layout.index(&images)?;
        self.layout.name(name, &index)
    }

    /// Tags an index of all architectures in a version.
    pub(crate) fn publish_all(&mut self, name: &str, version: u64) -> anyhow::Result<()> {
        self.publish(name, &ALL.map(|architecture| (architecture, version)))
    }

    /// Tags the image of one architecture, without an index.
    pub(crate) fn publish_single(
        &mut self,
        name: &str,
        architecture: &str,
        version: u64,
    ) -> anyhow::Result<()> {
        let image = self.image(architecture, version)?;
        self.layout.name(name, &image)
    }

    /// Tags an index of images without a disk.
    pub(crate) fn publish_empty(&mut self, name: &str) -> anyhow::Result<()> {
        let nothing = vec![0; 1024];
        let images: Vec<Value> = ALL
            .iter()
            .map(|it| self.layout.image(it, &[&nothing], &json!({ "empty": it })))
            .collect::<anyhow::Result<_>>()?;
        let index = self.layout.index(&images)?;
        self.layout.name(name, &index)
    }

    /// A tag in the syntax of `skopeo`.
    pub(crate) fn source(&self, name: &str) -> String {
        self.layout.source(name)
    }

    /// Digest of the manifest of an architecture in a version.
    pub(crate) fn digest(&self, architecture: &str, version: u64) -> String {
        let image = &self.images[&(architecture.to_owned(), version)];
        image["digest"].as_str().unwrap().to_owned()
    }

    /// Digest of the index of a tag.
    pub(crate) fn index(&self, tag: &str) -> anyhow::Result<String> {
        tagged(&self.folder(), tag)
    }

    /// The raw disk as converted by `qemu-img`.
    pub(crate) fn raw(&self, architecture: &str, version: u64) -> PathBuf {
        let name = Self::name(architecture, version);
        self.folder.path().join(name).join("expected.raw")
    }

    fn folder(&self) -> PathBuf {
        self.folder.path().join("layout")
    }

    /// Serves all tags, under any repository; faults apply per request.
    pub(crate) async fn serve(&self) -> anyhow::Result<Server> {
        let fault: Arc<Mutex<Option<Fault>>> = Arc::default();
        let (folder, decide) = (self.folder(), Arc::clone(&fault));
        let server = FaultyServer::start(move |asked| {
            let fault = *decide.lock();
            answer(&folder, fault, asked).unwrap_or_else(|_| ScriptedResponse::answer(404, ""))
        })
        .await?;
        Ok(Server { server, fault })
    }
}

/// Reference of a library image in a registry.
pub(crate) fn image_at(host: &str, tag: &str) -> String {
    format!("docker://{host}/disks/fedora:{tag}")
}

/// Faults of a registry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It closes every connection.
    Down,
    /// 401 for every request.
    Unauthorized,
    /// 429 with a delay that exceeds the client's limit.
    RateLimited,
    /// Layers end early.
    Truncated,
    /// Layers have other content than their digest.
    Corrupted,
    /// This number of bytes of a layer arrive, and the others too slowly to finish.
    Trickling(usize),
}

/// A registry that misbehaves on demand.
pub(crate) struct Server {
    server: FaultyServer,
    fault: Arc<Mutex<Option<Fault>>>,
}

impl Server {
    pub(crate) fn host(&self) -> String {
        self.server.host()
    }

    /// Sets or clears the fault.
    pub(crate) fn does(&self, fault: Option<Fault>) {
        *self.fault.lock() = fault;
    }

    /// Requests for layers, with their first byte.
    pub(crate) fn layers(&self) -> Vec<(String, usize)> {
        let asked = self.server.asked();
        let layers = asked.iter().filter(|it| it.path.contains("/blobs/"));
        layers.map(|it| (it.path.clone(), it.offset())).collect()
    }
}

fn answer(folder: &Path, fault: Option<Fault>, asked: &Asked) -> anyhow::Result<ScriptedResponse> {
    match fault {
        Some(Fault::Down) => return Ok(ScriptedResponse::closed()),
        Some(Fault::Unauthorized) => {
            let challenge = "Basic realm=\"tests\"";
            return Ok(ScriptedResponse::answer(401, "{}").with("WWW-Authenticate", challenge));
        }
        Some(Fault::RateLimited) => {
            return Ok(ScriptedResponse::answer(429, "{}").with("Retry-After", "11"));
        }
        _ => {}
    }
    let last = asked.path.rsplit('/').next().unwrap_or_default();
    let root;
    let digest = if last.starts_with("sha256:") {
        last
    } else {
        root = tagged(folder, last)?;
        &root
    };
    let hash = digest.trim_start_matches("sha256:");
    let bytes = std::fs::read(folder.join("blobs/sha256").join(hash))?;
    if asked.path.contains("/blobs/") {
        let is_layer = serde_json::from_slice::<Value>(&bytes).is_err();
        return Ok(blob(bytes, fault.filter(|_| is_layer), asked.offset()));
    }
    if !asked.path.contains("/manifests/") {
        return Ok(ScriptedResponse::answer(200, "{}"));
    }
    let document: Value = serde_json::from_slice(&bytes)?;
    let kind = document["mediaType"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    Ok(ScriptedResponse::answer(200, bytes)
        .with("Content-Type", &kind)
        .with("Docker-Content-Digest", digest))
}

fn tagged(folder: &Path, tag: &str) -> anyhow::Result<String> {
    let index: Value = serde_json::from_slice(&std::fs::read(folder.join("index.json"))?)?;
    let entries = index["manifests"].as_array().into_iter().flatten();
    let mut entries =
        entries.filter(|it| it["annotations"]["org.opencontainers.image.ref.name"] == tag);
    let digest = entries.next().and_then(|it| it["digest"].as_str());
    Ok(digest.context("no such tag")?.to_owned())
}

fn blob(mut bytes: Vec<u8>, fault: Option<Fault>, offset: usize) -> ScriptedResponse {
    let end = bytes.len();
    let code = if offset > 0 { 206 } else { 200 };
    match fault {
        Some(Fault::Truncated) => {
            // Always the same half, for every range request.
            let half = bytes[offset..(end / 2).max(offset)].to_vec();
            return ranged(ScriptedResponse::cut(code, half, end - offset), offset, end);
        }
        Some(Fault::Corrupted) => {
            let middle = end / 2;
            bytes[middle] ^= 0xff;
        }
        Some(Fault::Trickling(after)) => {
            let rest = bytes[offset..].to_vec();
            let slowly = ScriptedResponse::trickling(
                code,
                rest,
                after.saturating_sub(offset),
                Duration::from_millis(50),
            );
            return ranged(slowly, offset, end);
        }
        _ => {}
    }
    ranged(
        ScriptedResponse::answer(code, bytes[offset..].to_vec()),
        offset,
        end,
    )
}

fn ranged(answer: ScriptedResponse, offset: usize, end: usize) -> ScriptedResponse {
    if offset == 0 {
        return answer;
    }
    answer.with(
        "Content-Range",
        &format!("bytes {offset}-{}/{end}", end - 1),
    )
}
