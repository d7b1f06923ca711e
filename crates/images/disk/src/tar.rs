//! Archives, read as a stream: ustar, GNU and pax.
//!
//! The reader takes bytes and returns events; it keeps only one header, the names before it and the map
//! of a sparse file, all bounded. Names are bytes: an archive does not state their encoding.
//!
//! # Which reader it agrees with
//!
//! Two programs that read one archive differently let an attacker show one of them what the other does not
//! see. So the reader lists what GNU tar and Python's tarfile list (compared over generated archives in
//! `tests/differential.rs`), and where they or Go's archive/tar (which containerd unpacks with) disagree:
//!
//! * An archive that no archiver writes is refused: a symbolic link, device or pipe with data (GNU skips the
//!   data, Python and Go parse them as headers), a directory by its trailing slash alone with data (the same),
//!   two extended headers or two long names for one entry (GNU takes the last, Python the first), a GNU long
//!   name beside a pax path, a global extended header with a path or a size, a sparse file with regions inside
//!   that are no multiple of 512 bytes (GNU starts each in a block of its own), a pax sparse file with a GNU header
//!   (GNU takes it for a whole file).
//! * Type `0` or `7` with a trailing slash is a file, as for Python and Go; GNU makes a directory of it. The
//!   data are skipped by all of them.
//! * The ustar prefix counts only after the magic of ustar, as for GNU and Go: Python also takes what old GNU
//!   headers have there for a path.
//! * One block of zeros ends the archive, as for GNU and Python; Go demands two.
//! * An empty value of an extended header is none, as POSIX and Go have it.

mod header;
mod sparse;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use header::{Block, Kind as Flag};

/// Bytes of a block.
const BLOCK: usize = 512;

/// The longest extended header: what Go's archive/tar, and so containerd, accepts.
const MAX_EXTENDED_HEADER: u64 = 1 << 20;

/// The longest name or link target. Linux has no longer paths (`PATH_MAX`).
const MAX_NAME: usize = 4096;

/// The longest data of a GNU long name: archivers fill up the name to whole blocks.
const MAX_LONG_NAME: u64 = 2 * MAX_NAME as u64;

/// Why an archive is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TarError {
    /// An invalid header.
    #[error("the archive has no valid header at byte {offset}: {why}")]
    Header {
        /// The offset of the header.
        offset: u64,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A name or extended header is too long.
    #[error("the extended header at byte {offset} has {length} bytes; the maximum is {limit}")]
    TooLong {
        /// The offset of the header.
        offset: u64,
        /// The stated length.
        length: u64,
        /// The limit.
        limit: u64,
    },
    /// A path or link target longer than Linux supports.
    #[error("a name before byte {offset} has {length} bytes; the maximum is {MAX_NAME}")]
    NameTooLong {
        /// Where the header ends.
        offset: u64,
        /// The bytes of the name.
        length: usize,
    },
    /// It is truncated.
    #[error("the archive is cut off at byte {offset}")]
    Truncated {
        /// The number of bytes read.
        offset: u64,
    },
}

/// The type of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// A file.
    File,
    /// Another name of an earlier entry, or of one in a lower layer.
    HardLink,
    /// A symbolic link.
    SymbolicLink,
    /// A folder.
    Directory,
    /// A character device.
    CharacterDevice,
    /// A block device.
    BlockDevice,
    /// A FIFO.
    Pipe,
    /// Any other type.
    Other,
}

/// An entry of an archive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Its path, as bytes of unknown encoding.
    pub path: Vec<u8>,
    /// What a link points to.
    pub link: Vec<u8>,
    /// Its type.
    pub kind: Kind,
    /// Bytes of its content, holes included: a sparse file has more than the archive stores.
    pub size: u64,
    /// Bytes that the archive stores of it: fewer than its size if it is sparse.
    #[serde(default)]
    pub stored: u64,
    /// Its attributes. Absent in checkpoints of earlier versions.
    #[serde(default)]
    pub attributes: Attributes,
}

/// The attributes of an entry.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Attributes {
    /// The mode, including set-user-id, set-group-id and sticky bits.
    pub mode: u32,
    /// The user id of its owner.
    pub uid: u32,
    /// Its group id.
    pub gid: u32,
    /// The modification time: seconds since 1970 and nanoseconds.
    pub modified: (i64, u32),
    /// Major and minor number of a device.
    pub device: (u32, u32),
    /// Extended attributes: names and values.
    pub extended: Vec<(Vec<u8>, Vec<u8>)>,
}

/// What the reader found in its input.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Event<'a> {
    Entry(Entry),
    /// The next bytes of the entry.
    Data(&'a [u8]),
    /// Zeros of the entry that the archive does not store. The number is untrusted: a consumer checks
    /// the size of the entry before it generates bytes.
    Hole(u64),
    /// The end of the entry.
    End,
}

