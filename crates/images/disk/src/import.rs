//! The import of one disk: layers from a source, one disk on a target.
//!
//! ```text
//! fetch thread    source -> bytes, digest of the layer
//! unpack thread   gzip, zstd, xz
//! hash thread     diff-id
//! this thread     archive -> /disk -> raw or qcow2 -> target, content hash
//! inflate threads compressed clusters
//! ```
//!
//! Threads are connected by small bounded channels, so memory is bounded, and the slowest part sets the
//! pace. Nothing is written but the target.
//!
//! The data is unverified before [`import`] returns: only then the digests of all layers read are
//! verified. If the content of a layer is invalid, the rest is read to compute its digest: a damaged
//! blob is an [`Error::DigestMismatch`] and not an invalid image.
//!
//! # Resuming
//!
//! A [`Checkpoint`] holds all state at one place of one layer, and is passed to [`Watch::checkpoint`]
//! after the target has synced the data. Decompressors cannot be stored in the middle of a stream, so
//! there are checkpoints only where they have no state: anywhere in an uncompressed layer, between the
//! frames of zstd (`zstd:chunked`, `pzstd`) and the members of gzip (`eStargz`, `bgzip`). Layers of one
//! gzip member, as `docker build` creates them, and disks compressed again inside the layer have none
//! before the layer ends: they start over from the layer's beginning. After resuming, the diff-id is
//! that of the whole layer, as its hash is resumed; the digest of the compressed bytes is unknown and
//! not checked, which loses nothing, as the diff-id identifies the same bytes. A layer without a
//! diff-id, as a file on a web server, has checkpoints only if it is uncompressed: its content is then
//! the layer itself, and the resumed hash is the digest of all of it. The content hash is computed by
//! reading the disk back.

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
use crate::overlay::{LayerVerdict, Overlay};
use crate::progress::{Meter, Progress};
use crate::qcow2::Ended;
use crate::sink::Sink;
use crate::tar::Reader;
use crate::unpack::{Limits, Packing, Windows};

pub use extract::{Extract, extract};

/// The uncompressed content of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Contents {
    /// An archive of files.
    Archive,
    /// The disk itself, as in OCI artifacts.
    Disk,
}

impl Contents {
    /// By the media type: everything is an archive unless it states to be a disk.
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
    /// The digest of the bytes of the source.
    pub digest: Digest,
    /// Whether they have to match the digest. If their digest is not known, it is only an identifier.
    pub is_verified: bool,
    /// Their size.
    pub size: Option<u64>,
    /// The digest of the uncompressed content, if the image states it.
    pub diff_id: Option<Digest>,
    /// The type of the content.
    pub contents: Contents,
}

/// The source of layers.
pub trait Source {
    /// The bytes of a layer from `offset`. Called again for the same layer if another pass is needed; a
    /// source that does not support this returns [`io::ErrorKind::Unsupported`].
    fn open(&mut self, layer: &Layer, offset: u64) -> io::Result<Box<dyn Read + Send>>;

    /// Whether the source verifies layers read from their beginning: the end is then an error unless
    /// the digest matches. This avoids hashing twice.
    fn verifies(&self) -> bool {
        false
    }
}

/// Observes an import.
pub trait Watch {
    /// The time since a fixed instant.
    fn now(&mut self) -> Duration;

    /// Called a few times a second. `Break` cancels the import.
    fn progress(&mut self, progress: &Progress) -> ControlFlow<()>;

    /// Called with a checkpoint to resume from after a crash. It replaces the previous one.
    fn checkpoint(&mut self, checkpoint: Checkpoint);
}

/// Options of an import.
#[derive(Debug, Clone)]
pub struct Options {
    /// The limits of decompression.
    pub limits: Limits,
    /// Threads that decompress clusters; with zero, they are decompressed by the reading thread.
    pub threads: usize,
    /// Bytes of a layer between two checkpoints.
    pub checkpoint_every: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            threads: 2,
            // A checkpoint syncs the target and writes up to some megabytes of state. At a gigabit a second, this is
            // one every two seconds at most, and a restarted pod repeats as much.
            checkpoint_every: 256 << 20,
        }
    }
}

/// A point to resume an import from. Opaque, and only valid for the same layers and target.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Checkpoint {
    /// The digests of all layers, base first.
    layers: Vec<Digest>,
    /// The index of the current layer.
    layer: usize,
    /// Its bytes that need not be fetched again.
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
    /// The digest of the layer to resume, and the offset in it.
    pub fn place(&self) -> (Option<&Digest>, u64) {
        (self.layers.get(self.layer), self.packed)
    }
}

/// A disk that is complete, verified and durable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Imported {
    /// The digest of its layer, computed if it was not known.
    pub layer: Digest,
    /// Its path in `/disk`; `None` for an artifact without files.
    pub path: Option<String>,
    /// Its format.
    pub format: Format,
    /// Bytes of the disk.
    pub size: u64,
    /// Non-zero bytes, by blocks.
    pub written: u64,
    /// The content hash.
    pub content: ContentHash,
    /// The computed diff-id of the layer.
    pub diff_id: Digest,
    /// Bytes read from the source.
    pub fetched: u64,
    /// Passes over the layer.
    pub passes: u32,
    /// Bytes parked above the end of the disk.
    pub parked: u64,
}

/// The state of an import.
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
    /// The pieces missing after the last pass.
    missing: u64,
}

/// Imports the disk in the layers, which are given base first, as in a manifest.
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
    // From the top: the first layer with a file in `/disk` decides, and the layers below,
    // often a whole base image, are never downloaded.
    for index in (0..top.min(layers.len())).rev() {
        let Some(layer) = layers.get(index) else {
            break;
        };
        // Another pass has to see the same names again; with the state after the
        // first pass, the disk would be found twice.
        let before = run.overlay.clone();
        let mut passed = run.layer(index, layer, source, start.take())?;
        while let Some(Ended::Again { missing }) = passed.ended {
            run.again(&before, missing);
            passed = run.layer(index, layer, source, None)?;
        }
        let path = match (layer.contents, run.overlay.end_layer()) {
            (Contents::Disk, _) => None,
            (Contents::Archive, Ok(LayerVerdict::Found(name))) => Some(name),
            (Contents::Archive, Ok(LayerVerdict::Below)) => continue,
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
