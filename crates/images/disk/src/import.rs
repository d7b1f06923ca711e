//! The whole way: layers from a registry, one disk on a target.
//!
//! ```text
//! fetch thread    source -> bytes, digest of the layer
//! unpack thread   gzip, zstd, xz
//! hash thread     diff-id
//! this thread     archive -> /disk -> raw or qcow2 -> target, content hash
//! inflate threads compressed clusters
//! ```
//!
//! Everything between two threads is a channel with few places, so memory is bounded, and the slowest
//! part sets the pace. Nothing is on the disk of this machine but the target.
//!
//! What was written is worth nothing before [`import`] returns: only then are the digests of all layers
//! that were read verified. If the content of a layer makes no sense, the rest of it is read to
//! know its digest: a damaged blob is a [`Error::DigestMismatch`] and not a bad image.
//!
//! # Resuming
//!
//! A [`Checkpoint`] has all state at one place of one layer, and is given to [`Watch::checkpoint`] after
//! the target made what was written durable. Decompressors cannot be stored in the middle of a stream,
//! so there are checkpoints only where they have no state: anywhere in a plain layer, between the frames
//! of zstd (`zstd:chunked`, `pzstd`) and the members of gzip (`eStargz`, `bgzip`). Layers of one gzip
//! member, as `docker build` makes them, and disks that are compressed once more inside the layer have
//! none before the layer is over: they start over from the layer's beginning.
//! After resuming, the diff-id is that of the whole layer, as its hash goes on; the digest of the compressed
//! bytes is not known and not checked, which loses nothing, as the diff-id names the same bytes.
//! A layer without a diff-id, as a file on a web server is, has checkpoints only where it is plain: what is
//! in it is then the layer itself, and its hash that goes on is the digest of all of it. The content hash is
//! had by reading the disk back.

mod extract;
mod flow;
mod layer;
mod pool;
#[cfg(test)]
mod tests;

use std::io::{self, Read};
use std::ops::ControlFlow;
use std::time::Duration;

use platform::Digest;
use serde::{Deserialize, Serialize};

use crate::content::ContentHash;
use crate::error::Error;
use crate::image::{self, Format, Image};
use crate::overlay::{Overlay, Verdict};
use crate::progress::{Meter, Progress};
use crate::qcow2::Ended;
use crate::sink::Sink;
use crate::tar::Reader;
use crate::unpack::{Limits, Packing, Windows};

pub use extract::{Extract, extract};

/// What the bytes of a layer are, once unpacked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Contents {
    /// An archive of files.
    Archive,
    /// The disk itself, as OCI artifacts have it.
    Disk,
}

impl Contents {
    /// By the media type: everything is an archive that does not say to be a disk.
    pub fn of_media_type(media_type: &str) -> Self {
        if media_type.starts_with("application/vnd.kubevirt.disk") {
            Self::Disk
        } else {
            Self::Archive
        }
    }
}

/// A layer of an image.
#[derive(Debug, Clone)]
pub struct Layer {
    /// Of the bytes that the source gives.
    pub digest: Digest,
    /// Whether they have to have it. If nobody knows what digest they have, it only names them.
    pub is_verified: bool,
    /// How many they are.
    pub size: Option<u64>,
    /// Of what is in them, if the image says so.
    pub diff_id: Option<Digest>,
    /// What that is.
    pub contents: Contents,
}

/// Where layers come from.
pub trait Source {
    /// The bytes of a layer from `offset` on. Called again for the same layer if another pass is
    /// needed; a source that cannot do that says [`io::ErrorKind::Unsupported`].
    fn open(&mut self, layer: &Layer, offset: u64) -> io::Result<Box<dyn Read + Send>>;

    /// Whether it verifies layers that are read from their beginning by itself: the end is then an error
    /// unless the digest is right. Nobody has to hash twice.
    fn verifies(&self) -> bool {
        false
    }
}

/// Who looks on.
pub trait Watch {
    /// Time since any moment, always the same one.
    fn now(&mut self) -> Duration;

    /// Told some times a second. Breaking ends the import.
    fn progress(&mut self, progress: &Progress) -> ControlFlow<()>;

    /// Told where the import can be resumed after a crash. The one before is of no use any more.
    fn checkpoint(&mut self, checkpoint: Checkpoint);
}

/// How to import.
#[derive(Debug, Clone)]
pub struct Options {
    /// For everything that is unpacked.
    pub limits: Limits,
    /// Threads that decompress clusters; none means that they are decompressed where they are read.
    pub threads: usize,
    /// Bytes of a layer between two checkpoints.
    pub checkpoint_every: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            threads: 2,
            checkpoint_every: 256 << 20,
        }
    }
}

