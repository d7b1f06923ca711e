//! One pass over one layer.

use std::io;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::ScopedJoinHandle;

use platform::{Digest, Hasher};

use super::flow::{self, Flow, Hash, Shared};
use super::pool::Pool;
use super::{Checkpoint, Contents, Layer, Run, Source};
use crate::error::Error;
use crate::image;
use crate::overlay::{Action, Overlay};
use crate::progress::Progress;
use crate::qcow2::Ended;
use crate::tar::{Event, Reader};
use crate::unpack::{Packing, Unpacker};

/// The capacity of channels between threads, in chunks.
// Eight chunks of 256 KiB in each of three channels: 6 MiB of the 64 MiB that an importer pod may use, and enough to
// keep every thread busy while another waits.
pub(super) const CHANNEL_CAPACITY: usize = 8;

/// Where to begin in a layer.
#[derive(Debug)]
pub(super) struct Start {
    pub(super) layer: usize,
    packed: u64,
    unpacked: u64,
    packing: Packing,
    diff_id: Vec<u8>,
    reader: Reader,
    taking: bool,
}

/// The parts of a checkpoint.
pub(super) fn split(checkpoint: Checkpoint) -> (image::State, Overlay, Start) {
    let start = Start {
        layer: checkpoint.layer,
        packed: checkpoint.packed,
        unpacked: checkpoint.unpacked,
        packing: checkpoint.packing,
        diff_id: checkpoint.diff_id,
        reader: checkpoint.reader,
        taking: checkpoint.taking,
    };
    (checkpoint.image, checkpoint.overlay, start)
}

/// The result of a pass.
#[derive(Debug)]
pub(super) struct Passed {
    /// How the disk in it ended; `None` if there was none.
    pub(super) ended: Option<Ended>,
    /// The digest of the bytes read, if they were all.
    pub(super) digest: Option<Digest>,
    pub(super) diff_id: Digest,
}

/// The archive of a layer, and the disk in it.
struct Tar {
    reader: Reader,
    taking: bool,
    ended: Option<Ended>,
}

impl Run<'_, '_> {
    /// Reads a layer to its end and verifies it.
    pub(super) fn layer(
        &mut self,
        index: usize,
        layer: &Layer,
        source: &mut dyn Source,
        start: Option<Start>,
    ) -> Result<Passed, Error> {
        let offset = start.as_ref().map_or(0, |start| start.packed);
        let from = source
            .open(layer, offset)
            .map_err(|error| self.cannot_open(layer, offset, error))?;
        // A layer read from the middle has no known digest.
        // Hashing takes a good part of a core at the speed of a fast network; a source that verifies has done it
        // already.
        let hashes = offset == 0 && !source.verifies();
        let mut tar = Tar {
            reader: Reader::default(),
            taking: false,
            ended: None,
        };
        let mut unpacker = Unpacker::sharing(self.options.limits, &self.windows);
        // The content of an uncompressed layer is the layer itself: without a diff-id it is identified
        // by its digest.
        let algorithm = layer.diff_id.as_ref().unwrap_or(&layer.digest).algorithm();
        let mut hasher = Hasher::new(algorithm);
        if let Some(start) = start {
            unpacker = Unpacker::resume(
                self.options.limits,
                &self.windows,
                start.packing,
                start.packed,
                start.unpacked,
            )?;
            let hashed = Hasher::resume(algorithm, &start.diff_id);
            hasher = hashed
                .filter(|_| can_go_on(layer, start.packing))
                .ok_or_else(|| Error::Checkpoint {
                    found: "another kind of diff-id".to_owned(),
                    expected: layer.digest.to_string(),
                })?;
            tar.reader = start.reader;
            tar.taking = start.taking;
        } else if layer.contents == Contents::Disk && self.pass == 1 {
            self.image.begin(layer.digest.to_string(), None);
        }
        let rest = layer.size.unwrap_or(0).saturating_sub(offset);
        self.begun = self.begun.saturating_add(rest);
        // Later passes have no checkpoints: the plan of a pass is not stored, and repeating
        // one pass costs less than storing it each time.
        let every = (self.pass == 1).then_some(self.options.checkpoint_every.max(1));

        let shared = Shared::default();
        let pool = Pool::default();
        let fetched_before = self.fetched;
        std::thread::scope(|scope| {
            let (raw_to, raw_from) = sync_channel(CHANNEL_CAPACITY);
            let (flow_to, flow_from) = sync_channel(CHANNEL_CAPACITY);
            let (hash_to, hash_from) = sync_channel(CHANNEL_CAPACITY);
            let (shared, pool) = (&shared, &pool);
            let fetching =
                scope.spawn(move || flow::fetch(from, layer, offset, hashes, raw_to, pool, shared));
            scope.spawn(move || flow::unpack(unpacker, &raw_from, &flow_to, pool, every));
            let hashing = scope.spawn(move || flow::hash(hasher, &hash_from));

            let mut pass = Pass {
                run: self,
                index,
                layer,
                shared,
                fetched_before,
            };
            let result = pass.consume(&mut tar, flow_from, hash_to);
            if let Err(error) = &result
                // A full target or a cancelled import is not explained by the digest of the layer: stop downloading.
                && !worth_the_digest(error)
            {
                shared.stop.store(true, Ordering::Relaxed);
            }
            let whole = result.is_ok();
            let (digest, diff_id) = (join(fetching, layer), join_digest(hashing, layer));
            let verified = verify(layer, whole, digest, diff_id);
            self.fetched = fetched_before + shared.fetched.load(Ordering::Relaxed);
            match (result, verified) {
                (Ok(()), Ok((digest, diff_id))) => Ok(Passed {
                    ended: tar.ended,
                    digest,
                    diff_id,
                }),
                // A damaged blob explains errors in its content, not the other way round.
                (Err(error), Err(damaged)) if worth_the_digest(&error) => match damaged {
                    Error::DigestMismatch {
                        what: "diff-id", ..
                    }
                    | Error::Cancelled => Err(error),
                    damaged => Err(damaged),
                },
                (Err(error), _) | (Ok(()), Err(error)) => Err(error),
            }
        })
    }

