//! The threads in front of the archive: fetching, unpacking, hashing.

use std::io::{self, Read};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender};

use bytes::Bytes;
use platform::{Digest, Hasher};

use super::Layer;
use super::pool::Pool;
use crate::error::Error;
use crate::unpack::{Out, Packing, Step, Unpacker};

/// What the threads share.
#[derive(Debug, Default)]
pub(super) struct Shared {
    /// Bytes that came.
    pub(super) fetched: AtomicU64,
    /// Nobody wants the rest, not even its digest.
    pub(super) stop: AtomicBool,
}

/// Fetches a layer from `offset` on; gives its digest if it `hashes`.
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
        // No more than was promised, whatever the other side sends.
        if layer.size.is_some_and(|size| at > size) {
            return Err(size_mismatch(layer, at));
        }
        // Handed on before it is hashed: others work on it meanwhile.
        let chunk = pool.lend(buffer, count);
        if to
            .as_ref()
            .is_some_and(|to| to.send(chunk.clone()).is_err())
        {
            // Somebody found it to be nonsense; its digest tells whether it is damaged.
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

/// What comes out of a layer.
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
    /// That was all.
    End,
}

/// Hands on what was unpacked.
struct Sending<'a> {
    to: &'a SyncSender<Flow>,
    pool: &'a Pool,
}

impl Out for Sending<'_> {
    fn give(&mut self, chunk: &mut Vec<u8>, made: usize) -> Result<(), Error> {
        let full = std::mem::replace(chunk, self.pool.take());
        let data = Flow::Data(self.pool.lend(full, made));
        self.to.send(data).map_err(|_| Error::Cancelled)
    }
}

/// Unpacks what comes.
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
                if let (Step::Boundary, true, Some(packing)) = (step, far, unpacker.packing()) {
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
    // Whoever would listen is gone if it cannot be sent.
    let _ = to.send(match result {
        Ok(()) => Flow::End,
        Err(error) => Flow::Failed(error),
    });
}

/// What is to be hashed.
pub(super) enum Hash {
    Data(Bytes),
    /// Asks for the state after all before.
    State(SyncSender<Vec<u8>>),
}

/// Hashes what comes.
pub(super) fn hash(mut hasher: Hasher, from: &Receiver<Hash>) -> Digest {
    for message in from {
        match message {
            Hash::Data(data) => hasher.update(&data),
            // Nobody waits any more if it cannot be sent.
            Hash::State(to) => drop(to.send(hasher.state())),
        }
    }
    hasher.finish()
}
