//! The partition table that is older than UEFI: in the first sector, for four partitions.

use super::{Canvas, SECTOR};

/// Where the first entry is.
const TABLE: u64 = 446;
/// What the sector ends with.
const SIGNATURE: [u8; 2] = [0x55, 0xaa];
/// A partition with data of Linux.
const LINUX: u8 = 0x83;
/// A disk that has another table.
const PROTECTED: u8 = 0xee;

/// Writes a table with one partition, which is to be started from.
pub(super) fn write(disk: &mut Canvas, start: u64, size: u64) {
    entry(disk, 0x80, LINUX, start / SECTOR, size / SECTOR);
}

/// Writes a table that says that everything up to the last sector is taken.
pub(super) fn protect(disk: &mut Canvas, last: u64) {
    entry(disk, 0, PROTECTED, 1, last);
}

fn entry(disk: &mut Canvas, status: u8, kind: u8, start: u64, sectors: u64) {
    let number = |number: u64| u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes();
    // Places in cylinders, heads and sectors are not used any more: as far as they go.
    let mut bytes = vec![status, 0xfe, 0xff, 0xff, kind, 0xfe, 0xff, 0xff];
    bytes.extend_from_slice(&number(start));
    bytes.extend_from_slice(&number(sectors));
    disk.write(TABLE, &bytes);
    disk.write(510, &SIGNATURE);
}