    fn cannot_open(&self, layer: &Layer, offset: u64, source: io::Error) -> Error {
        if self.pass > 1 && source.kind() == io::ErrorKind::Unsupported {
            return Error::AnotherPass {
                missing: self.missing,
                advice: "import from a source that can be read again, or to a file",
            };
        }
        Error::Read {
            layer: layer.digest.to_string(),
            offset,
            source,
        }
    }

    /// Prepares for another pass over the layer.
    pub(super) fn again(&mut self, before: &Overlay, missing: u64) {
        self.pass += 1;
        self.missing = missing;
        self.overlay = before.clone();
        self.image.rewind();
    }
}

/// Whether the digest of the layer may explain an error.
fn worth_the_digest(error: &Error) -> bool {
    matches!(
        error,
        Error::Tar(_)
            | Error::Overlay(_)
            | Error::Unpack(_)
            | Error::Qcow2(_)
            | Error::UnsupportedFormat { .. }
    )
}

/// A pass in progress.
struct Pass<'p, 'r, 's> {
    run: &'p mut Run<'r, 's>,
    index: usize,
    layer: &'p Layer,
    shared: &'p Shared,
    fetched_before: u64,
}

impl Pass<'_, '_, '_> {
    /// Processes the output of a layer.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "that the channels are closed is how the other threads know"
    )]
    fn consume(
        &mut self,
        tar: &mut Tar,
        from: Receiver<Flow>,
        hash: SyncSender<Hash>,
    ) -> Result<(), Error> {
        let gone = |_| Error::Cancelled;
        for flow in from {
            match flow {
                Flow::Data(data) => {
                    hash.send(Hash::Data(data.clone())).map_err(gone)?;
                    self.data(tar, &data)?;
                    self.run.unpacked += data.len() as u64;
                }
                Flow::Boundary {
                    packed,
                    unpacked,
                    packing,
                } => self.checkpoint(tar, &hash, packed, unpacked, packing)?,
                Flow::Failed(error) => return Err(error),
                Flow::End => {
                    if self.layer.contents == Contents::Disk {
                        tar.ended = Some(self.run.image.end()?);
                    } else {
                        tar.reader.end()?;
                    }
                    return Ok(());
                }
            }
            self.report()?;
        }
        // The unpacking thread always reports how it ended; if it did not, the fetching thread reports
        // why.
        Err(Error::Cancelled)
    }

    fn data(&mut self, tar: &mut Tar, mut data: &[u8]) -> Result<(), Error> {
        let image = &mut self.run.image;
        if self.layer.contents == Contents::Disk {
            return image.feed(data);
        }
        while let Some(event) = tar.reader.next(&mut data)? {
            match event {
                Event::Entry(entry) => {
                    tar.taking = self.run.overlay.entry(&entry)? == Action::Take;
                    if tar.taking {
                        let path = String::from_utf8_lossy(&entry.path).into_owned();
                        image.begin(path, Some(entry.size));
                    }
                }
                Event::Data(data) if tar.taking => image.feed(data)?,
                Event::End if tar.taking => {
                    tar.taking = false;
                    tar.ended = Some(image.end()?);
                }
                Event::Hole(length) if tar.taking => image.hole(length)?,
                Event::Data(_) | Event::Hole(_) | Event::End => {}
            }
        }
        Ok(())
    }

    fn checkpoint(
        &mut self,
        tar: &Tar,
        hash: &SyncSender<Hash>,
        packed: u64,
        unpacked: u64,
        packing: Packing,
    ) -> Result<(), Error> {
        // After the disk little is left; its end is not stored.
        if tar.ended.is_some() || !can_go_on(self.layer, packing) {
            return Ok(());
        }
        let Some(image) = self.run.image.state()? else {
            return Ok(());
        };
        let (to, from) = sync_channel(1);
        hash.send(Hash::State(to)).map_err(|_| Error::Cancelled)?;
        let diff_id = from.recv().map_err(|_| Error::Cancelled)?;
        self.run.watch.checkpoint(Checkpoint {
            layers: self
                .run
                .layers
                .iter()
                .map(|layer| layer.digest.clone())
                .collect(),
            layer: self.index,
            packed,
            unpacked,
            packing,
            diff_id,
            overlay: self.run.overlay.clone(),
            reader: tar.reader.clone(),
            taking: tar.taking,
            image,
        });
        Ok(())
    }

    fn report(&mut self) -> Result<(), Error> {
        let now = self.run.watch.now();
        let fetched = self.fetched_before + self.shared.fetched.load(Ordering::Relaxed);
        if !self.run.meter.tick(now, fetched) {
            return Ok(());
        }
        let (disk, written, _) = self.run.image.counts();
        let total = self.layer.size.map(|_| self.run.begun);
        let progress = Progress {
            fetched,
            total,
            unpacked: self.run.unpacked,
            written,
            disk,
            pass: self.run.pass,
            rate: self.run.meter.rate(),
            eta: total.and_then(|total| self.run.meter.eta(total.saturating_sub(fetched))),
        };
        if self.run.watch.progress(&progress).is_break() {
            return Err(Error::Cancelled);
        }
        Ok(())
    }
}

