//! Sparse files: which regions of a file an archive stores.
//!
//! Four forms mean the same (GNU tar manual, "Storing Sparse Files"): the old GNU header, and pax 0.0, 0.1 and
//! 1.0. A map is kept until the file is over, so it is bounded. It is refused unless all readers make the same
//! file of it: regions in order, apart, inside the file, and as long together as the data.

use serde::{Deserialize, Serialize};

use super::BLOCK;
use super::header::{decimal, number};

/// The most regions of a file: two megabytes of map. A fragmented disk of 100 GiB has fewer.
const MAX_REGIONS: usize = 128 << 10;

/// Bytes of a region in an old GNU header: two numbers.
const PAIR: usize = 24;

const BROKEN: &str = "the map of the sparse file is broken";
const TOO_MANY: &str = "the sparse file has more than 131072 regions";

/// Regions as an archive lists them: offset and length.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Map {
    regions: Vec<(u64, u64)>,
    /// Bytes of the file with its holes.
    size: u64,
}

impl Map {
    pub(super) fn of_size(self, size: u64) -> Self {
        Self { size, ..self }
    }

    fn push(&mut self, offset: u64, length: u64) -> Result<(), &'static str> {
        if self.regions.len() >= MAX_REGIONS {
            return Err(TOO_MANY);
        }
        self.regions.push((offset, length));
        Ok(())
    }

    /// The regions of an old GNU header; whether blocks with more of them follow.
    pub(super) fn old_header(&mut self, header: &[u8]) -> Result<bool, &'static str> {
        self.old_pairs(header.get(386..482).unwrap_or_default())?;
        Ok(header.get(482).is_some_and(|flag| *flag != 0))
    }

    /// The regions of a block behind an old GNU header; whether another follows.
    pub(super) fn old_block(&mut self, block: &[u8]) -> Result<bool, &'static str> {
        self.old_pairs(block.get(..21 * PAIR).unwrap_or_default())?;
        Ok(block.get(504).is_some_and(|flag| *flag != 0))
    }

    fn old_pairs(&mut self, pairs: &[u8]) -> Result<(), &'static str> {
        for pair in pairs.chunks_exact(PAIR) {
            let (offset, length) = pair.split_at(PAIR / 2);
            // A field that is not filled in ends the list.
            if length.first() == Some(&0) {
                break;
            }
            let number = |field| number(field).ok_or(BROKEN);
            self.push(number(offset)?, number(length)?)?;
        }
        Ok(())
    }

    /// Checks the map of a file of which so many bytes are stored.
    pub(super) fn check(self, stored: u64) -> Result<Regions, &'static str> {
        let mut end = 0_u64;
        let mut sum = 0_u64;
        let mut is_whole = true;
        for (offset, length) in &self.regions {
            if *offset < end {
                return Err("the regions of the sparse file overlap or are not in order");
            }
            if *length > 0 && !is_whole {
                return Err(
                    "a region inside the sparse file is no multiple of 512 bytes, which readers store differently",
                );
            }
            is_whole &= length % BLOCK as u64 == 0;
            end = offset.checked_add(*length).ok_or(BROKEN)?;
            sum = sum.checked_add(*length).ok_or(BROKEN)?;
        }
        if end > self.size {
            return Err("a region of the sparse file is behind its end");
        }
        if sum != stored {
            return Err("the regions of the sparse file are not as long as its data");
        }
        Ok(Regions {
            map: self,
            next: 0,
            at: 0,
        })
    }
}

/// What comes next of a sparse file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    Hole(u64),
    /// At most so many stored bytes.
    Data(u64),
    End,
}

/// A map that was checked, and a position in the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Regions {
    map: Map,
    next: usize,
    at: u64,
}

impl Regions {
    /// Bytes of the file with its holes.
    pub(super) fn size(&self) -> u64 {
        self.map.size
    }

    /// What comes next; a hole is passed by asking.
    pub(super) fn next(&mut self) -> Next {
        while let Some((offset, length)) = self.map.regions.get(self.next) {
            let end = offset.saturating_add(*length);
            if self.at < *offset {
                let hole = *offset - self.at;
                self.at = *offset;
                return Next::Hole(hole);
            }
            if self.at < end {
                return Next::Data(end - self.at);
            }
            self.next += 1;
        }
        let rest = self.map.size.saturating_sub(self.at);
        self.at = self.at.max(self.map.size);
        if rest > 0 {
            Next::Hole(rest)
        } else {
            Next::End
        }
    }

