//! Finds the only file in `/disk`, as seen by a container of the image.
//!
//! Layers are read from the top down, each in one pass: the uppermost one with a file in `/disk`
//! decides, and lower ones are not even fetched. A whiteout in an upper layer hides entries below it.
//! The file is consumed as it streams by; that it is not the only one may be found after it was read,
//! and is an error then as well.
//!
//! Links inside `/disk` to the file are aliases. Everything else that cannot be one disk is rejected
//! with a specific error: links out of `/disk`, files in subfolders, devices, paths with `..`.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::tar::{Entry, Kind};

/// The prefix of whiteouts (OCI image specification, "Whiteouts").
pub const WHITEOUT: &[u8] = b".wh.";
/// Hides all entries of the folder in lower layers.
pub const OPAQUE: &[u8] = b".wh..wh..opq";

/// Upper bound of recorded names; a container disk has few.
const MAX_NAMES: usize = 10_000;

/// Upper bound of recorded name and link target bytes.
const MAX_NAME_BYTES: usize = 2 << 20;

/// Why an image has no usable disk.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OverlayError {
    /// `/disk` is empty.
    #[error("failed to find a VM disk image file in the container image: /disk has no file")]
    NoDisk,
    /// More than one file.
    #[error("/disk has more than one file: {first:?} and {second:?}")]
    MoreThanOne {
        /// The first file.
        first: String,
        /// The second file.
        second: String,
    },
    /// A file in a subfolder of `/disk`.
    #[error("{path:?} is in a subfolder of /disk; the disk has to be in /disk itself")]
    Nested {
        /// The file.
        path: String,
    },
    /// `/disk` is not a folder.
    #[error("/disk is not a folder in the layer that has it")]
    NotAFolder,
    /// A device or a pipe.
    #[error("{path:?} is neither a file nor a link")]
    NotAFile {
        /// The entry.
        path: String,
    },
    /// A link to a path outside `/disk`.
    #[error("{path:?} is a link to {target:?}, which is not a file in /disk")]
    LinkOutside {
        /// The link.
        path: String,
        /// The link target.
        target: String,
    },
    /// A path with `..`.
    #[error("the path {path:?} has \"..\" in it, which no layer may have")]
    Traversal {
        /// The entry.
        path: String,
    },
    /// More names than a container disk has.
    #[error("/disk has more than {MAX_NAMES} names or {MAX_NAME_BYTES} bytes of names")]
    TooMany,
    /// A folder exceeds the memory limits.
    #[error("{path} has more than {files} files or {bytes} bytes")]
    FolderTooLarge {
        /// The folder.
        path: String,
        /// The most files.
        files: usize,
        /// The most bytes.
        bytes: usize,
    },
}

impl OverlayError {
    /// The reason, from a fixed set.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NoDisk => "NoDisk",
            Self::MoreThanOne { .. } | Self::TooMany => "MoreThanOneDisk",
            Self::Traversal { .. } | Self::FolderTooLarge { .. } => "BadLayer",
            _ => "BadDisk",
        }
    }
}

/// What to do with an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// It is the disk.
    Take,
    Skip,
}

/// The result of a layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LayerVerdict {
    /// It contains the disk.
    Found(String),
    /// The disk may be in a lower layer.
    Below,
}

/// What the layers so far determine about `/disk`.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub(crate) struct Overlay {
    /// Names in `/disk` that layers above hide.
    hidden: BTreeSet<Vec<u8>>,
    /// Names that this layer hides from those below.
    hides: BTreeSet<Vec<u8>>,
    /// This layer hides all of `/disk` from those below.
    hides_all: bool,
    /// Layers above hide all of it.
    hidden_all: bool,
    /// An upper layer has `/disk` as a folder.
    folder: bool,
    /// Aliases: link and target.
    links: Vec<(Vec<u8>, Vec<u8>)>,
    /// The total length of these names.
    #[serde(default)]
    name_bytes: usize,
    found: Option<Vec<u8>>,
}

impl Overlay {
    /// Processes an entry of the current layer.
    pub(crate) fn entry(&mut self, entry: &Entry) -> Result<Action, OverlayError> {
        let path = components(&entry.path).ok_or_else(|| OverlayError::Traversal {
            path: show(&entry.path),
        })?;
        match path.as_slice() {
            [OPAQUE | b".wh.disk"] | [b"disk", OPAQUE] => self.hides_all = true,
            [b"disk"] if entry.kind == Kind::Directory => self.folder = true,
            // An upper layer has `/disk` as a folder, and a lower one has something else of that name: overlay file
            // systems do not merge the two, so everything below is hidden.
            [b"disk"] if self.folder => self.hides_all = true,
            [b"disk"] if !self.hidden_all => return Err(OverlayError::NotAFolder),
            [b"disk", name] => return self.name(name, entry),
            [b"disk", .., name]
                if entry.kind != Kind::Directory
                    && !name.starts_with(WHITEOUT)
                    && !self.is_hidden(path.get(1).copied().unwrap_or_default()) =>
            {
                return Err(OverlayError::Nested {
                    path: show(&entry.path),
                });
            }
            _ => {}
        }
        Ok(Action::Skip)
    }

