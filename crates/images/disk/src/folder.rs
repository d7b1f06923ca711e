//! The files of one folder, as seen by a container of the image.
//!
//! Unlike a disk, these are small and numerous: all are kept in memory, up to a limit. Layers are
//! applied from the lowest up. A whiteout hides entries of lower layers, never those of its own layer,
//! in any order. Only regular files in the folder itself are read; links, devices and subfolders are
//! not.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;

use crate::error::Error;
use crate::overlay::{OPAQUE, OverlayError, WHITEOUT, components, show};
use crate::tar::{Entry, Event, Kind, Reader};
use crate::unpack::{Limits, Unpacker};

/// The chunk size of reads.
const CHUNK_BYTES: usize = 128 << 10;

/// The limits of a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FolderLimits {
    /// Files in it.
    pub files: usize,
    /// The total size of all files in bytes, per layer and over all layers. Names count, too, including
    /// those a layer hides.
    pub bytes: usize,
    /// The limits of decompression.
    pub unpack: Limits,
}

/// The files of one folder.
#[derive(Debug)]
pub struct Folder {
    path: Vec<Vec<u8>>,
    limits: FolderLimits,
    files: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// The changes of one layer to a folder.
#[derive(Debug, Default)]
struct Changes {
    /// Entries of all lower layers are hidden.
    clears: bool,
    hides: BTreeSet<Vec<u8>>,
    adds: BTreeMap<Vec<u8>, Vec<u8>>,
    bytes: usize,
    hidden_bytes: usize,
}

impl Folder {
    /// An empty folder with this path.
    pub fn new(path: &str, limits: FolderLimits) -> Self {
        let path = path.split('/').filter(|part| !part.is_empty());
        Self {
            path: path.map(|part| part.as_bytes().to_vec()).collect(),
            limits,
            files: BTreeMap::new(),
        }
    }

    /// Applies a layer, which is read to its end. `name` names it in errors.
    pub fn layer(&mut self, name: &str, mut from: impl Read) -> Result<(), Error> {
        let mut unpacker = Unpacker::new(self.limits.unpack);
        let mut archive = Archive {
            folder: self,
            reader: Reader::default(),
            taking: None,
            changes: Changes::default(),
        };
        let mut piece = vec![0; CHUNK_BYTES];
        loop {
            let read = match from.read(&mut piece) {
                Ok(read) => read,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(source) => {
                    return Err(Error::Read {
                        layer: name.to_owned(),
                        offset: unpacker.packed(),
                        source,
                    });
                }
            };
            let mut input = piece.get(..read).unwrap_or_default();
            if input.is_empty() {
                break;
            }
            while !input.is_empty() {
                unpacker.feed(&mut input, &mut |data: &[u8]| archive.take(data))?;
            }
        }
        unpacker.end(&mut |data: &[u8]| archive.take(data))?;
        archive.reader.end()?;
        let changes = archive.changes;
        if changes.clears {
            self.files.clear();
        }
        // After the whole layer was read and before its files are added: whiteouts apply to lower layers only,
        // wherever they stand in the archive.
        self.files.retain(|name, _| !changes.hides.contains(name));
        self.files.extend(changes.adds);
        let files = self.files.iter();
        let bytes: usize = files.map(|(name, file)| name.len() + file.len()).sum();
        self.check(self.files.len(), bytes)
    }

    /// The files, by name.
    pub fn files(self) -> BTreeMap<String, Vec<u8>> {
        let files = self.files.into_iter();
        files.map(|(name, bytes)| (show(&name), bytes)).collect()
    }

    fn check(&self, files: usize, bytes: usize) -> Result<(), Error> {
        if files > self.limits.files || bytes > self.limits.bytes {
            return Err(OverlayError::FolderTooLarge {
                path: format!("/{}", show(&self.path.join(&b'/'))),
                files: self.limits.files,
                bytes: self.limits.bytes,
            }
            .into());
        }
        Ok(())
    }
}

/// A layer that is being read.
struct Archive<'a> {
    folder: &'a Folder,
    reader: Reader,
    /// The file being read.
    taking: Option<Vec<u8>>,
    changes: Changes,
}

impl Archive<'_> {
    fn take(&mut self, mut data: &[u8]) -> Result<(), Error> {
        while let Some(event) = self.reader.next(&mut data)? {
            match event {
                Event::Entry(entry) => self.taking = self.entry(&entry)?,
                Event::End => self.taking = None,
                Event::Data(bytes) => {
                    if let Some(file) = self.grow(bytes.len())? {
                        file.extend_from_slice(bytes);
                    }
                }
                Event::Hole(length) => {
                    let length = usize::try_from(length).unwrap_or(usize::MAX);
                    if let Some(file) = self.grow(length)? {
                        file.resize(file.len() + length, 0);
                    }
                }
            }
        }
        Ok(())
    }

    /// The file being read, if it may grow by this much.
    fn grow(&mut self, more: usize) -> Result<Option<&mut Vec<u8>>, Error> {
        let files = self.changes.adds.len();
        let Some(file) = self
            .taking
            .as_ref()
            .and_then(|name| self.changes.adds.get_mut(name))
        else {
            return Ok(None);
        };
        self.changes.bytes = self.changes.bytes.saturating_add(more);
        self.folder.check(files, self.changes.bytes)?;
        Ok(Some(file))
    }

    /// Records that a name of lower layers is hidden.
    fn hide(&mut self, name: &[u8]) -> Result<(), Error> {
        if self.changes.hides.insert(name.to_vec()) {
            // A set entry takes more than the name; names are a small share of the limit.
            self.changes.hidden_bytes = self.changes.hidden_bytes.saturating_add(name.len() + 64);
            self.folder.check(0, self.changes.hidden_bytes)?;
        }
        Ok(())
    }

    /// Processes an entry; returns its name if it is a file of the folder.
    fn entry(&mut self, entry: &Entry) -> Result<Option<Vec<u8>>, Error> {
        let path = components(&entry.path).ok_or_else(|| OverlayError::Traversal {
            path: show(&entry.path),
        })?;
        let Some((name, parents)) = path.split_last() else {
            return Ok(None);
        };
        let folder = &self.folder.path;
        let inside = |place: &[&[u8]]| {
            place.len() <= folder.len() && place.iter().zip(folder).all(|(one, other)| one == other)
        };
        if !inside(parents) {
            return Ok(None);
        }
        let is_own = parents.len() == folder.len();
        if *name == OPAQUE {
            self.changes.clears = true;
        } else if let Some(hidden) = name.strip_prefix(WHITEOUT) {
            if is_own {
                self.hide(hidden)?;
            } else if folder.get(parents.len()).is_some_and(|it| it == hidden) {
                self.changes.clears = true;
            }
        } else if is_own {
            // A later entry of the same name replaces an earlier one of any type.
            if let Some(old) = self.changes.adds.remove(*name) {
                self.changes.bytes -= old.len();
            }
            self.hide(name)?;
            if entry.kind == Kind::File {
                self.changes.adds.insert(name.to_vec(), Vec::new());
                let files = self.changes.adds.len();
                self.folder.check(files, self.changes.bytes)?;
                return Ok(Some(name.to_vec()));
            }
        } else if entry.kind != Kind::Directory
            && folder.get(parents.len()).is_some_and(|it| it == name)
        {
            // The folder, or a parent, is replaced by another entry.
            self.changes.clears = true;
            self.changes.adds.clear();
            self.changes.bytes = 0;
        }
        Ok(None)
    }
}