/// Where an import can be resumed. Opaque, and only for the same layers and target.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Checkpoint {
    /// Of all layers, base first.
    layers: Vec<Digest>,
    /// The layer that is being read.
    layer: usize,
    /// Bytes of it that need not be fetched again.
    packed: u64,
    unpacked: u64,
    packing: Packing,
    diff_id: Vec<u8>,
    overlay: Overlay,
    reader: Reader,
    taking: bool,
    image: image::State,
}

impl Checkpoint {
    /// The digest of the layer to go on with, and from which byte of it.
    pub fn place(&self) -> (Option<&Digest>, u64) {
        (self.layers.get(self.layer), self.packed)
    }
}

/// A disk that is complete, verified and durable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Imported {
    /// The digest of the layer that it was in, as computed where nobody knew it before.
    pub layer: Digest,
    /// Its file in `/disk`. As an artifact has no file, it has no name.
    pub path: Option<String>,
    /// In which format it was.
    pub format: Format,
    /// Bytes of the disk.
    pub size: u64,
    /// Bytes that are not zeros, by blocks.
    pub written: u64,
    /// The name of what is on it.
    pub content: ContentHash,
    /// Of what was in the layer, as computed.
    pub diff_id: Digest,
    /// Bytes that came from the source.
    pub fetched: u64,
    /// Passes over the layer.
    pub passes: u32,
    /// Bytes that had to be kept above the end of the disk for a while.
    pub parked: u64,
}

/// All that an import needs on its way.
struct Run<'r, 's> {
    layers: &'r [Layer],
    options: &'r Options,
    watch: &'r mut dyn Watch,
    image: Image<'s>,
    windows: Windows,
    overlay: Overlay,
    meter: Meter,
    fetched: u64,
    begun: u64,
    unpacked: u64,
    pass: u32,
    /// What the last pass left.
    missing: u64,
}

/// Imports the disk that is in the layers, which are given base first, as a manifest has them.
pub fn import(
    layers: &[Layer],
    source: &mut dyn Source,
    sink: &mut dyn Sink,
    options: &Options,
    resume: Option<Checkpoint>,
    watch: &mut dyn Watch,
) -> Result<Imported, Error> {
    let windows = Windows::default();
    let (image, overlay, mut start) = match resume {
        None => (
            Image::new(sink, options.limits, &windows, options.threads),
            Overlay::default(),
            None,
        ),
        Some(checkpoint) => {
            check(layers, &checkpoint)?;
            let (image, overlay, start) = layer::split(checkpoint);
            let image = Image::resume(sink, options.limits, &windows, options.threads, image)?;
            (image, overlay, Some(start))
        }
    };
    let now = watch.now();
    let mut run = Run {
        layers,
        options,
        watch,
        image,
        windows,
        overlay,
        meter: Meter::new(now, 0),
        fetched: 0,
        begun: 0,
        unpacked: 0,
        pass: 1,
        missing: 0,
    };
    let top = start.as_ref().map_or(layers.len(), |start| start.layer + 1);
    for index in (0..top.min(layers.len())).rev() {
        let Some(layer) = layers.get(index) else {
            break;
        };
        let before = run.overlay.clone();
        let mut passed = run.layer(index, layer, source, start.take())?;
        while let Some(Ended::Again { missing }) = passed.ended {
            run.again(&before, missing);
            passed = run.layer(index, layer, source, None)?;
        }
        let path = match (layer.contents, run.overlay.end_layer()) {
            (Contents::Disk, _) => None,
            (Contents::Archive, Ok(Verdict::Found(name))) => Some(name),
            (Contents::Archive, Ok(Verdict::Below)) => continue,
            (Contents::Archive, Err(error)) => return Err(error.into()),
        };
        let (_, _, parked) = run.image.counts();
        let (fetched, passes) = (run.fetched, run.pass);
        let nothing = run.overlay.nothing();
        let (format, finished) = run.image.finish()?.ok_or(nothing)?;
        return Ok(Imported {
            layer: passed.digest.unwrap_or_else(|| layer.digest.clone()),
            path,
            format,
            size: finished.size,
            written: finished.written,
            content: finished.content,
            diff_id: passed.diff_id,
            fetched,
            passes,
            parked,
        });
    }
    Err(run.overlay.nothing().into())
}

/// Whether a checkpoint is for these layers.
fn check(layers: &[Layer], checkpoint: &Checkpoint) -> Result<(), Error> {
    let found = &checkpoint.layers;
    let same = found.len() == layers.len()
        && found.iter().zip(layers).all(|(a, b)| *a == b.digest)
        && checkpoint.layer < layers.len();
    if same {
        return Ok(());
    }
    let show = |digests: Vec<String>| format!("layers {}", digests.join(", "));
    Err(Error::Checkpoint {
        found: show(found.iter().map(ToString::to_string).collect()),
        expected: show(
            layers
                .iter()
                .map(|layer| layer.digest.to_string())
                .collect(),
        ),
    })
}