    fn is_hidden(&self, name: &[u8]) -> bool {
        self.hidden_all || self.hidden.contains(name)
    }

    fn hide(&mut self, name: &[u8]) -> Result<(), OverlayError> {
        self.remember(name)?;
        self.hides.insert(name.to_vec());
        Ok(())
    }

    /// Counts a name to be recorded.
    fn remember(&mut self, name: &[u8]) -> Result<(), OverlayError> {
        self.name_bytes = self.name_bytes.saturating_add(name.len());
        let names = self.hides.len() + self.hidden.len() + self.links.len();
        if names >= MAX_NAMES || self.name_bytes > MAX_NAME_BYTES {
            return Err(OverlayError::TooMany);
        }
        Ok(())
    }

    /// An entry of `/disk` itself.
    fn name(&mut self, name: &[u8], entry: &Entry) -> Result<Action, OverlayError> {
        if name.starts_with(b".wh..wh.") {
            // Reserved by union file systems.
            return Ok(Action::Skip);
        }
        if let Some(name) = name.strip_prefix(WHITEOUT) {
            self.hide(name)?;
            return Ok(Action::Skip);
        }
        if self.is_hidden(name) {
            return Ok(Action::Skip);
        }
        self.folder = true;
        // Whatever its type, it hides the entry of this name in lower layers.
        self.hide(name)?;
        match entry.kind {
            Kind::Directory => Ok(Action::Skip),
            Kind::CharacterDevice | Kind::BlockDevice | Kind::Pipe | Kind::Other => {
                // A device or pipe in `/disk` is never a disk, and an importer that opened one would block.
                Err(OverlayError::NotAFile {
                    path: show(&entry.path),
                })
            }
            Kind::HardLink | Kind::SymbolicLink => {
                let target = target(entry).ok_or_else(|| OverlayError::LinkOutside {
                    path: show(&entry.path),
                    target: show(&entry.link),
                })?;
                self.remember(&target)?;
                self.links.push((name.to_vec(), target));
                Ok(Action::Skip)
            }
            Kind::File => {
                if let Some(first) = &self.found {
                    return Err(OverlayError::MoreThanOne {
                        first: show(first),
                        second: show(name),
                    });
                }
                // Taken as it streams by, before it is known to be the only one. Looking ahead would need scratch
                // space for the whole disk, and a second file is an error in any case.
                self.found = Some(name.to_vec());
                Ok(Action::Take)
            }
        }
    }

    /// Ends the current layer.
    pub(crate) fn end_layer(&mut self) -> Result<LayerVerdict, OverlayError> {
        if let Some(found) = &self.found {
            if let Some((name, target)) = self.links.iter().find(|(name, _)| !self.leads(name)) {
                return Err(OverlayError::LinkOutside {
                    path: show(name),
                    target: show(target),
                });
            }
            return Ok(LayerVerdict::Found(show(found)));
        }
        self.hidden.append(&mut self.hides);
        self.hidden_all |= self.hides_all;
        if self.hidden_all {
            return Err(self.nothing());
        }
        Ok(LayerVerdict::Below)
    }

    /// Why there is no disk after the last layer.
    pub(crate) fn nothing(&self) -> OverlayError {
        match self.links.first() {
            Some((name, target)) => OverlayError::LinkOutside {
                path: show(name),
                target: show(target),
            },
            None => OverlayError::NoDisk,
        }
    }

    /// Whether a name leads to the disk through links.
    fn leads(&self, name: &[u8]) -> bool {
        let mut name = name;
        // A chain has at most as many links as there are; a cycle has more.
        for _ in 0..=self.links.len().min(40) {
            if self.found.as_deref() == Some(name) {
                return true;
            }
            match self.links.iter().find(|(link, _)| link == name) {
                Some((_, target)) => name = target,
                None => return false,
            }
        }
        false
    }
}

/// The components of a path, without empty ones and `.`; `None` if it has `..`.
pub fn components(path: &[u8]) -> Option<Vec<&[u8]>> {
    path.split(|byte| *byte == b'/')
        .filter(|part| !part.is_empty() && *part != b".")
        .map(|part| (part != b"..").then_some(part))
        .collect()
}

/// The name in `/disk` that a link in `/disk` refers to.
fn target(entry: &Entry) -> Option<Vec<u8>> {
    let mut place: Vec<&[u8]> = Vec::new();
    // A hard link target is relative to the root, a symbolic one to the link's folder.
    if entry.kind == Kind::SymbolicLink && !entry.link.starts_with(b"/") {
        place.push(b"disk");
    }
    for part in entry.link.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => {
                place.pop();
            }
            part => place.push(part),
        }
    }
    match place.as_slice() {
        [b"disk", name] => Some(name.to_vec()),
        _ => None,
    }
}

pub(crate) fn show(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}
