//! One block of an archive, and extended headers.

use serde::{Deserialize, Serialize};

use super::sparse;

/// The type of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Kind {
    /// Type 0: a file, or a directory if its name ends in a slash.
    OldFile,
    File,
    Sparse,
    HardLink,
    SymbolicLink,
    Directory,
    CharacterDevice,
    BlockDevice,
    Pipe,
    Other,
    LongName,
    LongLink,
    Pax,
    GlobalPax,
}

/// A header.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) path: Vec<u8>,
    pub(super) link: Vec<u8>,
    pub(super) kind: Kind,
    pub(super) size: u64,
    pub(super) mode: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) modified: i64,
    pub(super) device: (u32, u32),
    /// It has the magic of ustar, not that of GNU or none.
    pub(super) is_posix: bool,
}

impl Block {
    /// Reads a block of 512 bytes.
    pub(super) fn parse(block: &[u8]) -> Result<Self, &'static str> {
        let field = |at: usize, length: usize| block.get(at..at + length).unwrap_or_default();
        checksum(block, field(148, 8))?;
        let name = text(field(0, 100));
        let posix = field(257, 6) == b"ustar\0";
        let prefix = text(field(345, 155));
        let path = if posix && !prefix.is_empty() {
            [prefix, name].join(&b'/')
        } else {
            name.to_vec()
        };
        let kind = match field(156, 1).first() {
            Some(0) => Kind::OldFile,
            Some(b'1') => Kind::HardLink,
            Some(b'2') => Kind::SymbolicLink,
            Some(b'3') => Kind::CharacterDevice,
            Some(b'4') => Kind::BlockDevice,
            Some(b'5') => Kind::Directory,
            Some(b'6') => Kind::Pipe,
            Some(b'S') => Kind::Sparse,
            Some(b'L') => Kind::LongName,
            Some(b'K') => Kind::LongLink,
            // Solaris introduced it as `X`.
            Some(b'x' | b'X') => Kind::Pax,
            Some(b'g') => Kind::GlobalPax,
            // GNU extensions: dump directories, multi-volume parts, labels.
            Some(b'D' | b'M' | b'V') => Kind::Other,
            // '0' and '7' (contiguous) are files; POSIX treats unknown types as files, too, and so do
            // GNU and Python.
            _ => Kind::File,
        };
        // Only the size determines where the next header is; other fields may be malformed in odd
        // archives.
        let small = |at: usize, length: usize| {
            let number = number(field(at, length)).unwrap_or_default();
            u32::try_from(number).unwrap_or_default()
        };
        let modified = number(field(136, 12)).unwrap_or_default();
        Ok(Self {
            path,
            link: text(field(157, 100)).to_vec(),
            kind,
            mode: small(100, 8) & 0o7777,
            uid: small(108, 8),
            gid: small(116, 8),
            modified: i64::try_from(modified).unwrap_or_default(),
            device: (small(329, 8), small(337, 8)),
            is_posix: posix,
            size: number(field(124, 12)).ok_or("its size is no number")?,
        })
    }
}

/// Up to the first zero.
fn text(field: &[u8]) -> &[u8] {
    field.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// The size of an old GNU sparse file with its holes.
pub(super) fn real_size(header: &[u8]) -> Result<u64, &'static str> {
    number(header.get(483..495).unwrap_or_default())
        .ok_or("the size of the sparse file is no number")
}

/// Octal digits, or a number in base 256 with the highest bit set.
pub(super) fn number(field: &[u8]) -> Option<u64> {
    if let Some((first, rest)) = field.split_first()
        && first & 0x80 != 0
    {
        // The second highest bit is the sign.
        if first & 0x40 != 0 {
            return None;
        }
        return rest.iter().try_fold(u64::from(first & 0x3f), |sum, byte| {
            sum.checked_mul(256)?.checked_add(u64::from(*byte))
        });
    }
    let digits = text(field).trim_ascii();
    digits.iter().try_fold(0_u64, |sum, byte| match byte {
        b'0'..=b'7' => sum.checked_mul(8)?.checked_add(u64::from(byte - b'0')),
        _ => None,
    })
}

/// The sum of all bytes, with blanks for the sum itself. Some programs added signed bytes.
fn checksum(block: &[u8], field: &[u8]) -> Result<(), &'static str> {
    let expected = number(field).ok_or("its checksum is no number")?;
    let bytes = || {
        block.iter().enumerate().map(|(at, byte)| {
            if (148..156).contains(&at) {
                b' '
            } else {
                *byte
            }
        })
    };
    let unsigned: u64 = bytes().map(u64::from).sum();
    let signed: i64 = bytes().map(|byte| i64::from(byte.cast_signed())).sum();
    if expected == unsigned || i64::try_from(expected) == Ok(signed) {
        Ok(())
    } else {
        Err("its checksum is wrong")
    }
}

