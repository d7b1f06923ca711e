//! Indexes the files in a tar archive without unpacking it.

use std::collections::HashMap;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use super::layout::open_regular;
use crate::error::Cause;

/// The block size of tar files.
const BLOCK: u64 = 512;

/// Upper bound of files; a layout has a handful.
const MAX_MEMBERS: usize = 100_000;

/// Upper bound of a file name and of a pax header.
const MAX_NAME_BYTES: u64 = 4096;
const LONGEST_EXTENSION: u64 = 64 * 1024;

/// The position of a file in an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) offset: u64,
    pub(super) size: u64,
}

/// The regular files of an archive. Blocking.
pub(super) fn members(path: &Path) -> Result<HashMap<String, Member>, Cause> {
    let wrong = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => Cause::NotFound {
            said: "no such file".to_owned(),
        },
        _ => Cause::File(error.to_string()),
    };
    let file = open_regular(path).map_err(wrong)?;
    let length = file.metadata().map_err(wrong)?.len();
    read(std::io::BufReader::new(file), length)
}

/// The regular files of an archive of some length.
pub(super) fn read(
    mut archive: impl Read + Seek,
    length: u64,
) -> Result<HashMap<String, Member>, Cause> {
    let mut found = HashMap::new();
    let mut at = 0_u64;
    let mut count = 0_usize;
    // Attributes from an extension header for the next file.
    let (mut next_name, mut next_size): (Option<String>, Option<u64>) = (None, None);
    while at < length {
        let mut header = [0_u8; 512];
        if archive.read_exact(&mut header).is_err() {
            return Err(truncated(length, at));
        }
        at += BLOCK;
        if header.iter().all(|byte| *byte == 0) {
            break;
        }
        if !checksum_is_right(&header) {
            return Err(Cause::Invalid(match header {
                [0x1f, 0x8b, ..] | [0x28, 0xb5, 0x2f, 0xfd, ..] | [0xfd, b'7', b'z', ..] => {
                    "a compressed archive: expected a plain tar file".to_owned()
                }
                _ => format!("byte {} does not begin a tar header", at - BLOCK),
            }));
        }
        count += 1;
        if count > MAX_MEMBERS {
            return Err(Cause::Invalid(format!("more than {MAX_MEMBERS} files")));
        }
        let kind = header.get(156).copied().unwrap_or_default();
        // The size in a pax header is for the next file, not for another extension header before it. Readers that
        // disagree about which size counts show two contents of one archive (CVE-2025-62518 of tokio-tar).
        let is_extension = matches!(kind, b'L' | b'K' | b'x' | b'g');
        let written = number(header.get(124..136).unwrap_or_default())
            .ok_or_else(|| Cause::Invalid("a file without a size".to_owned()))?;
        let size = match next_size {
            Some(size) if !is_extension => size,
            _ => written,
        };
        let end = at.checked_add(size).filter(|end| *end <= length);
        let end = end.ok_or_else(|| truncated(at.saturating_add(size), length))?;
        match kind {
            b'L' | b'x' => {
                let most = if kind == b'L' {
                    MAX_NAME_BYTES
                } else {
                    LONGEST_EXTENSION
                };
                if size > most {
                    return Err(Cause::Invalid(format!(
                        "{size} bytes about a file, the maximum is {most}"
                    )));
                }
                let mut bytes = Vec::new();
                let taken = (&mut archive).take(size).read_to_end(&mut bytes);
                if taken.ok().and_then(|taken| u64::try_from(taken).ok()) != Some(size) {
                    return Err(truncated(end, at));
                }
                if kind == b'L' {
                    next_name = Some(text(&bytes));
                } else {
                    for (key, value) in records(&bytes) {
                        match key {
                            "path" => next_name = Some(value.to_owned()),
                            "size" => next_size = value.parse().ok(),
                            _ => {}
                        }
                    }
                }
            }
            // Link names and global headers are not needed.
            b'K' | b'g' => {}
            _ => {
                let name = next_name.take().unwrap_or_else(|| name_of(&header));
                next_size = None;
                if matches!(kind, b'0' | 0 | b'7') {
                    // Of several files with one name the last counts, as when unpacking.
                    let name = name.trim_start_matches("./").to_owned();
                    found.insert(name, Member { offset: at, size });
                }
            }
        }
        at = end.div_ceil(BLOCK).saturating_mul(BLOCK);
        archive
            .seek(SeekFrom::Start(at))
            .map_err(|error| Cause::File(error.to_string()))?;
    }
    Ok(found)
}

fn truncated(expected: u64, found: u64) -> Cause {
    Cause::Truncated { expected, found }
}

/// The sum of all bytes, with the checksum field taken as spaces.
fn checksum_is_right(header: &[u8; 512]) -> bool {
    let sum: u64 = header
        .iter()
        .enumerate()
        .map(|(at, byte)| {
            u64::from(if (148..156).contains(&at) {
                b' '
            } else {
                *byte
            })
        })
        .sum();
    number(header.get(148..156).unwrap_or_default()) == Some(sum)
}

/// A number: octal digits, or base 256 if the first bit is set.
fn number(field: &[u8]) -> Option<u64> {
    if let [first, rest @ ..] = field
        && first & 0x80 != 0
    {
        let mut value = u64::from(first & 0x7f);
        for byte in rest {
            value = value.checked_mul(256)?.checked_add(u64::from(*byte))?;
        }
        return Some(value);
    }
    let digits = std::str::from_utf8(field).ok()?.trim_matches(['\0', ' ']);
    if digits.is_empty() {
        return Some(0);
    }
    u64::from_str_radix(digits, 8).ok()
}

fn name_of(header: &[u8; 512]) -> String {
    let name = text(header.get(..100).unwrap_or_default());
    let prefix = match header.get(257..263) {
        Some(b"ustar\0") => text(header.get(345..500).unwrap_or_default()),
        _ => String::new(),
    };
    if prefix.is_empty() {
        name
    } else {
        format!("{prefix}/{name}")
    }
}

/// Up to the first null byte.
fn text(bytes: &[u8]) -> String {
    let end = bytes
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(bytes.len());
    String::from_utf8_lossy(bytes.get(..end).unwrap_or_default()).into_owned()
}

/// The records of a pax header: `length key=value\n`, where the length counts all of it.
fn records(bytes: &[u8]) -> Vec<(&str, &str)> {
    let mut found = Vec::new();
    let mut rest = bytes;
    while let Some(space) = rest.iter().position(|byte| *byte == b' ') {
        let length = rest
            .get(..space)
            .and_then(|digits| std::str::from_utf8(digits).ok()?.parse::<usize>().ok());
        let Some((record, after)) = length
            .filter(|length| *length > space + 1)
            .and_then(|length| Some((rest.get(space + 1..length)?, rest.get(length..)?)))
        else {
            break;
        };
        let pair = std::str::from_utf8(record)
            .ok()
            .and_then(|record| record.strip_suffix('\n')?.split_once('='));
        found.extend(pair);
        rest = after;
    }
    found
}
