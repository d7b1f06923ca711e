//! The whole way of one import: choose, fetch, write, look, rename.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use disk::{Checkpoint, Contents, FileSink, Layer, Progress, Sniffed};
use oci::{Client, Image, Keyring, WebFile};
use platform::{Descriptor, Digest, Platform, Source};
use serde::Serialize;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::choose::{Chosen, OS, choose, malformed};
use crate::error::Error;
use crate::mounted::{self, Mounted};
use crate::target::{self, Target};
use crate::web::{self, Found, WebOptions};

/// How long a cancelled import may take to end by itself. It may be waiting for a registry.
const GRACE: Duration = Duration::from_secs(3);

/// Labels of images that are installed instead of copied.
const BOOTABLE: [&str; 2] = ["containers.bootc", "ostree.bootable"];

/// What becomes of a file that was not finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Unfinished {
    /// It goes.
    #[default]
    Remove,
    /// It stays under `NAME.part`, and the next import of the same image goes on with it if it can; so
    /// does that of a file on a web server which is still of the same version.
    Keep,
}

/// What to import, and where to.
#[derive(Debug, Clone)]
pub struct Request {
    /// The image.
    pub source: Source,
    /// For registries.
    pub client: Client,
    /// Credentials for them.
    pub keyring: Arc<Keyring>,
    /// The architecture, by any of its names.
    pub architecture: String,
    /// A file or a block device.
    pub target: PathBuf,
    /// The largest disk that is wanted.
    pub limit: Option<u64>,
    /// Whether something that is there may go. A device always is.
    pub overwrite: bool,
    /// What becomes of the file if this fails.
    pub unfinished: Unfinished,
    /// Whether a disk that boots on another architecture is refused.
    pub sniff: bool,
    /// How to decode.
    pub options: disk::Options,
    /// What is known of the file, if it is one on a web server.
    pub web: WebOptions,
    /// The folder with all files of the image, if a node has pulled it: nobody else is asked for it.
    pub mounted: Option<PathBuf>,
}

impl Request {
    /// A request with the usual values: nothing is overwritten, nothing unfinished stays, and the
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

/// Who looks on.
pub trait Watch: Send {
    /// Told once, when it is known which image it is.
    fn chosen(&mut self, _chosen: &Chosen) {}

    /// Told once instead, when it is a file on a web server.
    fn found(&mut self, _found: &Found) {}

    /// Told once instead, when a node has pulled the image.
    fn mounted(&mut self, _mounted: &Mounted) {}

