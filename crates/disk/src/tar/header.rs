//! One block of an archive, and extended headers.

use serde::{Deserialize, Serialize};

/// What a block describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Kind {
    File,
    Sparse,
    HardLink,
    SymbolicLink,
    Directory,
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
    /// More blocks of a sparse header follow.
    pub(super) extended: bool,
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
            // Old archives mark directories by their name alone.
            Some(0 | b'0' | b'7') if path.ends_with(b"/") => Kind::Directory,
            Some(0 | b'0' | b'7') => Kind::File,
            Some(b'1') => Kind::HardLink,
            Some(b'2') => Kind::SymbolicLink,
            Some(b'5') => Kind::Directory,
            Some(b'S') => Kind::Sparse,
            Some(b'L') => Kind::LongName,
            Some(b'K') => Kind::LongLink,
            Some(b'x') => Kind::Pax,
            Some(b'g') => Kind::GlobalPax,
            _ => Kind::Other,
        };
        Ok(Self {
            path,
            link: text(field(157, 100)).to_vec(),
            kind,
            size: number(field(124, 12)).ok_or("its size is no number")?,
            extended: field(482, 1) != [0],
        })
    }
}

/// Up to the first zero.
fn text(field: &[u8]) -> &[u8] {
    field.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// Octal digits, or a number in base 256 with the highest bit set.
fn number(field: &[u8]) -> Option<u64> {
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

/// What an extended header says about the next entry.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub(super) struct Pax {
    pub(super) path: Option<Vec<u8>>,
    pub(super) link: Option<Vec<u8>>,
    pub(super) size: Option<u64>,
    pub(super) sparse: bool,
}

impl Pax {
    /// Reads records: a length in decimal, a blank, a name, `=`, a value, a new line.
    pub(super) fn parse(mut records: &[u8]) -> Result<Self, &'static str> {
        const BROKEN: &str = "a record of the extended header is broken";
        let mut pax = Self::default();
        let mut real_name = None;
        while !records.is_empty() {
            let blank = records
                .iter()
                .take(20)
                .position(|byte| *byte == b' ')
                .ok_or(BROKEN)?;
            let length = records
                .get(..blank)
                .and_then(|digits| std::str::from_utf8(digits).ok())
                .and_then(|digits| digits.parse::<usize>().ok())
                .ok_or(BROKEN)?;
            let (record, rest) = records.split_at_checked(length).ok_or(BROKEN)?;
            records = rest;
            let record = record
                .get(blank + 1..)
                .and_then(|record| record.strip_suffix(b"\n"))
                .ok_or(BROKEN)?;
            let equals = record.iter().position(|byte| *byte == b'=').ok_or(BROKEN)?;
            let (name, value) = record.split_at(equals);
            let value = value.get(1..).unwrap_or_default();
            match name {
                b"path" => pax.path = Some(value.to_vec()),
                b"linkpath" => pax.link = Some(value.to_vec()),
                b"size" => {
                    let size = std::str::from_utf8(value)
                        .ok()
                        .and_then(|value| value.parse().ok());
                    pax.size = Some(size.ok_or("the size of the extended header is no number")?);
                }
                b"GNU.sparse.name" => real_name = Some(value.to_vec()),
                _ if name.starts_with(b"GNU.sparse.") => pax.sparse = true,
                _ => {}
            }
        }
        pax.path = real_name.or(pax.path);
        Ok(pax)
    }
}
