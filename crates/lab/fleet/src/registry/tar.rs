//! The tar archive of a layer: the directory `disk/` with the disk in it, or a few files.

use std::collections::BTreeMap;

/// Block size in bytes.
const BLOCK: usize = 512;
/// Owner of all entries: `qemu`.
const OWNER: u64 = 107;

/// Writes the archive. The directory has the build time, the disk the epoch, as in KubeVirt's
/// container disks: the same disk gives another layer with every build.
pub(super) fn write(disk: &[u8], made: i64) -> Vec<u8> {
    let made = u64::try_from(made).unwrap_or_default();
    let mut archive = Vec::with_capacity(disk.len() + 5 * BLOCK);
    archive.extend(header("disk/", 0o555, 0, made, b'5'));
    archive.extend(header("disk/disk.img", 0o444, disk.len() as u64, 0, b'0'));
    archive.extend_from_slice(disk);
    archive.resize(archive.len().next_multiple_of(BLOCK) + 2 * BLOCK, 0);
    archive
}

/// Writes an archive of files by path, all with one time. Directories are implied.
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

/// A POSIX header (`ustar`).
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

/// A number in octal digits, NUL-terminated.
fn octal(block: &mut Vec<u8>, number: u64, width: usize) {
    let digits = format!("{number:0width$o}\0", width = width - 1);
    block.extend_from_slice(digits.as_bytes());
}