/// The state of the reader.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum State {
    Header,
    /// More blocks of an old GNU sparse header.
    Extended {
        entry: Entry,
        map: sparse::Map,
    },
    /// The map of a sparse file in front of its data (pax 1.0).
    Map {
        entry: Entry,
        numbers: sparse::Numbers,
        left: u64,
        size: u64,
    },
    /// A header that describes the next entry.
    About {
        flag: Flag,
        left: u64,
    },
    Data {
        left: u64,
        size: u64,
    },
    /// The data of a sparse file.
    Regions {
        regions: sparse::Regions,
        size: u64,
    },
    /// After the last byte of an entry.
    Close {
        size: u64,
    },
    /// After the end of the archive.
    Over,
}

/// Reads an archive.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Reader {
    state: State,
    block: Vec<u8>,
    /// Bytes that fill a block after data.
    padding: u64,
    about: Vec<u8>,
    long_name: Option<Vec<u8>>,
    long_link: Option<Vec<u8>>,
    pax: Option<header::Pax>,
    /// The merged global extended headers.
    #[serde(default)]
    global: header::Pax,
    offset: u64,
}

impl Default for Reader {
    fn default() -> Self {
        Self {
            state: State::Header,
            block: Vec::with_capacity(BLOCK),
            padding: 0,
            about: Vec::new(),
            long_name: None,
            long_link: None,
            pax: None,
            global: header::Pax::default(),
            offset: 0,
        }
    }
}

