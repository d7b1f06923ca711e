//! Image pulls through the CRI, compared with other tools that unpack an image from the same
//! registry.
//!
//! The reference is containerd's `ctr`, where containerd is installed and can be started, else
//! `skopeo copy` to a layout and `tar` for each layer; the report names which. Both sides
//! alternate, and the best run of each counts. Medley verifies every layer twice, compressed and
//! uncompressed.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use cri::api::ImageSpec;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;
use testkit::{CriClient, Layout, Process, Registry, Tar, wait_until};

use crate::images::image;
use crate::report::Report;

/// Budget in percent of the reference's time.
const TIME_BUDGET_PERCENT: f64 = 100.0;
/// Timeout for a server to start.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// Size of a file in bytes.
const FILE: usize = 32 << 10;
/// Media type of a layer.
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

/// Size of the benchmark.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    /// Total size of the files in bytes.
    pub(crate) bytes: usize,
    /// Number of layers.
    pub(crate) layers: usize,
    /// Number of pulls per side.
    pub(crate) pulls: usize,
}

/// Measures pulls.
pub(crate) async fn measure(binary: &Path, size: Size, report: &mut Report) -> anyhow::Result<()> {
    let registry = Registry::start().await?;
    let folder = TempDir::new().context("making a folder")?;
    push(&registry, folder.path(), size)?;
    let name = format!("{}/bench:1", registry.host());
    let ours = Ours::start(binary, folder.path(), &registry.host()).await?;
    let theirs = Theirs::start(folder.path()).await?;
    report.column("medley");
    report.column(theirs.name());
    let (mut best, mut other) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..size.pulls.max(1) {
        best = best.min(ours.pull(&name).await?);
        other = other.min(theirs.pull(&name, folder.path())?);
    }
    let row = format!("pull of {} MiB", size.bytes >> 20);
    report.less_is_better(&row, "s", best);
    report.less_is_better(&row, "s", other);
    report.at_most(
        TIME_BUDGET_PERCENT,
        "of their time",
        "%",
        best / other * 100.0,
    );
    Ok(())
}

/// Pushes an image whose files compress to a third, as programs and texts do.
fn push(registry: &Registry, folder: &Path, size: Size) -> anyhow::Result<()> {
    let mut layout = Layout::new(&folder.join("layout"))?;
    let mut dice = 0x2545_f491_4f6c_dd1d_u64;
    let mut roll = move || {
        dice ^= dice << 13;
        dice ^= dice >> 7;
        dice ^= dice << 17;
        dice
    };
    let (mut blobs, mut diff_ids): (Vec<Value>, Vec<String>) = (Vec::new(), Vec::new());
    let layers = size.layers.max(1);
    for layer in 0..layers {
        let mut tar = Tar::new();
        for file in 0..size.bytes / layers / FILE {
            let mut content = Vec::with_capacity(FILE);
            while content.len() < FILE {
                let word = (roll() % 4096).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                content.extend(word.to_le_bytes());
            }
            let path = format!("layer-{layer}/folder-{}/file-{file}", file % 16);
            tar = tar.file(&path, 0o644, content);
        }
        let bytes = tar.finish();
        let mut diff_id = "sha256:".to_owned();
        for byte in Sha256::digest(&bytes) {
            write!(diff_id, "{byte:02x}")?;
        }
        diff_ids.push(diff_id);
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(5));
        packed.write_all(&bytes).context("packing a layer")?;
        blobs.push(layout.blob(LAYER, &packed.finish().context("packing a layer")?)?);
    }
    let made = image(&layout, "amd64", &blobs, &diff_ids)?;
    layout.name("bench", &made)?;
    registry.push(&layout.source("bench"), "bench:1")
}

/// The released binary.
struct Ours {
    _process: Process,
    client: CriClient,
}

impl Ours {
    async fn start(binary: &Path, folder: &Path, host: &str) -> anyhow::Result<Self> {
        let place = folder.join("ours");
        std::fs::create_dir(&place).context("making a folder")?;
        let socket = place.join("cri.sock");
        let (listen, root) = (text(&socket)?, place.join("store"));
        let root = text(&root)?;
        let words = [
            "cri",
            "--listen",
            &listen,
            "--root",
            &root,
            "--insecure",
            host,
            "--platform",
            "linux/amd64",
        ];
        let process = Process::start(binary, words, &place)?;
        wait_until("the image service is ready", START_TIMEOUT, async || {
            Ok(process.output().contains("ready").then_some(()))
        })
        .await?;
        Ok(Self {
            _process: process,
            client: CriClient::new(&socket),
        })
    }

