//! Boot images: imports compared with today's tools, image inspection, registry polls, decisions
//! for a large cluster, and convergence of one.
//!
//! The disk is a qcow2 image in a layer of a local registry. The reference is what importers do
//! today: `skopeo copy`, `tar`, `qemu-img convert`, each with a file for the next; the last one
//! flushes its output, as Medley does. Both sides alternate, and the best run of each counts.

mod cluster;
mod converge;
mod cost;
mod decide;
mod disk;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use oci::{Client, Freshness, Image, Keyring, Roots, Routes, Settings};
use platform::{Discovery, DiscoveryStep, Source, document};
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::{Layout, Registry};

use crate::report::Report;
use crate::target::Target;
use cost::Cost;
use disk::Layer;

/// Budget in percent of the reference's time.
const TIME_BUDGET_PERCENT: f64 = 60.0;
/// Budget of memory, in MiB.
const MEMORY_BUDGET_MIB: f64 = 64.0;
/// Budget of scratch space besides the disk, in MiB.
const SCRATCH_BUDGET_MIB: f64 = 0.0;
/// Number of image inspections.
const INSPECTIONS: usize = 20;
/// Time the registry may take to log a request.
const LOG_DELAY: Duration = Duration::from_millis(200);

/// Size of the benchmark.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    /// Size of the disk in bytes.
    pub(crate) disk: u64,
    /// Number of imports per side.
    pub(crate) imports: usize,
    /// Number of images.
    pub(crate) images: usize,
    /// Number of nodes.
    pub(crate) nodes: usize,
}

/// Runs all measurements.
pub(crate) async fn measure(binary: &Path, size: Size, report: &mut Report) -> anyhow::Result<()> {
    testkit::install_crypto();
    let stage = Stage {
        binary: binary.to_owned(),
        registry: Registry::start().await?,
        folder: TempDir::new().context("making a folder")?,
    };
    report.column("medley");
    report.column("skopeo, tar, qemu-img");
    stage.imports(size, report)?;
    stage.looks(report)?;
    stage.polls(report).await?;
    decide::measure(size.images, size.nodes, report)?;
    let target = Target::medley(binary).await?;
    converge::measure(&target, size.images, size.nodes, report).await
}

/// Binary, registry and scratch directory of the benchmark.
struct Stage {
    binary: PathBuf,
    registry: Registry,
    folder: TempDir,
}

impl Stage {
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The reference of an image in the registry.
    fn reference(&self, name: &str) -> String {
        format!("docker://{}/{name}", self.registry.host())
    }

