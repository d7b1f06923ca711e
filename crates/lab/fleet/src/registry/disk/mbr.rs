//! Master boot records: in the first sector, for four partitions.

use super::{Canvas, SECTOR};

/// Offset of the first entry.
const TABLE: u64 = 446;
/// The boot signature.
const SIGNATURE: [u8; 2] = [0x55, 0xaa];
/// A Linux partition.
const LINUX: u8 = 0x83;
/// A protective entry for a disk with a GPT.
const PROTECTED: u8 = 0xee;

/// Writes a table with one active partition.
pub(super) fn write(disk: &mut Canvas, start: u64, size: u64) {
    entry(disk, 0x80, LINUX, start / SECTOR, size / SECTOR);
}

/// Writes a protective table over the whole disk.
pub(super) fn protect(disk: &mut Canvas, last: u64) {
    entry(disk, 0, PROTECTED, 1, last);
}

fn entry(disk: &mut Canvas, status: u8, kind: u8, start: u64, sectors: u64) {
    let number = |number: u64| u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes();
    // Cylinder, head and sector are obsolete: set to their maximum.
    let mut bytes = vec![status, 0xfe, 0xff, 0xff, kind, 0xfe, 0xff, 0xff];
    bytes.extend_from_slice(&number(start));
    bytes.extend_from_slice(&number(sectors));
    disk.write(TABLE, &bytes);
    disk.write(510, &SIGNATURE);
}
