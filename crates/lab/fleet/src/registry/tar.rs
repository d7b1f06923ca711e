//! The archive of a layer: the folder `disk/`, and in it the disk; or a few files.

use std::collections::BTreeMap;

/// How many bytes a block has.
const BLOCK: usize = 512;
/// Who owns everything: `qemu`.
const OWNER: u64 = 107;

/// Writes the archive. The folder was made at the time of packing, the disk when time began, as
/// KubeVirt's container disks have it: the same disk is another layer every time.
pub(super) fn write(disk: &[u8], made: i64) -> Vec<u8> {
    let made = u64::try_from(made).unwrap_or_default();
    let mut archive = Vec::with_capacity(disk.len() + 5 * BLOCK);
    archive.extend(header("disk/", 0o555, 0, made, b'5'));
    archive.extend(header("disk/disk.img", 0o444, disk.len() as u64, 0, b'0'));
    archive.extend_from_slice(disk);
    archive.resize(archive.len().next_multiple_of(BLOCK) + 2 * BLOCK, 0);
    archive
}

/// Writes an archive of files by their paths, all made at a time. Folders are made by whoever unpacks it.
pub(super) fn files(files: &BTreeMap<String, String>, made: i64) -> Vec<u8> {
    let made = u64::try_from(made).unwrap_or_default();
    let mut archive = Vec::new();
    for (name, text) in files {
        archive.extend(header(name, 0o444, text.len() as u64, made, b'0'));
        archive.extend_from_slice(text.as_bytes());
        archive.resize(archive.len().next_multiple_of(BLOCK), 0);
    }
    archive.resize(archive.len() + 2 * BLOCK, 0);
    archive
}

/// A header of POSIX (`ustar`).
fn header(name: &str, mode: u64, size: u64, time: u64, kind: u8) -> Vec<u8> {
    let mut block = name.as_bytes().to_vec();
    block.resize(100, 0);
    for (number, width) in [(mode, 8), (OWNER, 8), (OWNER, 8), (size, 12), (time, 12)] {
        octal(&mut block, number, width);
    }
    let sum_at = block.len();
    block.extend_from_slice(&[b' '; 8]);
    block.push(kind);
    block.resize(257, 0);
    block.extend_from_slice(b"ustar\x0000");
    block.resize(BLOCK, 0);
    let sum: u64 = block.iter().map(|byte| u64::from(*byte)).sum();
    let digits = format!("{sum:06o}\0 ");
    block[sum_at..sum_at + 8].copy_from_slice(digits.as_bytes());
    block
}

/// A number in octal digits, with a zero behind them.
fn octal(block: &mut Vec<u8>, number: u64, width: usize) {
    let digits = format!("{number:0width$o}\0", width = width - 1);
    block.extend_from_slice(digits.as_bytes());
}