    /// A command of the binary that uses the registry.
    fn medley(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.binary);
        command
            .args(words)
            .args(["--insecure", &self.registry.host()]);
        command
    }

    fn imports(&self, size: Size, report: &mut Report) -> anyhow::Result<()> {
        let raw = disk::raw(&self.path("disk.raw"), size.disk)?;
        for layer in Layer::ALL {
            let name = format!("disks/{}:1", layer.name());
            self.push(&raw, layer, &name)?;
            let (mut ours, mut theirs) = (Vec::new(), Vec::new());
            for _ in 0..size.imports {
                ours.push(self.import(&name, &raw)?);
                theirs.push(self.convert(&name)?);
            }
            let (ours, theirs) = (Cost::best(&ours), Cost::best(&theirs));
            let row = |what: &str| format!("{}: {what}", layer.name());
            report.less_is_better(&row("import"), "s", ours.seconds);
            report.less_is_better(&row("import"), "s", theirs.seconds);
            let share = ours.seconds / theirs.seconds * 100.0;
            report.at_most(TIME_BUDGET_PERCENT, &row("of their time"), "%", share);
            report.at_most(MEMORY_BUDGET_MIB, &row("memory"), "MiB", ours.memory);
            report.at_most(
                SCRATCH_BUDGET_MIB,
                &row("scratch space"),
                "MiB",
                ours.scratch,
            );
        }
        std::fs::remove_file(raw).context("removing the disk")
    }

    /// Builds an image of a disk, and pushes it.
    fn push(&self, raw: &Path, layer: Layer, name: &str) -> anyhow::Result<()> {
        let made = TempDir::new_in(self.folder.path()).context("making a folder")?;
        let packed = disk::layer(raw, layer, made.path())?;
        let mut layout = Layout::new(&made.path().join("layout"))?;
        let blob = layout.blob(layer.media_type(), &std::fs::read(&packed.file)?)?;
        let image = image(&layout, "amd64", &[blob], &[packed.diff_id])?;
        let index = layout.index(&[image])?;
        layout.name("disk", &index)?;
        self.registry.push(&layout.source("disk"), name)
    }

    fn import(&self, name: &str, raw: &Path) -> anyhow::Result<Cost> {
        let folder = TempDir::new_in(self.folder.path()).context("making a folder")?;
        let target = folder.path().join("disk.raw");
        let to = target.display().to_string();
        let reference = self.reference(name);
        let words = [
            "images", "import", &reference, "--arch", "amd64", "--to", &to,
        ];
        let mut cost = Cost::default();
        let mut command = self.medley(&words);
        // Scratch files would be in this directory or next to the target.
        cost.add(command.env("TMPDIR", folder.path()), &target)?;
        let same = Command::new("cmp").arg(&target).arg(raw).status();
        anyhow::ensure!(same.context("starting cmp")?.success(), "another disk");
        Ok(cost)
    }

    fn convert(&self, name: &str) -> anyhow::Result<Cost> {
        let folder = TempDir::new_in(self.folder.path()).context("making a folder")?;
        let path = |name: &str| folder.path().join(name);
        let target = path("disk.raw");
        let mut cost = Cost::default();
        let mut skopeo = Command::new("skopeo");
        skopeo
            .args(["--insecure-policy", "--override-arch", "amd64", "copy"])
            .args(["--quiet", "--src-tls-verify=false", &self.reference(name)])
            .arg(format!("dir:{}", path("image").display()))
            .env("TMPDIR", folder.path());
        cost.add(&mut skopeo, &target)?;
        let manifest = std::fs::read(path("image/manifest.json")).context("reading a manifest")?;
        let manifest: Value = serde_json::from_slice(&manifest).context("reading a manifest")?;
        let digest = manifest["layers"][0]["digest"].as_str().unwrap_or_default();
        let blob = digest.rsplit(':').next().unwrap_or_default();
        let mut tar = Command::new("tar");
        tar.arg("-xf").arg(path("image").join(blob));
        cost.add(tar.arg("-C").arg(folder.path()), &target)?;
        let mut qemu = Command::new("qemu-img");
        qemu.args(["convert", "-f", "qcow2", "-O", "raw", "-t", "writeback"]);
        qemu.arg(path("disk/disk.img")).arg(&target);
        cost.add(&mut qemu, &target)?;
        Ok(cost)
    }

    /// Pushes an index of small images for three architectures.
    fn push_index(&self, name: &str, arm64: &str) -> anyhow::Result<()> {
        let folder = TempDir::new_in(self.folder.path()).context("making a folder")?;
        let mut layout = Layout::new(folder.path())?;
        let mut images = Vec::new();
        for (architecture, content) in [("amd64", "1"), ("arm64", arm64), ("s390x", "1")] {
            let labels = json!({ "version": content });
            images.push(layout.image(architecture, &[content.as_bytes()], &labels)?);
        }
        let index = layout.index(&images)?;
        layout.name("index", &index)?;
        self.registry.push(&layout.source("index"), name)
    }

    /// Number of requests to the registry since `before`.
    fn counted(&self, before: usize) -> anyhow::Result<f64> {
        // The registry logs requests after it has answered them.
        std::thread::sleep(LOG_DELAY);
        let count = self.registry.requests().len() - before;
        Ok(f64::from(u32::try_from(count)?))
    }

    fn looks(&self, report: &mut Report) -> anyhow::Result<()> {
        self.push_index("small:1", "1")?;
        let reference = self.reference("small:1");
        let mut ours = self.medley(&["image", "inspect", &reference, "-o", "json"]);
        let mut theirs = Command::new("skopeo");
        theirs.args([
            "--insecure-policy",
            "inspect",
            "--raw",
            "--tls-verify=false",
            &reference,
        ]);
        for command in [&mut ours, &mut theirs] {
            let before = self.registry.requests().len();
            let mut cost = Cost::default();
            cost.add(command, self.folder.path())?;
            report.less_is_better("inspect: requests", "", self.counted(before)?);
        }
        let mut times = [Vec::new(), Vec::new()];
        for _ in 0..INSPECTIONS {
            for (command, times) in [&mut ours, &mut theirs].into_iter().zip(&mut times) {
                times.push(cost::time(command)?.as_secs_f64() * 1e3);
            }
        }
        for mut times in times {
            times.sort_unstable_by(f64::total_cmp);
            let median = times.get(INSPECTIONS / 2).copied().unwrap_or_default();
            report.less_is_better("inspect, p50", "ms", median);
        }
        Ok(())
    }

    /// Polls the digests of all architectures, as a schedule would.
    async fn polls(&self, report: &mut Report) -> anyhow::Result<()> {
        self.push_index("polled:1", "1")?;
        let routes = Routes::direct().with_plain(self.registry.host());
        let client = Client::new(Settings::for_user(Roots::of_system()), routes);
        let source: Source = self.reference("polled:1").parse()?;
        let mut known = BTreeMap::new();
        for (what, budget, changes) in [
            ("poll, 3 architectures: first", 1.0, 3),
            ("poll: nothing is new", 1.0, 0),
            ("poll: one is new", 2.0, 1),
        ] {
            if changes == 1 {
                self.push_index("polled:1", "2")?;
                std::thread::sleep(LOG_DELAY);
            }
            let before = self.registry.requests().len();
            let found = poll(&client, &source).await?;
            report.at_most(budget, what, "requests", self.counted(before)?);
            let new = found
                .iter()
                .filter(|(name, digest)| known.get(*name) != Some(*digest));
            anyhow::ensure!(new.count() == changes, "{what}: {found:?}");
            known = found;
        }
        Ok(())
    }
}

