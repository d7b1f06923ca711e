//! The FAT16 file system of the EFI system partition, with one file.
//!
//! ```text
//! boot sector | table | its copy | root folder | clusters: EFI, BOOT, the file
//! ```

use super::{Canvas, SECTOR, low};
use crate::hash;

/// Cluster size in bytes: two sectors.
const CLUSTER: u64 = 2 * SECTOR;
/// Number of entries in the root directory.
const ROOT: u64 = 512;
/// Size of a directory entry in bytes.
const ENTRY: u64 = 32;
/// Attribute of directories.
const FOLDER: u8 = 0x10;
/// Attribute of the volume label.
const LABEL: u8 = 0x08;
/// End of a cluster chain.
const LAST: u16 = 0xffff;
/// The date of all entries: 2026-01-01.
const DAY: u16 = (46 << 9) | (1 << 5) | 1;

/// Writes a file system with `\EFI\BOOT\<file>`; `file` is in 8.3 format without the dot, padded
/// with blanks.
pub(super) fn write(
    disk: &mut Canvas,
    at: u64,
    size: u64,
    name: &str,
    file: &[u8; 11],
    content: &[u8],
) {
    let sectors = size / SECTOR;
    let root_sectors = ROOT * ENTRY / SECTOR;
    // Slightly more entries than clusters, because the sectors of the tables are counted, too.
    let table_sectors = (sectors / 2 * 2).div_ceil(SECTOR);
    let tables = at + SECTOR;
    let root = tables + 2 * table_sectors * SECTOR;
    let clusters = root + root_sectors * SECTOR;

    let serial = low(hash::of(name.as_bytes())) & 0xffff_ffff;
    let mut first = vec![0xeb, 0x3c, 0x90];
    first.extend_from_slice(b"MEDLEY  ");
    first.extend_from_slice(&small(SECTOR));
    first.push(2); // sectors per cluster
    first.extend_from_slice(&small(1)); // sectors before the tables
    first.push(2); // tables
    first.extend_from_slice(&small(ROOT));
    first.extend_from_slice(&small(sectors));
    first.push(0xf8); // fixed disk
    first.extend_from_slice(&small(table_sectors));
    first.extend_from_slice(&small(32)); // sectors per track, and heads: unused
    first.extend_from_slice(&small(64));
    first.extend_from_slice(&large(at / SECTOR));
    first.extend_from_slice(&large(0)); // sectors, if there are more
    first.extend_from_slice(&[0x80, 0, 0x29]);
    first.extend_from_slice(&large(serial));
    first.extend_from_slice(b"EFI        ");
    first.extend_from_slice(b"FAT16   ");
    disk.write(at, &first);
    disk.write(at + 510, &[0x55, 0xaa]);

    let needed = (content.len() as u64).div_ceil(CLUSTER).max(1);
    // The first two entries are reserved. Then follow the two directories, one cluster each, and
    // the file in consecutive clusters.
    let mut table: Vec<u16> = vec![0xfff8, LAST, LAST, LAST];
    for next in 5..4 + needed {
        table.push(u16::try_from(next).unwrap_or(LAST));
    }
    table.push(LAST);
    let table: Vec<u8> = table.into_iter().flat_map(u16::to_le_bytes).collect();
    disk.write(tables, &table);
    disk.write(tables + table_sectors * SECTOR, &table);

    let mut entries = entry(b"EFI        ", LABEL, 0, 0);
    entries.extend(entry(b"EFI        ", FOLDER, 2, 0));
    disk.write(root, &entries);
    let mut entries = entry(b".          ", FOLDER, 2, 0);
    entries.extend(entry(b"..         ", FOLDER, 0, 0));
    entries.extend(entry(b"BOOT       ", FOLDER, 3, 0));
    disk.write(clusters, &entries);
    let mut entries = entry(b".          ", FOLDER, 3, 0);
    entries.extend(entry(b"..         ", FOLDER, 2, 0));
    entries.extend(entry(file, 0x20, 4, content.len() as u64));
    disk.write(clusters + CLUSTER, &entries);
    disk.write(clusters + 2 * CLUSTER, content);
}

/// A directory entry.
fn entry(name: &[u8; 11], marks: u8, cluster: u16, size: u64) -> Vec<u8> {
    let mut bytes = name.to_vec();
    bytes.push(marks);
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(&DAY.to_le_bytes()); // created
    bytes.extend_from_slice(&DAY.to_le_bytes()); // accessed
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(&DAY.to_le_bytes()); // modified
    bytes.extend_from_slice(&cluster.to_le_bytes());
    bytes.extend_from_slice(&large(size));
    bytes
}

/// All sizes are far below the maximum of these fields.
fn small(number: u64) -> [u8; 2] {
    u16::try_from(number).unwrap_or(u16::MAX).to_le_bytes()
}

fn large(number: u64) -> [u8; 4] {
    u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes()
}