type Fetched = Result<Option<Digest>, Error>;

fn join(thread: ScopedJoinHandle<'_, Fetched>, layer: &Layer) -> Fetched {
    thread.join().unwrap_or_else(|_| Err(panicked(layer)))
}

fn join_digest(thread: ScopedJoinHandle<'_, Digest>, layer: &Layer) -> Result<Digest, Error> {
    thread.join().map_err(|_| panicked(layer))
}

/// A panic of the source counts as its failure.
fn panicked(layer: &Layer) -> Error {
    Error::Read {
        layer: layer.digest.to_string(),
        offset: 0,
        source: io::Error::other("the thread that reads it panicked"),
    }
}

/// Whether a resumed layer can be verified as a whole: the hash of its content is resumed, which is not
/// the digest of the compressed bytes.
fn can_go_on(layer: &Layer, packing: Packing) -> bool {
    layer.diff_id.is_some() || packing == Packing::Plain
}

/// Compares digests; returns the computed ones. `whole` tells whether all content was hashed.
fn verify(
    layer: &Layer,
    whole: bool,
    digest: Fetched,
    diff_id: Result<Digest, Error>,
) -> Result<(Option<Digest>, Digest), Error> {
    let mismatch = |what, found: &Digest, expected: &Digest| Error::DigestMismatch {
        what,
        layer: layer.digest.to_string(),
        found: found.to_string(),
        expected: expected.to_string(),
    };
    let digest = digest?;
    if let Some(found) = digest.as_ref().filter(|_| layer.is_verified)
        && *found != layer.digest
    {
        return Err(mismatch("digest", found, &layer.digest));
    }
    let diff_id = diff_id?;
    match (&layer.diff_id, digest) {
        (Some(expected), _) if *expected != diff_id => Err(mismatch("diff-id", &diff_id, expected)),
        // It was resumed and is uncompressed: both digests are the same.
        (None, None) if whole => {
            if layer.is_verified && diff_id != layer.digest {
                return Err(mismatch("digest", &diff_id, &layer.digest));
            }
            Ok((Some(diff_id.clone()), diff_id))
        }
        (_, digest) => Ok((digest, diff_id)),
    }
}