/// Adds an image of existing layers, and returns its descriptor.
pub(crate) fn image(
    layout: &Layout,
    architecture: &str,
    layers: &[Value],
    diff_ids: &[String],
) -> anyhow::Result<Value> {
    let config = json!({
        "architecture": architecture, "os": "linux", "config": {},
        "rootfs": { "type": "layers", "diff_ids": diff_ids },
    });
    let kind = "application/vnd.oci.image.config.v1+json";
    let config = layout.blob(kind, config.to_string().as_bytes())?;
    let kind = "application/vnd.oci.image.manifest.v1+json";
    let manifest = json!({
        "schemaVersion": 2, "mediaType": kind, "config": config, "layers": layers,
    });
    let mut descriptor = layout.blob(kind, manifest.to_string().as_bytes())?;
    descriptor["platform"] = json!({ "architecture": architecture, "os": "linux" });
    Ok(descriptor)
}

/// The digest for each architecture, by one request.
async fn poll(client: &Client, source: &Source) -> anyhow::Result<BTreeMap<String, String>> {
    let image = Image::open(source, client, Arc::new(Keyring::anonymous())).await?;
    let content = image.resolve(Freshness::Now).await?;
    let read = document::read(&content.bytes, content.content_type.as_deref())?;
    match Discovery::new().begin(content.digest.clone(), read) {
        DiscoveryStep::Listed(listing) => Ok(listing
            .by_architecture("linux")
            .into_iter()
            .map(|(name, image)| (name, image.digest.to_string()))
            .collect()),
        DiscoveryStep::Fetch(fetch) => anyhow::bail!("the index does not say: {fetch:?}"),
    }
}
