//! Archives, read as they stream by: ustar, GNU and pax.
//!
//! It is fed bytes and gives events; nothing is kept but one header and the names in front of it,
//! which are bounded. Names are bytes: an archive does not say what they mean.

mod header;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use header::{Block, Kind as Flag};

/// Bytes of a block.
const BLOCK: usize = 512;

/// The longest extended header, long name or long link.
const LONGEST: u64 = 1 << 20;

/// Why an archive is not read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TarError {
    /// A header that is none.
    #[error("the archive has no valid header at byte {offset}: {why}")]
    Header {
        /// Where it begins.
        offset: u64,
        /// What is wrong with it.
        why: &'static str,
    },
    /// Names or extended headers that are too long.
    #[error("the extended header at byte {offset} has {length} bytes; {LONGEST} are the most")]
    TooLong {
        /// Where it begins.
        offset: u64,
        /// What it says.
        length: u64,
    },
    /// It ends inside something.
    #[error("the archive is cut off at byte {offset}")]
    Truncated {
        /// How many bytes there are.
        offset: u64,
    },
}

/// What an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// A file.
    File,
    /// A file of which only parts are stored.
    Sparse,
    /// Another name of an entry before it, or of a layer below.
    HardLink,
    /// A path to follow.
    SymbolicLink,
    /// A folder.
    Directory,
    /// A device that is read byte by byte.
    CharacterDevice,
    /// A device with blocks.
    BlockDevice,
    /// A pipe with a name.
    Pipe,
    /// Whatever else there may be.
    Other,
}

/// An entry of an archive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Its name, as bytes: nobody says what they mean.
    pub path: Vec<u8>,
    /// What a link points to.
    pub link: Vec<u8>,
    /// What it is.
    pub kind: Kind,
    /// Bytes that follow.
    pub size: u64,
    /// What else there is to know. Checkpoints of before had none.
    #[serde(default)]
    pub attributes: Attributes,
}

/// What an entry has besides its content.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Attributes {
    /// Permissions, with the bits for set-user-id and the like.
    pub mode: u32,
    /// Whose it is.
    pub uid: u32,
    /// Which group's it is.
    pub gid: u32,
    /// Seconds since 1970 of its last change, and nanoseconds after them.
    pub modified: (i64, u32),
    /// Major and minor number of a device.
    pub device: (u32, u32),
    /// Extended attributes: names and values.
    pub extended: Vec<(Vec<u8>, Vec<u8>)>,
}

/// What was read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Event<'a> {
    Entry(Entry),
    /// The next bytes of the entry.
    Data(&'a [u8]),
    /// There is no more of the entry.
    End,
}

/// Where the reader is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum State {
    Header,
    /// More blocks of an old GNU sparse header.
    Extended(Entry),
    /// Something that describes the next entry.
    About {
        flag: Flag,
        left: u64,
    },
    Data {
        left: u64,
        size: u64,
    },
    /// After the last byte of an entry.
    Close {
        size: u64,
    },
    /// After the end, whatever there is.
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
    pax: header::Pax,
    offset: u64,
    blank: bool,
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
            pax: header::Pax::default(),
            offset: 0,
            blank: false,
        }
    }
}

impl Reader {
    /// The next event in `input`, which is shortened by what was used. None if it is used up.
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
                State::Extended(entry) => {
                    let entry = entry.clone();
                    if !self.fill(input) {
                        return Ok(None);
                    }
                    let more = self.block.get(504).is_some_and(|flag| *flag != 0);
                    self.block.clear();
                    if !more {
                        return Ok(Some(self.open(entry)));
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

    /// There is no more input.
    pub(crate) fn end(&self) -> Result<(), TarError> {
        // Archives without their two last blocks are common.
        let whole = match self.state {
            State::Over => true,
            State::Header => self.block.is_empty() && self.padding == 0,
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

    /// Whether a whole block is there.
    fn fill(&mut self, input: &mut &[u8]) -> bool {
        let missing = BLOCK - self.block.len();
        let part = self.take(input, missing as u64);
        self.block.extend_from_slice(part);
        self.block.len() == BLOCK
    }

    fn header(&mut self) -> Result<Option<Event<'static>>, TarError> {
        let offset = self.offset - BLOCK as u64;
        let bytes = std::mem::replace(&mut self.block, Vec::with_capacity(BLOCK));
        if crate::content::is_zero(&bytes) {
            // Two blocks of zeros are the end.
            if self.blank {
                self.state = State::Over;
            }
            self.blank = true;
            return Ok(None);
        }
        self.blank = false;
        let block = Block::parse(&bytes).map_err(|why| TarError::Header { offset, why })?;
        if let Flag::LongName | Flag::LongLink | Flag::Pax | Flag::GlobalPax = block.kind {
            if block.size > LONGEST {
                return Err(TarError::TooLong {
                    offset,
                    length: block.size,
                });
            }
            self.about.clear();
            self.state = State::About {
                flag: block.kind,
                left: block.size,
            };
            return Ok(None);
        }
        let pax = std::mem::take(&mut self.pax);
        let long_name = self.long_name.take();
        let long_link = self.long_link.take();
        let kind = match block.kind {
            Flag::File if pax.sparse => Kind::Sparse,
            Flag::File => Kind::File,
            Flag::Sparse => Kind::Sparse,
            Flag::HardLink => Kind::HardLink,
            Flag::SymbolicLink => Kind::SymbolicLink,
            Flag::Directory => Kind::Directory,
            Flag::CharacterDevice => Kind::CharacterDevice,
            Flag::BlockDevice => Kind::BlockDevice,
            Flag::Pipe => Kind::Pipe,
            _ => Kind::Other,
        };
        let attributes = Attributes {
            mode: block.mode,
            uid: pax.uid.unwrap_or(block.uid),
            gid: pax.gid.unwrap_or(block.gid),
            modified: pax.modified.unwrap_or((block.modified, 0)),
            device: block.device,
            extended: pax.extended,
        };
        let entry = Entry {
            path: pax.path.or(long_name).unwrap_or(block.path),
            link: pax.link.or(long_link).unwrap_or(block.link),
            // What has no data has none, whatever its header says.
            size: match kind {
                Kind::File | Kind::Sparse => pax.size.unwrap_or(block.size),
                _ => 0,
            },
            kind,
            attributes,
        };
        if block.kind == Flag::Sparse && block.extended {
            self.state = State::Extended(entry);
            return Ok(None);
        }
        Ok(Some(self.open(entry)))
    }

    fn open(&mut self, entry: Entry) -> Event<'static> {
        let size = entry.size;
        self.state = match size {
            0 => State::Close { size },
            left => State::Data { left, size },
        };
        Event::Entry(entry)
    }

    /// A long name or an extended header is complete.
    fn described(&mut self, flag: Flag) -> Result<(), TarError> {
        let mut about = std::mem::take(&mut self.about);
        let offset = self.offset;
        let length = about.len() as u64;
        match flag {
            Flag::Pax => {
                self.pax =
                    header::Pax::parse(&about).map_err(|why| TarError::Header { offset, why })?;
            }
            // What is said of all entries is of no use here: no two have one name.
            Flag::GlobalPax => {}
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