    /// Told some times a second. Breaking cancels the import.
    fn progress(&mut self, _progress: &Progress) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

/// Nobody looks on.
impl Watch for () {}

/// A disk that is complete, verified, durable, and has its name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Imported {
    /// The image.
    pub source: Source,
    /// What stands under its name.
    pub index_digest: Digest,
    /// The manifest of the architecture; for a file on a web server, all of it.
    pub digest: Digest,
    /// What that is for.
    pub platform: Platform,
    /// Where the disk is.
    pub target: PathBuf,
    /// Whether an earlier import was gone on with.
    pub resumed: bool,
    /// The disk.
    #[serde(flatten)]
    pub disk: disk::Imported,
    /// What the disk says of its architecture, if it was looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sniffed: Option<Sniffed>,
}

/// Imports the disk of one architecture. When `stop` is ready, or this is dropped, the import is
/// cancelled.
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
    // Before anything is asked for.
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
    // Not one of the runtime's threads: it may wait for a registry, and the runtime would wait for it.
    std::thread::Builder::new()
        .name("import".to_owned())
        .spawn(move || {
            // Whoever does not wait does not want to know.
            let _ = sender.send(job.run(watch));
        })
        .map_err(|error| Error::Thread {
            image: name.clone(),
            why: format!("a thread cannot be started: {error}"),
        })?;
    let ended = |outcome: Result<Result<Imported, Error>, _>| {
        outcome.unwrap_or_else(|_| {
            Err(Error::Thread {
                image: name.clone(),
                why: "its thread ended without a word".to_owned(),
            })
        })
    };
    tokio::select! {
        outcome = &mut receiver => return ended(outcome),
        () = &mut stop => stopped.store(true, Ordering::Relaxed),
    }
    if let Ok(outcome) = tokio::time::timeout(GRACE, receiver).await {
        return ended(outcome);
    }
    // It holds the lock still, so that this is the file of nobody else.
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

/// Where the bytes are.
enum Prepared {
    Image(Image, Box<Chosen>),
    File(Found),
    Mounted(Mounted),
}

async fn prepare(request: &Request, name: &str) -> Result<Prepared, Error> {
    if let Some(root) = &request.mounted {
        return Ok(Prepared::Mounted(mounted::look(root, name)?));
    }
    let keyring = Arc::clone(&request.keyring);
    if let Source::Web(address) = &request.source {
        let found = web::look(&request.client, address, &keyring, &request.web).await?;
        return Ok(Prepared::File(found));
    }
    let image = Image::open(&request.source, &request.client, keyring).await?;
    let chosen = choose(&image, name, &request.architecture).await?;
    let labels = &chosen.config.labels;
    if let Some(label) = BOOTABLE
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

/// The layers as `disk` knows them, base first.
fn layers(name: &str, chosen: &Chosen) -> Result<Vec<Layer>, Error> {
    Ok(chosen
        .manifest
        .layers_of(&chosen.config)
        .map_err(|source| malformed(name, &chosen.digest, source))?
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

/// Layers from an image, for code that blocks.
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
        Ok(Box::new(Stoppable {
            reader,
            stopped: Arc::clone(&self.stopped),
        }))
    }

    fn verifies(&self) -> bool {
        true
    }
}

/// Bytes that nobody may want any more.
pub(crate) struct Stoppable<R> {
    pub(crate) reader: R,
    pub(crate) stopped: Arc<AtomicBool>,
}

impl<R: Read> Read for Stoppable<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.stopped.load(Ordering::Relaxed) {
            return Err(io::Error::other("nobody wants it any more"));
        }
        self.reader.read(buffer)
    }
}

/// What is done in a thread of its own.
struct Job {
    name: String,
    request: Request,
    /// Of what stands under the name, and of the image for the architecture; a file has neither.
    digests: Option<(Digest, Digest)>,
    /// By what half a disk is known to be of the same; none if nobody can tell.
    unfinished: Option<Digest>,
    platform: Platform,
    layers: Vec<Layer>,
    bytes: Box<dyn disk::Source + Send>,
    stopped: Arc<AtomicBool>,
}

impl Job {
    /// Tells who looks on what was found, and prepares to read it.
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
                    // Nothing but the disk itself could say something else.
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
                    // The node pulls for itself.
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
        let mut onlooker = Onlooker {
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
                &mut onlooker,
            )
        };
        let mut outcome = run(checkpoint);
        if matches!(outcome, Err(disk::Error::Checkpoint { .. })) {
            resumed = false;
            outcome = run(None);
        }
        let disk = outcome.map_err(|error| {
            if error.is_final() {
                // Whatever was saved would fail again: what was wrong may be in it.
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
                self.look(&mut sink, disk.size)
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

    /// Looks at what is on the disk, and refuses it if that boots on other machines only.
    fn look(&self, sink: &mut FileSink, size: u64) -> Result<Sniffed, Error> {
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

/// Passes on what is told, and saves checkpoints.
struct Onlooker<'a> {
    watch: Box<dyn Watch>,
    target: &'a Target,
    /// By what it is known what can be gone on with.
    unfinished: Option<&'a Digest>,
    stopped: &'a AtomicBool,
    start: Instant,
}

impl disk::Watch for Onlooker<'_> {
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
