//! A disk in memory, for tests and fuzzing: sparse as well, and it counts.

use std::collections::BTreeMap;
use std::io;

use super::Sink;

/// Bytes of a page.
const PAGE: usize = 4096;

/// A sparse disk in memory.
#[derive(Debug, Default)]
pub struct MemorySink {
    pages: BTreeMap<u64, Box<[u8]>>,
    size: u64,
    capacity: Option<u64>,
    tail: bool,
    highest: u64,
}

impl MemorySink {
    /// One with a tail, as a file has it.
    pub fn new(capacity: Option<u64>) -> Self {
        Self {
            capacity,
            tail: true,
            ..Self::default()
        }
    }

    /// One without a tail, as a device of this size.
    pub fn device(size: u64) -> Self {
        Self {
            capacity: Some(size),
            ..Self::default()
        }
    }

    /// The whole disk. Only for small ones.
    pub fn to_vec(&mut self) -> Vec<u8> {
        let mut all = vec![0; usize::try_from(self.size).unwrap_or_default()];
        self.fetch(0, &mut all);
        all
    }

    /// The size that was asked for last.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Bytes that are really kept.
    pub fn kept(&self) -> u64 {
        (self.pages.len() * PAGE) as u64
    }

    /// One above the highest byte ever written.
    pub fn highest(&self) -> u64 {
        self.highest
    }

    fn fetch(&self, offset: u64, buffer: &mut [u8]) {
        pieces(offset, buffer.len(), |page, within, range| {
            let Some(target) = buffer.get_mut(range) else {
                return;
            };
            match self.pages.get(&page).and_then(|p| p.get(within)) {
                Some(kept) => target.copy_from_slice(kept),
                None => target.fill(0),
            }
        });
    }

    fn store(&mut self, offset: u64, data: &[u8]) {
        pieces(offset, data.len(), |page, within, range| {
            let kept = self
                .pages
                .entry(page)
                .or_insert_with(|| vec![0; PAGE].into_boxed_slice());
            if let (Some(target), Some(data)) = (kept.get_mut(within), data.get(range)) {
                target.copy_from_slice(data);
            }
        });
    }
}

/// Cuts a range at the borders of pages: page, range within it, range within the buffer.
fn pieces(
    offset: u64,
    length: usize,
    mut each: impl FnMut(u64, std::ops::Range<usize>, std::ops::Range<usize>),
) {
    let mut done = 0;
    while done < length {
        let at = offset + done as u64;
        let within = usize::try_from(at % PAGE as u64).unwrap_or_default();
        let take = (PAGE - within).min(length - done);
        each(at / PAGE as u64, within..within + take, done..done + take);
        done += take;
    }
}

impl Sink for MemorySink {
    fn capacity(&self) -> Option<u64> {
        self.capacity
    }

    fn has_tail(&self) -> bool {
        self.tail
    }

    fn prepare(&mut self, size: u64) -> io::Result<()> {
        self.pages.clear();
        self.size = size;
        Ok(())
    }

    fn write_at(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        let end = offset
            .checked_add(data.len() as u64)
            .ok_or(io::ErrorKind::FileTooLarge)?;
        if !self.tail && self.capacity.is_some_and(|size| end > size) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.highest = self.highest.max(end);
        self.store(offset, data);
        Ok(())
    }

    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.fetch(offset, buffer);
        Ok(())
    }

    fn zero(&mut self, offset: u64, length: u64) -> io::Result<()> {
        let blank = [0; PAGE];
        let mut at = offset;
        let end = offset.saturating_add(length);
        while at < end {
            let take = (PAGE as u64 - at % PAGE as u64).min(end - at);
            if take == PAGE as u64 {
                self.pages.remove(&(at / PAGE as u64));
            } else if self.pages.contains_key(&(at / PAGE as u64)) {
                let take = usize::try_from(take).unwrap_or_default();
                self.store(at, blank.get(..take).unwrap_or_default());
            }
            at += take;
        }
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn finish(&mut self, size: u64) -> io::Result<()> {
        let first = size.div_ceil(PAGE as u64);
        self.pages.split_off(&first);
        if !size.is_multiple_of(PAGE as u64) {
            self.zero(size, PAGE as u64 - size % PAGE as u64)?;
        }
        self.size = size;
        Ok(())
    }
}
