//! One import from start to end: choose, fetch, write, check, rename.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use disk::{Checkpoint, Contents, FileSink, Layer, Progress, Sniffed};
use oci::resolve::{Chosen, OS, choose};
use oci::{Client, Image, Keyring, WebFile};
use platform::{Descriptor, Digest, Platform, Source};
use serde::Serialize;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::error::Error;
use crate::mounted::{self, Mounted};
use crate::target::{self, Target};
use crate::web::{self, Found, WebOptions};

/// How long a cancelled import may take to end by itself; it may be waiting for a registry.
// Short against the 30 seconds that kubelet waits after SIGTERM. The thread cannot be killed; if it does not end, it
// is abandoned with the process.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(3);

/// Labels of bootc images, which are installed instead of copied.
const BOOTC_LABELS: [&str; 2] = ["containers.bootc", "ostree.bootable"];

/// What happens to an unfinished file when an import fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Unfinished {
    /// It is removed.
    #[default]
    Remove,
    /// It stays as `NAME.part`, and the next import of the same image, or of the same version of a web
    /// file, resumes it if possible.
    Keep,
}

/// The parameters of an import.
#[derive(Debug, Clone)]
pub struct Request {
    /// The image or file.
    pub source: Source,
    /// The client for registries and web servers.
    pub client: Client,
    /// Registry credentials.
    pub keyring: Arc<Keyring>,
    /// The architecture, by any of its names (`amd64`, `x86_64`).
    pub architecture: String,
    /// The path of a file or block device.
    pub target: PathBuf,
    /// The largest accepted disk in bytes.
    pub limit: Option<u64>,
    /// Whether an existing target may be overwritten. A block device always is.
    pub overwrite: bool,
    /// What happens to the file if the import fails.
    pub unfinished: Unfinished,
    /// Whether a disk that boots on another architecture is rejected.
    pub sniff: bool,
    /// Options of decoding.
    pub options: disk::Options,
    /// Options of a file on a web server.
    pub web: WebOptions,
    /// The folder with the image's files, if a node has mounted it; no registry is contacted then.
    pub mounted: Option<PathBuf>,
}

impl Request {
    /// A request with the defaults: nothing is overwritten, unfinished files are removed, and the
    /// architecture of the disk is checked.
    pub fn new(source: Source, client: Client, architecture: &str, target: PathBuf) -> Self {
        Self {
            source,
            client,
            keyring: Arc::new(Keyring::anonymous()),
            architecture: architecture.to_owned(),
            target,
            limit: None,
            overwrite: false,
            unfinished: Unfinished::default(),
            sniff: true,
            options: disk::Options::default(),
            web: WebOptions::default(),
            mounted: None,
        }
    }
}

/// Observes an import.
pub trait Watch: Send {
    /// Called once, when the image has been chosen.
    fn chosen(&mut self, _chosen: &Chosen) {}

    /// Called once instead, for a file on a web server.
    fn found(&mut self, _found: &Found) {}

    /// Called once instead, for an image mounted by a node.
    fn mounted(&mut self, _mounted: &Mounted) {}

    /// Called a few times a second. `Break` cancels the import.
    fn progress(&mut self, _progress: &Progress) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

/// No observer.
impl Watch for () {}

/// A disk that is complete, verified, durable, and renamed to its target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Imported {
    /// The image.
    pub source: Source,
    /// The digest the image name resolves to.
    pub index_digest: Digest,
    /// The digest of the architecture's manifest; for a file on a web server, of its bytes.
    pub digest: Digest,
    /// The platform of that manifest.
    pub platform: Platform,
    /// The path of the disk.
    pub target: PathBuf,
    /// Whether an earlier import was resumed.
    pub resumed: bool,
    /// The disk.
    #[serde(flatten)]
    pub disk: disk::Imported,
    /// The architecture found on the disk, if it was checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sniffed: Option<Sniffed>,
}

