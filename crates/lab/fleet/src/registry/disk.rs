//! Bootable disks: partitions, and a program for one architecture that exits at once.
//!
//! ```text
//! amd64, arm64   GPT   EFI system partition (FAT16) with \EFI\BOOT\BOOTX64.EFI or BOOTAA64.EFI
//! s390x          MBR   an IPL record in the first sector
//! all            a second partition in place of the system: a line of text, and noise
//! ```
//!
//! A disk is generated from its name: the same name gives the same bytes, other names give others.

mod boot;
mod canvas;
mod fat;
mod gpt;
mod mbr;

pub(super) use boot::Machine;
pub(super) use canvas::{CLUSTER, Canvas};

use super::catalog::Architecture;
use crate::hash;

/// Sector size in bytes.
const SECTOR: u64 = 512;
/// Disk size in bytes. Most of it is empty.
const SIZE: u64 = 32 << 20;
/// Offset of the first partition.
const FIRST: u64 = 1 << 20;
/// Size of the EFI system partition.
const FIRMWARE: u64 = 8 << 20;
/// Number of nonzero bytes in the system partition.
const NOISE: usize = 512 << 10;

/// The disk of a name, for an architecture.
pub(super) fn disk(architecture: Architecture, name: &str) -> Canvas {
    let mut disk = Canvas::new(SIZE);
    let system = if let Some((file, machine)) = architecture.firmware() {
        let firmware = Partition {
            kind: gpt::FIRMWARE,
            name: "EFI System Partition",
            start: FIRST,
            size: FIRMWARE,
        };
        let start = FIRST + FIRMWARE;
        let system = Partition {
            kind: gpt::SYSTEM,
            name: "system",
            start,
            // The backup partition table follows the last partition.
            size: SIZE - start - FIRST,
        };
        gpt::write(&mut disk, name, &[firmware, system]);
        let program = boot::program(machine);
        fat::write(&mut disk, FIRST, FIRMWARE, name, file, &program);
        start
    } else {
        mbr::write(&mut disk, FIRST, SIZE - FIRST);
        boot::ipl(&mut disk);
        FIRST
    };
    let mut text = format!("This stands for a system: {name}, {architecture}\n").into_bytes();
    text.extend(noise(name, NOISE));
    disk.write(system, &text);
    disk
}

/// A partition of a disk.
struct Partition {
    kind: [u8; 16],
    name: &'static str,
    start: u64,
    size: u64,
}

/// Incompressible bytes, the same for the same name.
fn noise(name: &str, length: usize) -> Vec<u8> {
    // xorshift64*, which needs a nonzero seed.
    let mut state = low(hash::of(name.as_bytes())) | 1;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        let number = state.wrapping_mul(0x2545_f491_4f6c_dd1d);
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

/// The lower half of a number.
fn low(number: u128) -> u64 {
    u64::try_from(number & u128::from(u64::MAX)).unwrap_or_default()
}

#[cfg(test)]
mod tests;
