//! GUID partition tables, with the backup at the end of the disk.

use super::{Canvas, Partition, SECTOR, mbr};
use crate::hash;

/// Type of the EFI system partition: C12A7328-F81F-11D2-BA4B-00A0C93EC93B.
pub(super) const FIRMWARE: [u8; 16] = [
    0x28, 0x73, 0x2a, 0xc1, 0x1f, 0xf8, 0xd2, 0x11, 0xba, 0x4b, 0x00, 0xa0, 0xc9, 0x3e, 0xc9, 0x3b,
];
/// Type of Linux file system partitions: 0FC63DAF-8483-4772-8E79-3D69D8477DE4.
pub(super) const SYSTEM: [u8; 16] = [
    0xaf, 0x3d, 0xc6, 0x0f, 0x83, 0x84, 0x72, 0x47, 0x8e, 0x79, 0x3d, 0x69, 0xd8, 0x47, 0x7d, 0xe4,
];

/// Number of entries in a table, and their size in bytes.
const ENTRIES: u32 = 128;
const ENTRY: usize = 128;
/// Number of sectors of the entries.
const ENTRY_SECTORS: u64 = 32;
/// Maximum length of a partition name.
const NAME: usize = 36;

/// Writes both tables and a protective MBR.
pub(super) fn write(disk: &mut Canvas, name: &str, partitions: &[Partition]) {
    let last = disk.size() / SECTOR - 1;
    mbr::protect(disk, last);
    let mut entries = vec![0; ENTRIES as usize * ENTRY];
    for (entry, partition) in entries.chunks_mut(ENTRY).zip(partitions) {
        let mut bytes = Vec::with_capacity(ENTRY);
        bytes.extend_from_slice(&partition.kind);
        bytes.extend_from_slice(&identity(&format!("{name}/{}", partition.name)));
        let start = partition.start / SECTOR;
        bytes.extend_from_slice(&start.to_le_bytes());
        let end = start + partition.size / SECTOR - 1;
        bytes.extend_from_slice(&end.to_le_bytes());
        bytes.extend_from_slice(&0u64.to_le_bytes());
        for unit in partition.name.encode_utf16().take(NAME) {
            bytes.extend_from_slice(&unit.to_le_bytes());
        }
        // 56 bytes and at most 72 of a name, which is an entry.
        entry[..bytes.len()].copy_from_slice(&bytes);
    }
    let header = |here: u64, there: u64, table: u64| {
        let mut bytes = Vec::with_capacity(92);
        bytes.extend_from_slice(b"EFI PART");
        bytes.extend_from_slice(&0x0001_0000u32.to_le_bytes());
        bytes.extend_from_slice(&92u32.to_le_bytes());
        // The header checksum, computed over zero in its place, and a reserved field.
        bytes.extend_from_slice(&[0; 8]);
        bytes.extend_from_slice(&here.to_le_bytes());
        bytes.extend_from_slice(&there.to_le_bytes());
        let first = 2 + ENTRY_SECTORS;
        bytes.extend_from_slice(&first.to_le_bytes());
        bytes.extend_from_slice(&(last - 1 - ENTRY_SECTORS).to_le_bytes());
        bytes.extend_from_slice(&identity(name));
        bytes.extend_from_slice(&table.to_le_bytes());
        bytes.extend_from_slice(&ENTRIES.to_le_bytes());
        bytes.extend_from_slice(&128u32.to_le_bytes());
        bytes.extend_from_slice(&crc32(&entries).to_le_bytes());
        let sum = crc32(&bytes);
        bytes[16..20].copy_from_slice(&sum.to_le_bytes());
        bytes
    };
    disk.write(SECTOR, &header(1, last, 2));
    disk.write(2 * SECTOR, &entries);
    let copy = last - ENTRY_SECTORS;
    disk.write(copy * SECTOR, &entries);
    disk.write(last * SECTOR, &header(last, 1, copy));
}

/// A GUID derived from a name.
fn identity(name: &str) -> [u8; 16] {
    let mut bytes = hash::of(name.as_bytes()).to_le_bytes();
    // Version 4 in the variant of RFC 9562, which is for random numbers.
    bytes[7] = bytes[7] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    bytes
}

/// CRC-32 as in Ethernet and gzip.
fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = flate2::Crc::new();
    crc.update(bytes);
    crc.sum()
}