/// Imports the disk of one architecture. The import is cancelled when `stop` completes or the future is
/// dropped.
pub async fn import(
    request: Request,
    watch: impl Watch + 'static,
    stop: impl Future<Output = ()>,
) -> Result<Imported, Error> {
    let mut watch: Box<dyn Watch> = Box::new(watch);
    let mut stop = pin!(stop);
    let name = request.source.to_string();
    let cancelled = || Error::Cancelled {
        image: name.clone(),
    };
    // Check the target before any request is sent.
    // Checked again when the file is opened, as it may appear in between; here it saves the
    // user a download that could never be stored.
    target::check(&request.target, request.overwrite)?;
    let prepared = tokio::select! {
        prepared = prepare(&request, &name) => prepared?,
        () = &mut stop => return Err(cancelled()),
    };
    let (path, remove) = (
        request.target.clone(),
        request.unfinished == Unfinished::Remove,
    );
    let stopped = Arc::new(AtomicBool::new(false));
    let _guard = StopOnDrop(Arc::clone(&stopped));
    let job = Job::new(request, name.clone(), prepared, &mut *watch, &stopped)?;
    let (sender, mut receiver) = oneshot::channel();
    // A thread of its own, not the runtime's blocking pool: it may wait for a registry, and the runtime
    // would wait for it on shutdown.
    std::thread::Builder::new()
        .name("import".to_owned())
        .spawn(move || {
            // The receiver is dropped if the import was cancelled.
            let _ = sender.send(job.run(watch));
        })
        .map_err(|error| Error::Thread {
            image: name.clone(),
            why: format!("cannot start a thread: {error}"),
        })?;
    let ended = |outcome: Result<Result<Imported, Error>, _>| {
        outcome.unwrap_or_else(|_| {
            Err(Error::Thread {
                image: name.clone(),
                why: "the import thread ended without a result".to_owned(),
            })
        })
    };
    tokio::select! {
        outcome = &mut receiver => return ended(outcome),
        () = &mut stop => stopped.store(true, Ordering::Relaxed),
    }
    if let Ok(outcome) = tokio::time::timeout(CANCEL_TIMEOUT, receiver).await {
        return ended(outcome);
    }
    // This import still holds the lock, so the file is its own.
    if remove {
        target::discard(&path);
    }
    Err(cancelled())
}

struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The source of the bytes.
enum Prepared {
    Image(Image, Box<Chosen>),
    File(Found),
    Mounted(Mounted),
}

async fn prepare(request: &Request, name: &str) -> Result<Prepared, Error> {
    if let Some(root) = &request.mounted {
        return Ok(Prepared::Mounted(mounted::find_disk(root, name)?));
    }
    let keyring = Arc::clone(&request.keyring);
    if let Source::Web(address) = &request.source {
        let found = web::look(&request.client, address, &keyring, &request.web).await?;
        return Ok(Prepared::File(found));
    }
    let image = Image::open(&request.source, &request.client, keyring).await?;
    let chosen = choose(&image, name, &request.architecture).await?;
    let labels = &chosen.config.labels;
    // CDI refuses bootc images as well. A bootc image has no `/disk`, and without this the user would read about a
    // missing disk in an image that boots.
    if let Some(label) = BOOTC_LABELS
        .into_iter()
        .find(|label| labels.get(*label).is_some_and(|value| value == "1"))
    {
        return Err(Error::Bootable {
            image: name.to_owned(),
            label: format!("{label}=1"),
        });
    }
    Ok(Prepared::Image(image, Box::new(chosen)))
}

/// The layers for `disk`, base first.
fn layers(name: &str, chosen: &Chosen) -> Result<Vec<Layer>, Error> {
    Ok(chosen
        .layers(name)?
        .map(|(layer, diff_id)| Layer {
            digest: layer.digest.clone(),
            is_verified: true,
            size: Some(layer.size),
            diff_id: Some(diff_id.clone()),
            contents: Contents::of_media_type(layer.media_type.as_str()),
        })
        .collect())
}

