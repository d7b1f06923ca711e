//! The target of a disk.
//!
//! A [`Sink`] is a flat range of bytes with random access. It starts as zeros ([`Sink::prepare`]), so
//! zeros are never written and a file stays sparse. A regular file has a *tail*: space above the disk,
//! where pieces are parked whose place is not known yet, and which is cut off in the end. A block
//! device has none.

mod file;
mod memory;
#[cfg(test)]
mod tests;

use std::io;

pub use file::FileSink;
pub use memory::MemorySink;

/// A target with random access.
pub trait Sink: Send {
    /// The largest disk that fits, if there is a limit.
    fn capacity(&self) -> Option<u64>;

    /// Whether bytes above the disk can be written before [`Sink::finish`] cuts them off.
    fn has_tail(&self) -> bool;

    /// Sets it to `size` zeros.
    fn prepare(&mut self, size: u64) -> io::Result<()>;

    /// Writes all of `data`.
    fn write_at(&mut self, offset: u64, data: &[u8]) -> io::Result<()>;

    /// Fills `buffer`; what was never written, and what is above the end, is zeros.
    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;

    /// Makes a range zeros again, as a hole if that is possible.
    fn zero(&mut self, offset: u64, length: u64) -> io::Result<()>;

    /// Syncs the data written so far to disk.
    fn sync(&mut self) -> io::Result<()>;

    /// Cuts off the tail, sets the exact size, and syncs.
    fn finish(&mut self, size: u64) -> io::Result<()>;
}
