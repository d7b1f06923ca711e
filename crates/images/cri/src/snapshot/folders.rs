//! Attributes of folders, applied after all layers are unpacked.
//!
//! Creating an entry changes the time of its folder, and a read-only folder accepts none, so attributes
//! are applied last. An image may have any number of folders with long names, so they are spooled to a
//! file instead of memory. It is read backwards: the last layer that contains a folder decides.

#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::{self, BufWriter, Read as _, Seek as _, SeekFrom, Write as _};

use disk::Attributes;

use super::paths::PathSet;
use super::tree::refused;

/// Upper bound of the file: two million folders with paths of a hundred bytes.
const MAX_BYTES: u64 = 256 << 20;

/// Folders in the order of the layers.
#[derive(Debug)]
pub(super) struct Folders {
    file: BufWriter<File>,
    /// The length of the records not yet returned.
    bytes: u64,
    returned: PathSet,
}

impl Folders {
    /// Spools to an empty file.
    pub(super) fn new(file: File) -> Self {
        Self {
            file: BufWriter::new(file),
            bytes: 0,
            returned: PathSet::default(),
        }
    }

    pub(super) fn add(&mut self, path: &[u8], attributes: &Attributes) -> io::Result<()> {
        let record = encode(path, attributes);
        let length = u32::try_from(record.len()).map_err(|_| too_many())?;
        self.bytes = self.bytes.saturating_add(u64::from(length) + 4);
        if self.bytes > MAX_BYTES {
            return Err(too_many());
        }
        // The length follows the record, as records are read backwards.
        self.file.write_all(&record)?;
        self.file.write_all(&length.to_le_bytes())
    }

    /// The last folder not yet returned, with its final attributes; `None` after the first one.
    pub(super) fn pop(&mut self) -> io::Result<Option<(Vec<u8>, Attributes)>> {
        self.file.flush()?;
        let file = self.file.get_mut();
        while self.bytes > 0 {
            let mut length = [0; 4];
            read_at(file, self.bytes.saturating_sub(4), &mut length)?;
            let length = u32::from_le_bytes(length);
            let start = self.bytes.checked_sub(u64::from(length) + 4);
            self.bytes = start.ok_or(io::ErrorKind::InvalidData)?;
            let mut record = vec![0; length as usize];
            read_at(file, self.bytes, &mut record)?;
            let (path, attributes) = decode(&record).ok_or(io::ErrorKind::InvalidData)?;
            if self.returned.insert(path)? {
                return Ok(Some((path.to_vec(), attributes)));
            }
        }
        Ok(None)
    }
}

fn too_many() -> io::Error {
    refused(format!(
        "the paths and attributes of the image's folders have more than {MAX_BYTES} bytes"
    ))
}

fn read_at(file: &mut File, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
    file.seek(SeekFrom::Start(offset))?;
    file.read_exact(buffer)
}

fn encode(path: &[u8], attributes: &Attributes) -> Vec<u8> {
    let mut record = Vec::with_capacity(64 + path.len());
    let (seconds, nanoseconds) = attributes.modified;
    record.extend(seconds.to_le_bytes());
    for number in [nanoseconds, attributes.mode, attributes.uid, attributes.gid] {
        record.extend(number.to_le_bytes());
    }
    let pairs = attributes.extended.iter();
    let texts = pairs.flat_map(|(key, value)| [key.as_slice(), value.as_slice()]);
    for text in std::iter::once(path).chain(texts) {
        // An extended header has at most a megabyte.
        let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
        record.extend(length.to_le_bytes());
        record.extend(text);
    }
    record
}

fn decode(mut record: &[u8]) -> Option<(&[u8], Attributes)> {
    let seconds = i64::from_le_bytes(*take(&mut record)?);
    let mut number = || Some(u32::from_le_bytes(*take(&mut record)?));
    let (nanoseconds, mode, uid, gid) = (number()?, number()?, number()?, number()?);
    let path = text(&mut record)?;
    let mut extended = Vec::new();
    while !record.is_empty() {
        extended.push((text(&mut record)?.to_vec(), text(&mut record)?.to_vec()));
    }
    let attributes = Attributes {
        mode,
        uid,
        gid,
        modified: (seconds, nanoseconds),
        device: (0, 0),
        extended,
    };
    Some((path, attributes))
}

fn take<'a, const N: usize>(record: &mut &'a [u8]) -> Option<&'a [u8; N]> {
    let (first, rest) = record.split_first_chunk()?;
    *record = rest;
    Some(first)
}

fn text<'a>(record: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = u32::from_le_bytes(*take(record)?);
    let (text, rest) = record.split_at_checked(length as usize)?;
    *record = rest;
    Some(text)
}