fn descriptors(chosen: &Chosen) -> BTreeMap<String, Descriptor> {
    let layers = chosen.manifest.layers.iter();
    layers
        .map(|layer| (layer.digest.to_string(), layer.clone()))
        .collect()
}

pub(crate) fn failed(name: &str, source: disk::Error) -> Error {
    Error::Disk {
        image: name.to_owned(),
        source: source.into(),
    }
}

/// Layers of an image, for blocking code.
struct Blobs {
    image: Image,
    runtime: Handle,
    stopped: Arc<AtomicBool>,
    descriptors: BTreeMap<String, Descriptor>,
}

impl disk::Source for Blobs {
    fn open(&mut self, layer: &Layer, offset: u64) -> io::Result<Box<dyn Read + Send>> {
        let descriptor = self.descriptors.get(&layer.digest.to_string());
        let descriptor = descriptor.ok_or(io::ErrorKind::NotFound)?;
        let reader = self.image.reader(descriptor, offset, self.runtime.clone());
        Ok(Box::new(Cancellable {
            reader,
            stopped: Arc::clone(&self.stopped),
        }))
    }

    fn verifies(&self) -> bool {
        true
    }
}

/// A reader that fails once the import is cancelled.
pub(crate) struct Cancellable<R> {
    pub(crate) reader: R,
    pub(crate) stopped: Arc<AtomicBool>,
}

impl<R: Read> Read for Cancellable<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.stopped.load(Ordering::Relaxed) {
            return Err(io::Error::other("cancelled"));
        }
        self.reader.read(buffer)
    }
}

/// The part of an import that runs in a thread of its own.
struct Job {
    name: String,
    request: Request,
    /// The digests of the index and of the manifest; `None` for a file.
    digests: Option<(Digest, Digest)>,
    /// The identity by which the import can be resumed; `None` if it cannot.
    unfinished: Option<Digest>,
    platform: Platform,
    layers: Vec<Layer>,
    bytes: Box<dyn disk::Source + Send>,
    stopped: Arc<AtomicBool>,
}

impl Job {
    /// Notifies the observer of the image found, and prepares to read it.
    fn new(
        request: Request,
        name: String,
        prepared: Prepared,
        watch: &mut dyn Watch,
        stopped: &Arc<AtomicBool>,
    ) -> Result<Self, Error> {
        let stopped = Arc::clone(stopped);
        let runtime = Handle::current();
        Ok(match prepared {
            Prepared::Image(image, chosen) => {
                watch.chosen(&chosen);
                Self {
                    layers: layers(&name, &chosen)?,
                    bytes: Box::new(Blobs {
                        image,
                        runtime,
                        stopped: Arc::clone(&stopped),
                        descriptors: descriptors(&chosen),
                    }),
                    unfinished: Some(chosen.digest.clone()),
                    digests: Some((chosen.root, chosen.digest)),
                    platform: chosen.platform,
                    name,
                    request,
                    stopped,
                }
            }
            Prepared::File(found) => {
                watch.found(&found);
                Self {
                    layers: vec![found.layer()],
                    unfinished: found.unfinished(),
                    bytes: Box::new(web::Bytes {
                        client: request.client.clone(),
                        file: WebFile {
                            address: found.address,
                            headers: request.web.headers.clone(),
                        },
                        version: found.version,
                        keyring: Arc::clone(&request.keyring),
                        runtime,
                        stopped: Arc::clone(&stopped),
                    }),
                    digests: None,
                    // A file has no metadata; only the disk itself could contradict this.
                    platform: Platform::new(OS, &request.architecture),
                    name,
                    request,
                    stopped,
                }
            }
            Prepared::Mounted(mounted) => {
                watch.mounted(&mounted);
                Self {
                    layers: vec![mounted.layer()],
                    unfinished: None,
                    bytes: Box::new(mounted::Bytes {
                        path: mounted.path,
                        stopped: Arc::clone(&stopped),
                    }),
                    digests: None,
                    // The node pulls the image for its own platform.
                    platform: Platform::new(OS, &request.architecture),
                    name,
                    request,
                    stopped,
                }
            }
        })
    }