impl Reader {
    /// The next event in `input`, which is advanced by the consumed bytes. `None` if it is exhausted.
    pub(crate) fn next<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<Event<'a>>, TarError> {
        loop {
            if self.padding > 0 {
                self.padding -= self.take(input, self.padding).len() as u64;
                if self.padding > 0 {
                    return Ok(None);
                }
            }
            match &mut self.state {
                State::Over => {
                    self.take(input, u64::MAX);
                    return Ok(None);
                }
                State::Close { size } => {
                    self.padding = fill_up(*size);
                    self.state = State::Header;
                    return Ok(Some(Event::End));
                }
                State::Data { left, size } => {
                    let (left, size) = (*left, *size);
                    let data = self.take(input, left);
                    if data.is_empty() && left > 0 {
                        return Ok(None);
                    }
                    self.state = match left - data.len() as u64 {
                        0 => State::Close { size },
                        left => State::Data { left, size },
                    };
                    if !data.is_empty() {
                        return Ok(Some(Event::Data(data)));
                    }
                }
                State::About { left, flag } => {
                    let (flag, left) = (*flag, *left);
                    let data = self.take(input, left);
                    self.about.extend_from_slice(data);
                    let left = left - data.len() as u64;
                    self.state = State::About { flag, left };
                    if left > 0 {
                        return Ok(None);
                    }
                    self.described(flag)?;
                    self.state = State::Header;
                }
                State::Regions { regions, size } => {
                    let size = *size;
                    match regions.next() {
                        sparse::Next::Hole(length) => return Ok(Some(Event::Hole(length))),
                        sparse::Next::End => self.state = State::Close { size },
                        sparse::Next::Data(most) => {
                            let data = self.take(input, most);
                            if data.is_empty() {
                                return Ok(None);
                            }
                            if let State::Regions { regions, .. } = &mut self.state {
                                regions.advance(data.len() as u64);
                            }
                            return Ok(Some(Event::Data(data)));
                        }
                    }
                }
                State::Extended { .. } => {
                    if !self.fill(input) {
                        return Ok(None);
                    }
                    if let Some(event) = self.more_of_map()? {
                        return Ok(Some(event));
                    }
                }
                State::Map { .. } => {
                    if !self.fill(input) {
                        return Ok(None);
                    }
                    if let Some(event) = self.more_numbers()? {
                        return Ok(Some(event));
                    }
                }
                State::Header => {
                    if !self.fill(input) {
                        return Ok(None);
                    }
                    if let Some(event) = self.header()? {
                        return Ok(Some(event));
                    }
                }
            }
        }
    }

    /// Ends the input.
    pub(crate) fn end(&self) -> Result<(), TarError> {
        // Archives without their two last blocks are common.
        let whole = match self.state {
            State::Over => true,
            State::Header => self.block.is_empty() && self.padding == 0 && !self.is_described(),
            _ => false,
        };
        if whole {
            Ok(())
        } else {
            Err(TarError::Truncated {
                offset: self.offset,
            })
        }
    }

    fn take<'a>(&mut self, input: &mut &'a [u8], most: u64) -> &'a [u8] {
        let count = usize::try_from(most).unwrap_or(usize::MAX).min(input.len());
        let (taken, rest) = input.split_at_checked(count).unwrap_or((input, &[]));
        *input = rest;
        self.offset += taken.len() as u64;
        taken
    }

    /// Whether a whole block is buffered.
    fn fill(&mut self, input: &mut &[u8]) -> bool {
        let missing = BLOCK - self.block.len();
        let part = self.take(input, missing as u64);
        self.block.extend_from_slice(part);
        self.block.len() == BLOCK
    }

    /// Whether something describes an entry that has not come yet.
    fn is_described(&self) -> bool {
        self.pax.is_some() || self.long_name.is_some() || self.long_link.is_some()
    }

    fn broken(&self, why: &'static str) -> TarError {
        let offset = self.offset.saturating_sub(BLOCK as u64);
        TarError::Header { offset, why }
    }

    fn header(&mut self) -> Result<Option<Event<'static>>, TarError> {
        let bytes = std::mem::replace(&mut self.block, Vec::with_capacity(BLOCK));
        if crate::content::is_zero(&bytes) {
            if self.is_described() {
                return Err(self.broken("the entry that extended headers describe is missing"));
            }
            self.state = State::Over;
            return Ok(None);
        }
        let mut block = Block::parse(&bytes).map_err(|why| self.broken(why))?;
        if let Flag::LongName | Flag::LongLink | Flag::Pax | Flag::GlobalPax = block.kind {
            self.describe(block.kind, block.size)?;
            return Ok(None);
        }
        let mut pax = self.pax.take().unwrap_or_default();
        let (long_name, long_link) = (self.long_name.take(), self.long_link.take());
        if (pax.path.is_some() && long_name.is_some())
            || (pax.link.is_some() && long_link.is_some())
        {
            return Err(self
                .broken("it has a GNU long name and a pax path, which readers rank differently"));
        }
        let path = pax
            .real_name
            .take()
            .or_else(|| pax.path.take())
            .or(long_name);
        let path = path.unwrap_or_else(|| std::mem::take(&mut block.path));
        let link = pax.link.take().or(long_link);
        let link = link.unwrap_or_else(|| std::mem::take(&mut block.link));
        for name in [&path, &link] {
            if name.len() > MAX_NAME {
                let (offset, length) = (self.offset, name.len());
                return Err(TarError::NameTooLong { offset, length });
            }
        }
        let stored = pax.size.unwrap_or(block.size);
        let kind = match block.kind {
            // The final name: the header has only the first hundred bytes of a long one.
            Flag::OldFile if path.ends_with(b"/") => Kind::Directory,
            Flag::OldFile | Flag::File | Flag::Sparse => Kind::File,
            Flag::HardLink => Kind::HardLink,
            Flag::SymbolicLink => Kind::SymbolicLink,
            Flag::Directory => Kind::Directory,
            Flag::CharacterDevice => Kind::CharacterDevice,
            Flag::BlockDevice => Kind::BlockDevice,
            Flag::Pipe => Kind::Pipe,
            _ => Kind::Other,
        };
        if pax.sparse.is_some() && !block.is_posix {
            return Err(self.broken(
                "a pax sparse file has a GNU header, for which GNU tar reads no pax maps",
            ));
        }
        let size = self.data_size(block.kind, kind, stored)?;
        let entry = Entry {
            path,
            link,
            size,
            stored: size,
            kind,
            attributes: Attributes {
                mode: block.mode,
                uid: pax.uid.or(self.global.uid).unwrap_or(block.uid),
                gid: pax.gid.or(self.global.gid).unwrap_or(block.gid),
                modified: pax
                    .modified
                    .or(self.global.modified)
                    .unwrap_or((block.modified, 0)),
                device: block.device,
                extended: std::mem::take(&mut pax.extended),
            },
        };
        self.content(entry, &bytes, block.kind, pax.sparse)
    }

    /// Begins an extended header or a long name.
    fn describe(&mut self, flag: Flag, left: u64) -> Result<(), TarError> {
        let (again, limit) = match flag {
            Flag::LongName => (self.long_name.is_some(), MAX_LONG_NAME),
            Flag::LongLink => (self.long_link.is_some(), MAX_LONG_NAME),
            Flag::Pax => (self.pax.is_some(), MAX_EXTENDED_HEADER),
            _ => (false, MAX_EXTENDED_HEADER),
        };
        if again {
            return Err(self.broken("the entry is described twice, which readers rank differently"));
        }
        if left > limit {
            return Err(TarError::TooLong {
                offset: self.offset.saturating_sub(BLOCK as u64),
                length: left,
                limit,
            });
        }
        self.about.clear();
        self.state = State::About { flag, left };
        Ok(())
    }

    /// The number of data bytes after a header.
    fn data_size(&self, flag: Flag, kind: Kind, stored: u64) -> Result<u64, TarError> {
        match kind {
            // All readers agree that a directory's size is a hint, and a hard link's that of the other file.
            Kind::HardLink => Ok(0),
            Kind::Directory if flag == Flag::Directory => Ok(0),
            Kind::File | Kind::Other => Ok(stored),
            _ if stored == 0 => Ok(0),
            _ => Err(self.broken(
                "only files have data, and readers disagree on whether what follows are data of this entry",
            )),
        }
    }

    /// Begins the content of an entry.
    fn content(
        &mut self,
        entry: Entry,
        header: &[u8],
        flag: Flag,
        map: Option<sparse::Pax>,
    ) -> Result<Option<Event<'static>>, TarError> {
        let stored = entry.size;
        match (flag, map) {
            (Flag::Sparse, None) => {
                let mut map = sparse::Map::default();
                let more = map.old_header(header).map_err(|why| self.broken(why))?;
                let size = header::real_size(header).map_err(|why| self.broken(why))?;
                if more {
                    self.state = State::Extended {
                        // Its size is that of the data until the map is complete.
                        entry,
                        map: map.of_size(size),
                    };
                    return Ok(None);
                }
                self.regions(entry, map.of_size(size), stored, stored)
                    .map(Some)
            }
            (Flag::OldFile | Flag::File, Some(sparse::Pax::Listed(map))) => {
                self.regions(entry, map, stored, stored).map(Some)
            }
            (Flag::OldFile | Flag::File, Some(sparse::Pax::InData { size })) => {
                self.state = State::Map {
                    entry,
                    numbers: sparse::Numbers::of_size(size),
                    left: stored,
                    size: stored,
                };
                Ok(None)
            }
            (_, Some(_)) => Err(self.broken("only a file can be sparse")),
            (_, None) => {
                self.state = match stored {
                    0 => State::Close { size: 0 },
                    left => State::Data { left, size: stored },
                };
                Ok(Some(Event::Entry(entry)))
            }
        }
    }

    /// Begins the data of a sparse file, of which `left` bytes are stored from here on.
    fn regions(
        &mut self,
        mut entry: Entry,
        map: sparse::Map,
        left: u64,
        stored: u64,
    ) -> Result<Event<'static>, TarError> {
        let regions = map.check(left).map_err(|why| self.broken(why))?;
        entry.size = regions.size();
        entry.stored = left;
        self.state = State::Regions {
            regions,
            size: stored,
        };
        Ok(Event::Entry(entry))
    }

    /// Another block of the map of an old GNU sparse file.
    fn more_of_map(&mut self) -> Result<Option<Event<'static>>, TarError> {
        let State::Extended { entry, mut map } = std::mem::replace(&mut self.state, State::Header)
        else {
            return Ok(None);
        };
        let block = std::mem::replace(&mut self.block, Vec::with_capacity(BLOCK));
        let more = map.old_block(&block).map_err(|why| self.broken(why))?;
        if more {
            self.state = State::Extended { entry, map };
            return Ok(None);
        }
        let stored = entry.size;
        self.regions(entry, map, stored, stored).map(Some)
    }

    /// Another block of the map in front of the data.
    fn more_numbers(&mut self) -> Result<Option<Event<'static>>, TarError> {
        let State::Map {
            entry,
            mut numbers,
            left,
            size,
        } = std::mem::replace(&mut self.state, State::Header)
        else {
            return Ok(None);
        };
        let block = std::mem::replace(&mut self.block, Vec::with_capacity(BLOCK));
        let left = left
            .checked_sub(BLOCK as u64)
            .ok_or_else(|| self.broken("the map of the sparse file is longer than its data"))?;
        let map = numbers.read(&block).map_err(|why| self.broken(why))?;
        if let Some(map) = map {
            return self.regions(entry, map, left, size).map(Some);
        }
        self.state = State::Map {
            entry,
            numbers,
            left,
            size,
        };
        Ok(None)
    }

    /// A long name or an extended header is complete.
    fn described(&mut self, flag: Flag) -> Result<(), TarError> {
        let mut about = std::mem::take(&mut self.about);
        let offset = self.offset;
        let length = about.len() as u64;
        let wrong = |why| TarError::Header { offset, why };
        match flag {
            Flag::Pax => self.pax = Some(header::Pax::parse(&about).map_err(wrong)?),
            Flag::GlobalPax => {
                let global = header::Pax::parse(&about).map_err(wrong)?;
                self.global.add_global(&global).map_err(wrong)?;
            }
            _ => {
                let end = about.iter().position(|byte| *byte == 0);
                about.truncate(end.unwrap_or(about.len()));
                if flag == Flag::LongName {
                    self.long_name = Some(about);
                } else {
                    self.long_link = Some(about);
                }
            }
        }
        self.padding = fill_up(length);
        Ok(())
    }
}

/// Bytes after this many, up to the next block.
fn fill_up(size: u64) -> u64 {
    (BLOCK as u64 - size % BLOCK as u64) % BLOCK as u64
}
