//! The disk being written: bounded by its size, sparse, hashed and counted.

use crate::content::{BLOCK, ContentHash, Tree, is_zero};
use crate::error::Error;
use crate::sink::Sink;

/// A sink that holds a disk of a known size.
pub(crate) struct Canvas<'a> {
    sink: &'a mut dyn Sink,
    size: u64,
    tree: Tree,
    written: u64,
    parked: u64,
}

impl std::fmt::Debug for Canvas<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Canvas")
            .field("size", &self.size)
            .field("written", &self.written)
            .finish_non_exhaustive()
    }
}

/// A target error with its operation.
fn target(operation: &'static str, offset: u64, length: u64) -> impl Fn(std::io::Error) -> Error {
    move |source| Error::Target {
        operation,
        offset,
        length,
        source,
    }
}

impl<'a> Canvas<'a> {
    /// An empty disk. The target is not changed if the disk does not fit.
    pub(crate) fn new(sink: &'a mut dyn Sink, size: u64) -> Result<Self, Error> {
        fits(sink, size)?;
        sink.prepare(size).map_err(target("zeroing", 0, size))?;
        Ok(Self {
            sink,
            size,
            tree: Tree::new(size),
            written: 0,
            parked: 0,
        })
    }

    /// A disk partially written by an earlier import.
    pub(crate) fn resume(sink: &'a mut dyn Sink, size: u64) -> Result<Self, Error> {
        fits(sink, size)?;
        let mut tree = Tree::new(size);
        tree.tear_all();
        Ok(Self {
            sink,
            size,
            tree,
            written: 0,
            parked: 0,
        })
    }

    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Bytes written to the disk, zeros not counted.
    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    /// Bytes written to the tail.
    pub(crate) fn parked(&self) -> u64 {
        self.parked
    }

    /// Grows a disk whose size is not known in advance.
    pub(crate) fn grow(&mut self, size: u64) -> Result<(), Error> {
        fits(self.sink, size)?;
        self.size = self.size.max(size);
        Ok(())
    }

    /// Sets the final size of such a disk.
    pub(crate) fn resize(&mut self, size: u64) -> Result<(), Error> {
        fits(self.sink, size)?;
        self.size = size;
        Ok(())
    }

    /// Writes `data` at `offset`; bytes beyond the end are dropped.
    pub(crate) fn put(&mut self, offset: u64, data: &[u8]) -> Result<(), Error> {
        let room = usize::try_from(self.size.saturating_sub(offset)).unwrap_or(usize::MAX);
        let data = data.get(..room.min(data.len())).unwrap_or_default();
        let mut start = None;
        let mut at = 0;
        while let Some(rest) = data.get(at..).filter(|rest| !rest.is_empty()) {
            let place = offset + at as u64;
            // Up to the border of the next block.
            let whole = BLOCK - usize::try_from(place % BLOCK as u64).unwrap_or(0);
            let block = rest.get(..whole).unwrap_or(rest);
            // Zeros are never written: `prepare` made the target zeros, so a sparse disk stays sparse whatever the
            // image stored explicitly. A caller that wrote there before would need `Sink::zero`; no format here
            // writes a place twice with different content.
            if is_zero(block) {
                self.flush(offset, data, start.take(), at)?;
            } else {
                start.get_or_insert(at);
                let ends = place + block.len() as u64;
                if block.len() == BLOCK || (whole == BLOCK && ends == self.size) {
                    self.tree.add(place, block);
                } else {
                    self.tree.tear(place);
                }
            }
            at += block.len();
        }
        self.flush(offset, data, start, data.len())
    }

    fn flush(
        &mut self,
        offset: u64,
        data: &[u8],
        start: Option<usize>,
        end: usize,
    ) -> Result<(), Error> {
        let Some(start) = start else {
            return Ok(());
        };
        let part = data.get(start..end).unwrap_or_default();
        let place = offset + start as u64;
        self.written += part.len() as u64;
        self.sink
            .write_at(place, part)
            .map_err(target("writing", place, part.len() as u64))
    }

    /// Reads what was written or parked.
    pub(crate) fn get(&mut self, offset: u64, buffer: &mut [u8]) -> Result<(), Error> {
        let length = buffer.len() as u64;
        self.sink
            .read_at(offset, buffer)
            .map_err(target("reading", offset, length))
    }

    /// Whether [`Canvas::park`] works.
    pub(crate) fn has_tail(&self) -> bool {
        self.sink.has_tail()
    }

    /// Where the tail begins.
    fn tail(&self) -> u64 {
        self.size
            // Aligned to a megabyte, so that parked clusters keep the alignment they have in the image and blocks of
            // the file system are not shared with the disk.
            .checked_next_multiple_of(1 << 20)
            .unwrap_or(u64::MAX)
    }

    /// Parks bytes of the image in the tail, at their own offset. Returns false without space.
    pub(crate) fn park(&mut self, offset: u64, data: &[u8]) -> bool {
        let Some(place) = self.tail().checked_add(offset) else {
            return false;
        };
        // A hole reads as zeros. A target without space is not an error here: another pass can do
        // without the tail.
        // The error is dropped on purpose: usually the volume has no space above the disk, and a second pass over the
        // network is slower but succeeds.
        if is_zero(data) || self.sink.write_at(place, data).is_ok() {
            self.parked += data.len() as u64;
            return true;
        }
        false
    }

    /// Bytes of the image that were parked.
    pub(crate) fn parked_at(&mut self, offset: u64, buffer: &mut [u8]) -> Result<(), Error> {
        let place = self.tail().saturating_add(offset);
        self.get(place, buffer)
    }

    /// Syncs the data to disk.
    pub(crate) fn sync(&mut self) -> Result<(), Error> {
        self.sink.sync().map_err(target("finishing", 0, self.size))
    }

    /// Completes the disk: exact size, synced, with content hash.
    pub(crate) fn finish(mut self) -> Result<Finished, Error> {
        let size = self.size;
        // The tree was created for the size known at the beginning.
        if self.tree.size() != size {
            // The hash depends on the size through the leaf size. Raw disks of unknown length are read back once for
            // it; compressed raw images in archives are the only ones affected.
            self.tree = Tree::new(size);
            self.tree.tear_all();
        }
        self.sink
            .finish(size)
            .map_err(target("finishing", 0, size))?;
        let sink = self.sink;
        let content = self.tree.finish(|offset, buffer| {
            let length = buffer.len() as u64;
            sink.read_at(offset, buffer)
                .map_err(target("reading", offset, length))
        })?;
        Ok(Finished {
            size,
            written: self.written,
            content,
        })
    }
}

/// A disk that is complete.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) size: u64,
    pub(crate) written: u64,
    pub(crate) content: ContentHash,
}

/// Whether a disk fits.
pub(crate) fn fits(sink: &dyn Sink, need: u64) -> Result<(), Error> {
    match sink.capacity() {
        Some(have) if need > have => Err(Error::TooSmall { need, have }),
        _ => Ok(()),
    }
}
