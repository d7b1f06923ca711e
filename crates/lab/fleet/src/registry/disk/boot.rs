//! The boot program of a disk: it returns success to the firmware.

use super::{Canvas, SECTOR};

/// Architecture of a program: its PE machine type, and its code.
#[derive(Debug, Clone, Copy)]
pub(in crate::registry) struct Machine {
    pub(in crate::registry) number: u16,
    pub(in crate::registry) code: &'static [u8],
}

/// Offset of the PE header.
const HEADER: usize = 64;
/// Size of the optional header: PE32+, with sixteen directories.
const OPTIONAL: u16 = 240;
/// Section alignment in memory, and in the file.
const IN_MEMORY: u32 = 0x1000;
const IN_FILE: u32 = 0x200;

/// A UEFI application in PE32+ format.
pub(super) fn program(machine: Machine) -> Vec<u8> {
    let mut file = b"MZ".to_vec();
    file.resize(60, 0);
    put32(&mut file, 64);
    debug_assert_eq!(file.len(), HEADER);
    file.extend_from_slice(b"PE\0\0");
    put16(&mut file, machine.number);
    put16(&mut file, 1); // sections
    put32(&mut file, 0); // time
    put32(&mut file, 0); // symbols
    put32(&mut file, 0);
    put16(&mut file, OPTIONAL);
    // Executable, line numbers and symbols stripped, large address aware.
    put16(&mut file, 0x022e);

    put16(&mut file, 0x20b); // PE32+
    put16(&mut file, 0);
    put32(&mut file, IN_FILE); // code
    put32(&mut file, 0); // data
    put32(&mut file, 0);
    put32(&mut file, IN_MEMORY); // entry
    put32(&mut file, IN_MEMORY); // base of code
    put64(&mut file, 0); // base
    put32(&mut file, IN_MEMORY);
    put32(&mut file, IN_FILE);
    put64(&mut file, 0); // versions of systems
    put64(&mut file, 0);
    put32(&mut file, 2 * IN_MEMORY); // size in memory
    put32(&mut file, IN_FILE); // size of headers
    put32(&mut file, 0); // sum
    put16(&mut file, 10); // UEFI application
    put16(&mut file, 0);
    for _ in 0..4 {
        put64(&mut file, 0); // stack and heap
    }
    put32(&mut file, 0);
    put32(&mut file, 16); // directories
    file.resize(file.len() + 16 * 8, 0);

    file.extend_from_slice(b".text\0\0\0");
    put32(&mut file, IN_FILE);
    put32(&mut file, IN_MEMORY);
    put32(&mut file, IN_FILE);
    put32(&mut file, IN_FILE);
    put64(&mut file, 0); // relocations and line numbers
    put32(&mut file, 0);
    put32(&mut file, 0x6000_0020); // readable and executable code
    file.resize(IN_FILE as usize, 0);
    file.extend_from_slice(machine.code);
    file.resize(2 * IN_FILE as usize, 0);
    file
}

fn put16(file: &mut Vec<u8>, number: u16) {
    file.extend_from_slice(&number.to_le_bytes());
}

fn put32(file: &mut Vec<u8>, number: u32) {
    file.extend_from_slice(&number.to_le_bytes());
}

fn put64(file: &mut Vec<u8>, number: u64) {
    file.extend_from_slice(&number.to_le_bytes());
}

/// Magic of IPL records.
const IPL: &[u8; 4] = b"zIPL";
/// Sectors of the program table, the component table and the program.
const PROGRAMS: u64 = 8;
const COMPONENTS: u64 = 9;
const CODE: u64 = 10;

/// IPL records of s390x for a disk without tracks: the first sector points to a program table,
/// which points to the components of each program: segments to load, and the entry point. Numbers
/// are big-endian.
pub(super) fn ipl(disk: &mut Canvas) {
    let mut first = IPL.to_vec();
    first.extend_from_slice(&1u32.to_be_bytes());
    first.extend_from_slice(&[0; 8]);
    first.extend_from_slice(&pointer(PROGRAMS, 1));
    disk.write(0, &first);

    let mut programs = IPL.to_vec();
    programs.resize(16, 0);
    programs.extend_from_slice(&pointer(COMPONENTS, 1));
    disk.write(PROGRAMS * SECTOR, &programs);

    let mut components = IPL.to_vec();
    components.resize(32, 0);
    components.extend_from_slice(&pointer(CODE, 1));
    components.extend_from_slice(&[0, 0, 0, 0, 0, 0, 0, 2]); // load this
    components.extend_from_slice(&0x1_0000u64.to_be_bytes());
    components.extend_from_slice(&pointer(0, 0));
    components.extend_from_slice(&[0, 0, 0, 0, 0, 0, 0, 1]); // begin here
    components.extend_from_slice(&0x0008_0000_8001_0000u64.to_be_bytes());
    disk.write(COMPONENTS * SECTOR, &components);

    // Get the current address; from there load a disabled wait state, which stops the CPU.
    let mut code = vec![
        0x0d, 0x10, // basr %r1, 0
        0xb2, 0xb2, 0x10, 0x06, // lpswe 6(%r1)
        0x07, 0x00, // nopr
    ];
    code.extend_from_slice(&0x0002_0001_8000_0000u64.to_be_bytes());
    code.extend_from_slice(&0u64.to_be_bytes());
    disk.write(CODE * SECTOR, &code);
}

/// A pointer to blocks of a disk.
fn pointer(block: u64, blocks: u16) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&block.to_be_bytes());
    if blocks > 0 {
        bytes[8..10].copy_from_slice(&512u16.to_be_bytes());
        // The count is stored minus one.
        bytes[10..12].copy_from_slice(&(blocks - 1).to_be_bytes());
    }
    bytes
}