    /// Duration of a pull in seconds; the image is removed afterwards.
    async fn pull(&self, name: &str) -> anyhow::Result<f64> {
        let spec = ImageSpec {
            image: name.to_owned(),
            ..ImageSpec::default()
        };
        let started = Instant::now();
        self.client.pull(spec.clone(), None).await?;
        let took = started.elapsed().as_secs_f64();
        self.client.remove(spec).await?;
        Ok(took)
    }
}

/// The reference tools.
enum Theirs {
    Containerd { _process: Process, socket: PathBuf },
    Skopeo,
}

impl Theirs {
    async fn start(folder: &Path) -> anyhow::Result<Self> {
        let found = |program: &str| {
            let shown = Command::new(program).arg("--version").output();
            shown.is_ok_and(|shown| shown.status.success())
        };
        if !found("ctr") || !found("containerd") {
            return Ok(Self::Skopeo);
        }
        let place = folder.join("theirs");
        std::fs::create_dir(&place).context("making a folder")?;
        let socket = place.join("containerd.sock");
        let (address, root) = (text(&socket)?, text(&place.join("root"))?);
        let state = text(&place.join("state"))?;
        let words = ["--address", &address, "--root", &root, "--state", &state];
        let process = Process::start(Path::new("containerd"), words, &place)?;
        wait_until("containerd listens", START_TIMEOUT, async || {
            Ok(socket.exists().then_some(()))
        })
        .await?;
        Ok(Self::Containerd {
            _process: process,
            socket,
        })
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Containerd { .. } => "containerd's ctr",
            Self::Skopeo => "no ctr: skopeo, tar",
        }
    }

    fn pull(&self, name: &str, folder: &Path) -> anyhow::Result<f64> {
        match self {
            Self::Containerd { socket, .. } => {
                let address = text(socket)?;
                let ctr = |words: &[&str]| {
                    let mut command = Command::new("ctr");
                    command.args(["--address", &address]).args(words);
                    run(&mut command)
                };
                let started = Instant::now();
                ctr(&[
                    "images",
                    "pull",
                    "--plain-http",
                    "--platform",
                    "linux/amd64",
                    name,
                ])?;
                let took = started.elapsed().as_secs_f64();
                ctr(&["images", "remove", "--sync", name])?;
                Ok(took)
            }
            Self::Skopeo => {
                let place = TempDir::new_in(folder).context("making a folder")?;
                let layout = place.path().join("layout");
                let to = format!("oci:{}:it", text(&layout)?);
                let from = format!("docker://{name}");
                let rootfs = place.path().join("rootfs");
                std::fs::create_dir(&rootfs).context("making a folder")?;
                let started = Instant::now();
                let mut copy = Command::new("skopeo");
                copy.args([
                    "--insecure-policy",
                    "copy",
                    "--quiet",
                    "--src-tls-verify=false",
                ]);
                run(copy.args([&from, &to]))?;
                for layer in layers(&layout)? {
                    let mut tar = Command::new("tar");
                    run(tar.arg("-C").arg(&rootfs).arg("-xzf").arg(layer))?;
                }
                Ok(started.elapsed().as_secs_f64())
            }
        }
    }
}

/// The layers of the only image of a layout, the lowest first.
fn layers(layout: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let read = |path: PathBuf| -> anyhow::Result<Value> {
        let bytes = std::fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
        serde_json::from_slice(&bytes).context("reading a layout")
    };
    let blob = |descriptor: &Value| {
        let digest = descriptor["digest"].as_str().unwrap_or_default();
        layout.join("blobs").join(digest.replace(':', "/"))
    };
    let index = read(layout.join("index.json"))?;
    let manifest = read(blob(&index["manifests"][0]))?;
    let layers = manifest["layers"].as_array().context("no layers")?;
    Ok(layers.iter().map(blob).collect())
}

fn run(command: &mut Command) -> anyhow::Result<()> {
    let output = command
        .output()
        .with_context(|| format!("starting {}", command.get_program().display()))?;
    let error_output = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {error_output}");
    Ok(())
}

fn text(path: &Path) -> anyhow::Result<String> {
    let text = path.to_str().context("a path that is no text")?;
    Ok(text.to_owned())
}
