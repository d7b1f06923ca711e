//! The threads before the archive reader: fetching, unpacking, hashing.

use std::io::{self, Read};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender};

use bytes::Bytes;
use platform::{Digest, Hasher};

use super::Layer;
use super::pool::Pool;
use crate::error::Error;
use crate::unpack::{Out, Packing, UnpackStep, Unpacker};

/// State shared by the threads.
#[derive(Debug, Default)]
pub(super) struct Shared {
    /// Bytes received.
    pub(super) fetched: AtomicU64,
    /// The rest is not needed, not even its digest.
    pub(super) stop: AtomicBool,
}

/// Fetches a layer from `offset`; returns its digest if it `hashes`.
pub(super) fn fetch(
    mut from: Box<dyn Read + Send>,
    layer: &Layer,
    offset: u64,
    hashes: bool,
    to: SyncSender<Bytes>,
    pool: &Pool,
    shared: &Shared,
) -> Result<Option<Digest>, Error> {
    let mut to = Some(to);
    let mut hasher = hashes.then(|| layer.digest.hasher());
    let mut at = offset;
    while !shared.stop.load(Ordering::Relaxed) {
        let mut buffer = pool.take();
        let count = fill(&mut *from, &mut buffer).map_err(|source| Error::Read {
            layer: layer.digest.to_string(),
            offset: at,
            source,
        })?;
        if count == 0 {
            break;
        }
        at += count as u64;
        shared.fetched.fetch_add(count as u64, Ordering::Relaxed);
        // No more than announced, whatever the other side sends.
        if layer.size.is_some_and(|size| at > size) {
            return Err(size_mismatch(layer, at));
        }
        // Passed on before it is hashed, so that other threads can work on it meanwhile.
        let chunk = pool.share(buffer, count);
        if to
            .as_ref()
            .is_some_and(|to| to.send(chunk.clone()).is_err())
        {
            // The content was rejected downstream; read on for the digest, which tells whether the blob
            // is damaged.
            to = None;
        }
        if let Some(hasher) = &mut hasher {
            hasher.update(&chunk);
        }
    }
    if shared.stop.load(Ordering::Relaxed) {
        return Ok(None);
    }
    if layer.size.is_some_and(|size| at != size) {
        return Err(size_mismatch(layer, at));
    }
    Ok(hasher.map(Hasher::finish))
}

fn size_mismatch(layer: &Layer, found: u64) -> Error {
    Error::SizeMismatch {
        layer: layer.digest.to_string(),
        found,
        expected: layer.size.unwrap_or(found),
    }
}

/// Reads until the buffer is full or there is no more.
fn fill(from: &mut dyn Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut done = 0;
    while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
        match from.read(rest) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// The output of a layer.
#[derive(Debug)]
pub(super) enum Flow {
    Data(Bytes),
    /// The decoder has no state here.
    Boundary {
        packed: u64,
        unpacked: u64,
        packing: Packing,
    },
    /// It cannot be unpacked.
    Failed(Error),
    /// The end of the layer.
    End,
}

/// Sends unpacked data.
struct Sending<'a> {
    to: &'a SyncSender<Flow>,
    pool: &'a Pool,
}

impl Out for Sending<'_> {
    fn give(&mut self, chunk: &mut Vec<u8>, made: usize) -> Result<(), Error> {
        let full = std::mem::replace(chunk, self.pool.take());
        let data = Flow::Data(self.pool.share(full, made));
        self.to.send(data).map_err(|_| Error::Cancelled)
    }
}

/// Unpacks the input.
pub(super) fn unpack(
    mut unpacker: Unpacker,
    from: &Receiver<Bytes>,
    to: &SyncSender<Flow>,
    pool: &Pool,
    boundary_every: Option<u64>,
) {
    let mut last = unpacker.packed();
    let result = (|| {
        let mut out = Sending { to, pool };
        for chunk in from {
            let mut input: &[u8] = &chunk;
            while !input.is_empty() {
                let step = unpacker.feed(&mut input, &mut out)?;
                let packed = unpacker.packed();
                let far = boundary_every.is_some_and(|every| packed - last >= every);
                if let (UnpackStep::Boundary, true, Some(packing)) = (step, far, unpacker.packing())
                {
                    last = packed;
                    let boundary = Flow::Boundary {
                        packed,
                        unpacked: unpacker.unpacked(),
                        packing,
                    };
                    to.send(boundary).map_err(|_| Error::Cancelled)?;
                }
            }
        }
        unpacker.end(&mut out)
    })();
    // The receiver may be dropped.
    let _ = to.send(match result {
        Ok(()) => Flow::End,
        Err(error) => Flow::Failed(error),
    });
}

/// Input of the hash thread.
pub(super) enum Hash {
    Data(Bytes),
    /// Requests the state after all earlier input.
    State(SyncSender<Vec<u8>>),
}

/// Hashes the input.
pub(super) fn hash(mut hasher: Hasher, from: &Receiver<Hash>) -> Digest {
    for message in from {
        match message {
            Hash::Data(data) => hasher.update(&data),
            // The receiver may be dropped.
            Hash::State(to) => drop(to.send(hasher.state())),
        }
    }
    hasher.finish()
}