/// The contents of an extended header.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub(super) struct Pax {
    pub(super) path: Option<Vec<u8>>,
    pub(super) link: Option<Vec<u8>>,
    pub(super) size: Option<u64>,
    /// The name of a sparse file, whose path is synthetic for readers without support.
    #[serde(default)]
    pub(super) real_name: Option<Vec<u8>>,
    #[serde(default)]
    pub(super) sparse: Option<sparse::Pax>,
    #[serde(default)]
    pub(super) uid: Option<u32>,
    #[serde(default)]
    pub(super) gid: Option<u32>,
    #[serde(default)]
    pub(super) modified: Option<(i64, u32)>,
    #[serde(default)]
    pub(super) extended: Vec<(Vec<u8>, Vec<u8>)>,
}

/// The record prefix of extended attributes.
const EXTENDED: &[u8] = b"SCHILY.xattr.";

impl Pax {
    /// Reads records: a length in decimal, a blank, a name, `=`, a value, a new line.
    pub(super) fn parse(mut records: &[u8]) -> Result<Self, &'static str> {
        const BROKEN: &str = "a record of the extended header is broken";
        let mut pax = Self::default();
        let mut map = sparse::Records::default();
        while !records.is_empty() {
            let blank = records
                .iter()
                .take(20)
                .position(|byte| *byte == b' ')
                .ok_or(BROKEN)?;
            let length = records.get(..blank).and_then(decimal).ok_or(BROKEN)?;
            let length = usize::try_from(length).map_err(|_| BROKEN)?;
            let (record, rest) = records.split_at_checked(length).ok_or(BROKEN)?;
            records = rest;
            let record = record
                .get(blank + 1..)
                .and_then(|record| record.strip_suffix(b"\n"))
                .ok_or(BROKEN)?;
            let equals = record.iter().position(|byte| *byte == b'=').ok_or(BROKEN)?;
            let (name, value) = record.split_at(equals);
            let value = value.get(1..).unwrap_or_default();
            // POSIX: an empty value resets an earlier one.
            let non_empty = Some(value).filter(|value| !value.is_empty());
            match name {
                b"path" => pax.path = non_empty.map(file_name).transpose()?,
                b"linkpath" => pax.link = non_empty.map(file_name).transpose()?,
                b"size" => {
                    let size = non_empty.map(|value| {
                        decimal(value).ok_or("the size of the extended header is no number")
                    });
                    pax.size = size.transpose()?;
                }
                b"uid" => pax.uid = small(value),
                b"gid" => pax.gid = small(value),
                b"mtime" => pax.modified = moment(value),
                b"GNU.sparse.name" => pax.real_name = non_empty.map(file_name).transpose()?,
                _ => {
                    if let Some(name) = name.strip_prefix(b"GNU.sparse.") {
                        map.record(name, value)?;
                    } else if let Some(name) = name.strip_prefix(EXTENDED) {
                        pax.extended.push((name.to_vec(), value.to_vec()));
                    }
                }
            }
        }
        pax.sparse = map.finish()?;
        if pax.sparse.is_none() && pax.real_name.is_some() {
            return Err("it names a sparse file that has no map");
        }
        Ok(pax)
    }

    /// Merges a global extended header, which applies to all entries.
    pub(super) fn add_global(&mut self, global: &Self) -> Result<(), &'static str> {
        if global.path.is_some()
            || global.link.is_some()
            || global.size.is_some()
            || global.sparse.is_some()
        {
            return Err(
                "it gives all entries one path or one size, which readers apply differently",
            );
        }
        self.uid = global.uid.or(self.uid);
        self.gid = global.gid.or(self.gid);
        self.modified = global.modified.or(self.modified);
        Ok(())
    }
}

/// A name without null bytes: some readers would end it there, others not.
fn file_name(value: &[u8]) -> Result<Vec<u8>, &'static str> {
    if value.contains(&0) {
        return Err("a name in the extended header contains a null byte");
    }
    Ok(value.to_vec())
}

/// Digits and nothing else.
pub(super) fn decimal(value: &[u8]) -> Option<u64> {
    if value.is_empty() {
        return None;
    }
    value.iter().try_fold(0_u64, |sum, byte| match byte {
        b'0'..=b'9' => sum.checked_mul(10)?.checked_add(u64::from(byte - b'0')),
        _ => None,
    })
}

fn small(value: &[u8]) -> Option<u32> {
    decimal(value)?.try_into().ok()
}

/// Seconds with a fraction, which may be before 1970.
fn moment(value: &[u8]) -> Option<(i64, u32)> {
    let text = std::str::from_utf8(value).ok()?;
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let seconds: i64 = whole.parse().ok()?;
    let digits: String = fraction
        .chars()
        .chain("000000000".chars())
        .take(9)
        .collect();
    let nanoseconds: u32 = digits.parse().ok()?;
    if whole.starts_with('-') && nanoseconds > 0 {
        // -1.25 is a quarter of a second before -1.
        return Some((seconds.checked_sub(1)?, 1_000_000_000 - nanoseconds));
    }
    Some((seconds, nanoseconds))
}
