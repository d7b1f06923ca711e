//! Passes all entries of a layer to a caller that creates files.

use std::io::{self, Read};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use platform::Hasher;

use super::Layer;
use super::flow::{self, Flow, Hash, Shared};
use super::layer::CHANNEL_CAPACITY;
use super::pool::Pool;
use crate::error::Error;
use crate::overlay::show;
use crate::tar::{Entry, Event, Reader};
use crate::unpack::{Limits, Unpacker};

/// Receives the contents of a layer. Entries come in the order of the archive; each is followed by its
/// data and its end.
pub trait Extract {
    /// An entry begins.
    fn entry(&mut self, entry: Entry) -> io::Result<()>;

    /// The next bytes of the entry.
    fn data(&mut self, data: &[u8]) -> io::Result<()>;

    /// Zeros of the entry that the archive does not store. [`Extract::entry`] has to check that they
    /// fit, by the size of the entry.
    fn hole(&mut self, length: u64) -> io::Result<()>;

    /// The end of the entry.
    fn end(&mut self) -> io::Result<()>;
}

/// Unpacks a layer to its end. After an error the result is unusable; that includes a diff-id mismatch,
/// which is only known at the end. The digest of the layer itself has to be checked by the reader.
pub fn extract(
    layer: &Layer,
    from: Box<dyn Read + Send>,
    limits: Limits,
    to: &mut dyn Extract,
) -> Result<(), Error> {
    let (shared, pool) = (Shared::default(), Pool::default());
    let algorithm = layer.diff_id.as_ref().unwrap_or(&layer.digest).algorithm();
    let hasher = Hasher::new(algorithm);
    std::thread::scope(|scope| {
        let (raw_to, raw_from) = sync_channel(CHANNEL_CAPACITY);
        let (flow_to, flow_from) = sync_channel(CHANNEL_CAPACITY);
        let (hash_to, hash_from) = sync_channel(CHANNEL_CAPACITY);
        let (shared, pool) = (&shared, &pool);
        let fetching =
            scope.spawn(move || flow::fetch(from, layer, 0, false, raw_to, pool, shared));
        let unpacker = Unpacker::new(limits);
        scope.spawn(move || flow::unpack(unpacker, &raw_from, &flow_to, pool, None));
        let hashing = scope.spawn(move || flow::hash(hasher, &hash_from));
        let result = consume(layer, flow_from, hash_to, to);
        if result.is_err() {
            shared.stop.store(true, Ordering::Relaxed);
        }
        let gone = |_| Err(Error::Cancelled);
        let fetched = fetching.join().unwrap_or_else(gone);
        let found = hashing.join().map_err(|_| Error::Cancelled);
        // A failed read explains missing data, not the other way round.
        fetched?;
        result?;
        let found = found?;
        match &layer.diff_id {
            Some(expected) if *expected != found => Err(Error::DigestMismatch {
                what: "diff-id",
                layer: layer.digest.to_string(),
                found: found.to_string(),
                expected: expected.to_string(),
            }),
            _ => Ok(()),
        }
    })
}

/// A path shortened for messages: some kilobytes would not fit into a gRPC response.
fn shortened(path: &[u8]) -> String {
    const LONGEST: usize = 200;
    let mut shown = show(path.get(..LONGEST).unwrap_or(path));
    if path.len() > LONGEST {
        shown.push_str("...");
    }
    shown
}

/// Processes the output of a layer.
#[expect(
    clippy::needless_pass_by_value,
    reason = "that the channels are closed is how the other threads know"
)]
fn consume(
    layer: &Layer,
    from: Receiver<Flow>,
    hash: SyncSender<Hash>,
    to: &mut dyn Extract,
) -> Result<(), Error> {
    let mut reader = Reader::default();
    let mut path = Vec::new();
    for flow in from {
        let data = match flow {
            Flow::Data(data) => data,
            Flow::Boundary { .. } => continue,
            Flow::Failed(error) => return Err(error),
            Flow::End => return Ok(reader.end()?),
        };
        hash.send(Hash::Data(data.clone()))
            .map_err(|_| Error::Cancelled)?;
        let mut data: &[u8] = &data;
        while let Some(event) = reader.next(&mut data)? {
            let done = match event {
                Event::Entry(entry) => {
                    path.clone_from(&entry.path);
                    to.entry(entry)
                }
                Event::Data(data) => to.data(data),
                Event::Hole(length) => to.hole(length),
                Event::End => to.end(),
            };
            done.map_err(|source| Error::Extract {
                path: shortened(&path),
                layer: layer.digest.to_string(),
                source,
            })?;
        }
    }
    // The unpacking thread always reports how it ended; if it did not, the fetching thread reports why.
    Err(Error::Cancelled)
}
