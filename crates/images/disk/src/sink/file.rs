//! A regular file or a block device, opened by the caller.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt as _, FileTypeExt as _};

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

use super::Sink;

/// Written where a target knows no way to make zeros.
const BLANK: usize = 1 << 20;

/// A file or a device.
#[derive(Debug)]
pub struct FileSink {
    file: File,
    device: bool,
    capacity: Option<u64>,
}

impl FileSink {
    /// Takes a file that is open for reading and writing.
    ///
    /// `limit` is the largest disk that is wanted in it, such as the size of the volume. A device
    /// is never larger than it is.
    pub fn new(file: File, limit: Option<u64>) -> io::Result<Self> {
        if file.metadata()?.file_type().is_block_device() {
            return Self::of_device(file, limit);
        }
        Ok(Self {
            file,
            device: false,
            capacity: limit,
        })
    }

    /// Takes a file for a device, whatever it is: it has a size, and nothing above it.
    pub(crate) fn of_device(file: File, limit: Option<u64>) -> io::Result<Self> {
        let size = rustix::fs::seek(&file, rustix::fs::SeekFrom::End(0))?;
        Ok(Self {
            file,
            device: true,
            capacity: Some(limit.map_or(size, |limit| limit.min(size))),
        })
    }

    /// Gives the file back.
    pub fn into_inner(self) -> File {
        self.file
    }

    fn blank(&self, offset: u64, length: u64) -> io::Result<()> {
        let blank = vec![0; BLANK];
        let end = offset.saturating_add(length);
        let mut at = offset;
        while at < end {
            let take = usize::try_from(end - at).unwrap_or(BLANK).min(BLANK);
            self.file
                .write_all_at(blank.get(..take).unwrap_or_default(), at)?;
            at += take as u64;
        }
        Ok(())
    }
}

impl Sink for FileSink {
    fn capacity(&self) -> Option<u64> {
        self.capacity
    }

    fn has_tail(&self) -> bool {
        !self.device
    }

    fn prepare(&mut self, size: u64) -> io::Result<()> {
        if self.device {
            return self.zero(0, size);
        }
        // What was in the file goes: a hole is the only thing that is surely zeros.
        // Two calls, since growing keeps old content. `fallocate` would reserve the
        // blocks of a disk that is mostly holes.
        self.file.set_len(0)?;
        self.file.set_len(size)
    }

    fn write_at(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.file.write_all_at(data, offset)
    }

    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let mut done = 0;
        while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
            match self.file.read_at(rest, offset + done as u64) {
                Ok(0) => {
                    rest.fill(0);
                    break;
                }
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn zero(&mut self, offset: u64, length: u64) -> io::Result<()> {
        if length == 0 {
            return Ok(());
        }
        // A hole reads as zeros in a file and on a device (`blkdev_fallocate`); a device that
        // cannot discard is asked to write zeros itself.
        for flags in [
            FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
            FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE,
        ] {
            match fallocate(&self.file, flags, offset, length) {
                Ok(()) => return Ok(()),
                Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL | Errno::NODEV) => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.blank(offset, length)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn finish(&mut self, size: u64) -> io::Result<()> {
        if !self.device {
            self.file.set_len(size)?;
        }
        self.file.sync_all()
    }
}
