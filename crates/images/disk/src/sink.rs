//! Where a disk is written to.
//!
//! A [`Sink`] is a flat range of bytes that can be written and read back anywhere. It starts as
//! zeros ([`Sink::prepare`]), so that zeros are never written and a file stays sparse. A regular
//! file has a *tail*: room above the disk, where pieces can be parked whose place is not known
//! yet, and which is cut off in the end. A block device has none.

mod file;
mod memory;
#[cfg(test)]
mod tests;

use std::io;

pub use file::FileSink;
pub use memory::MemorySink;

/// A target that can be written anywhere.
pub trait Sink: Send {
    /// The largest disk that fits, if there is a limit.
    fn capacity(&self) -> Option<u64>;

    /// Whether bytes above the disk can be written before [`Sink::finish`] cuts them off.
    fn has_tail(&self) -> bool;

    /// Makes it `size` zeros.
    fn prepare(&mut self, size: u64) -> io::Result<()>;

    /// Writes all of `data`.
    fn write_at(&mut self, offset: u64, data: &[u8]) -> io::Result<()>;

    /// Fills `buffer`; what was never written, and what is above the end, is zeros.
    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;

    /// Makes a range zeros again, as a hole if that is possible.
    fn zero(&mut self, offset: u64, length: u64) -> io::Result<()>;

    /// Makes what was written so far survive a crash.
    fn sync(&mut self) -> io::Result<()>;

    /// Cuts the tail off, makes the size exactly `size`, and makes all of it durable.
    fn finish(&mut self, size: u64) -> io::Result<()>;
}