    fn run(mut self, watch: Box<dyn Watch>) -> Result<Imported, Error> {
        let target = Target::open(
            &self.request.target,
            self.request.overwrite,
            self.request.unfinished == Unfinished::Remove,
        )?;
        let opening = |source| Error::File {
            operation: "opening",
            path: self.request.target.clone(),
            source,
        };
        let mut sink = FileSink::new(target.file()?, self.request.limit).map_err(opening)?;
        let unfinished = self.unfinished.as_ref();
        let mut checkpointing = CheckpointingWatch {
            watch,
            target: &target,
            unfinished,
            stopped: &self.stopped,
            start: Instant::now(),
        };
        let checkpoint = unfinished.and_then(|of| target.saved(of));
        let mut resumed = checkpoint.is_some();
        let mut run = |checkpoint| {
            disk::import(
                &self.layers,
                &mut *self.bytes,
                &mut sink,
                &self.request.options,
                checkpoint,
                &mut checkpointing,
            )
        };
        let mut outcome = run(checkpoint);
        // Once, from the beginning: the checkpoint was written for other layers or by an older version.
        if matches!(outcome, Err(disk::Error::Checkpoint { .. })) {
            resumed = false;
            outcome = run(None);
        }
        let disk = outcome.map_err(|error| {
            if error.is_final() {
                // Do not resume from this checkpoint: the saved data may be the fault.
                target.forget();
            }
            if self.stopped.load(Ordering::Relaxed) || matches!(error, disk::Error::Cancelled) {
                return Error::Cancelled {
                    image: self.name.clone(),
                };
            }
            failed(&self.name, error)
        })?;
        let sniffed = if self.request.sniff {
            Some(
                self.check_architecture(&mut sink, disk.size)
                    .inspect_err(|_| target.forget())?,
            )
        } else {
            None
        };
        let (index_digest, digest) = if let Some(digests) = self.digests.take() {
            digests
        } else {
            (disk.layer.clone(), disk.layer.clone())
        };
        // After the architecture check: the final name must never refer to a disk that was refused.
        target.finish()?;
        Ok(Imported {
            source: self.request.source,
            index_digest,
            digest,
            platform: self.platform,
            target: self.request.target,
            resumed,
            disk,
            sniffed,
        })
    }

    /// Detects the architecture of the disk, and rejects the disk if it boots on others only.
    fn check_architecture(&self, sink: &mut FileSink, size: u64) -> Result<Sniffed, Error> {
        let sniffed = disk::sniff(sink, size).map_err(|error| failed(&self.name, error))?;
        let wanted = self.platform.normalised().architecture;
        if sniffed.boots_on(&wanted) != Some(false) {
            return Ok(sniffed);
        }
        let found: Vec<&str> = sniffed.architectures.iter().copied().collect();
        let why: Vec<&str> = sniffed.findings.iter().map(|it| it.why.as_str()).collect();
        Err(Error::Architecture {
            image: self.name.clone(),
            wanted,
            found: found.join(", "),
            why: why.join("; "),
        })
    }
}

/// Forwards progress to the observer, and saves checkpoints.
struct CheckpointingWatch<'a> {
    watch: Box<dyn Watch>,
    target: &'a Target,
    /// The identity checkpoints are saved under.
    unfinished: Option<&'a Digest>,
    stopped: &'a AtomicBool,
    start: Instant,
}

impl disk::Watch for CheckpointingWatch<'_> {
    fn now(&mut self) -> Duration {
        self.start.elapsed()
    }

    fn progress(&mut self, progress: &Progress) -> ControlFlow<()> {
        if self.stopped.load(Ordering::Relaxed) {
            return ControlFlow::Break(());
        }
        self.watch.progress(progress)
    }

    fn checkpoint(&mut self, checkpoint: Checkpoint) {
        if let Some(of) = self.unfinished {
            self.target.save(of, checkpoint);
        }
    }
}