    /// So many stored bytes went by.
    pub(super) fn advance(&mut self, bytes: u64) {
        self.at = self.at.saturating_add(bytes);
    }
}

/// The sparse map in an extended header.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Pax {
    /// The whole map (0.0 and 0.1).
    Listed(Map),
    /// The map is in front of the data (1.0).
    InData {
        /// Bytes of the file with its holes.
        size: u64,
    },
}

/// Records of an extended header whose names begin with `GNU.sparse.`, as they come.
#[derive(Debug, Default)]
pub(super) struct Records {
    any: bool,
    major: Option<u64>,
    minor: Option<u64>,
    size: Option<u64>,
    /// The offset of a region whose length has not come yet (0.0).
    offset: Option<u64>,
    map: Map,
    /// The map was one record (0.1).
    is_listed: bool,
}

impl Records {
    pub(super) fn record(&mut self, name: &[u8], value: &[u8]) -> Result<(), &'static str> {
        self.any = true;
        let number = || decimal(value).ok_or(BROKEN);
        match name {
            b"major" => self.major = Some(number()?),
            b"minor" => self.minor = Some(number()?),
            b"size" | b"realsize" => self.size = Some(number()?),
            b"offset" => match self.offset.replace(number()?) {
                None => {}
                Some(_) => return Err(BROKEN),
            },
            b"numbytes" => {
                let offset = self.offset.take().ok_or(BROKEN)?;
                self.map.push(offset, number()?)?;
            }
            b"map" => {
                if std::mem::replace(&mut self.is_listed, true) || !self.map.regions.is_empty() {
                    return Err(BROKEN);
                }
                let mut numbers = value.split(|byte| *byte == b',');
                while let Some(offset) = numbers.next().filter(|text| !text.is_empty()) {
                    let length = numbers.next().ok_or(BROKEN)?;
                    let number = |text| decimal(text).ok_or(BROKEN);
                    self.map.push(number(offset)?, number(length)?)?;
                }
            }
            // Its number of regions is had by counting.
            _ => {}
        }
        Ok(())
    }

    pub(super) fn finish(self) -> Result<Option<Pax>, &'static str> {
        if !self.any {
            return Ok(None);
        }
        if self.offset.is_some() || (self.is_listed && self.map.regions.is_empty()) {
            return Err(BROKEN);
        }
        let size = self.size.ok_or("the sparse file has no size")?;
        match (self.major.unwrap_or(0), self.minor.unwrap_or(0)) {
            (0, 0 | 1) => Ok(Some(Pax::Listed(self.map.of_size(size)))),
            (1, 0) if self.map.regions.is_empty() => Ok(Some(Pax::InData { size })),
            _ => Err("the sparse file has an unknown format; 0.0, 0.1 and 1.0 are supported"),
        }
    }
}

/// The map in front of the data: decimal numbers, each with a new line behind it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Numbers {
    map: Map,
    /// Regions that are announced; known after the first number.
    count: Option<u64>,
    offset: Option<u64>,
    /// The digits so far of a number that continues in the next block.
    digits: Vec<u8>,
}

impl Numbers {
    pub(super) fn of_size(size: u64) -> Self {
        Self {
            map: Map::default().of_size(size),
            count: None,
            offset: None,
            digits: Vec::new(),
        }
    }

    /// Reads a block; the map if it ends there.
    pub(super) fn read(&mut self, block: &[u8]) -> Result<Option<Map>, &'static str> {
        for byte in block {
            if *byte != b'\n' {
                if self.digits.len() >= 20 {
                    return Err(BROKEN);
                }
                self.digits.push(*byte);
                continue;
            }
            let number = decimal(&self.digits).ok_or(BROKEN)?;
            self.digits.clear();
            match (self.count, self.offset.take()) {
                (None, _) => {
                    if number > MAX_REGIONS as u64 {
                        return Err(TOO_MANY);
                    }
                    self.count = Some(number);
                }
                (Some(_), None) => self.offset = Some(number),
                (Some(_), Some(offset)) => self.map.push(offset, number)?,
            }
            if self.count == Some(self.map.regions.len() as u64) {
                return Ok(Some(std::mem::take(&mut self.map)));
            }
        }
        Ok(None)
    }
}
