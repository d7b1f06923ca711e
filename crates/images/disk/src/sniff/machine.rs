//! Machine types in PE and ELF headers, kernels and boot records.

use super::{Finding, Weight};

/// A little-endian number of two bytes.
pub(super) fn le16(data: &[u8], at: usize) -> Option<u16> {
    data.get(at..)?
        .first_chunk()
        .copied()
        .map(u16::from_le_bytes)
}

/// A little-endian number of four bytes.
pub(super) fn le32(data: &[u8], at: usize) -> Option<u32> {
    data.get(at..)?
        .first_chunk()
        .copied()
        .map(u32::from_le_bytes)
}

/// A little-endian number of eight bytes.
pub(super) fn le64(data: &[u8], at: usize) -> Option<u64> {
    data.get(at..)?
        .first_chunk()
        .copied()
        .map(u64::from_le_bytes)
}

/// The machine of a PE program, by its first bytes.
pub(super) fn pe(head: &[u8]) -> Option<&'static str> {
    if !head.starts_with(b"MZ") {
        return None;
    }
    let at = usize::try_from(le32(head, 0x3c)?).ok()?;
    if head.get(at..)?.get(..4)? != b"PE\0\0" {
        return None;
    }
    // The numbers are from the PE specification (`IMAGE_FILE_MACHINE_*`), those of ELF below from its registry of
    // `e_machine`.
    match le16(head, at.checked_add(4)?)? {
        0x8664 => Some("amd64"),
        0x014c => Some("386"),
        0xaa64 => Some("arm64"),
        0x01c0 | 0x01c2 | 0x01c4 => Some("arm"),
        0x5064 => Some("riscv64"),
        0x6264 => Some("loong64"),
        _ => None,
    }
}

/// The machine of an ELF program, by its first bytes.
fn elf(head: &[u8]) -> Option<&'static str> {
    if !head.starts_with(b"\x7fELF") {
        return None;
    }
    let (wide, little) = (*head.get(4)? == 2, *head.get(5)? == 1);
    let bytes = head.get(18..)?.first_chunk().copied()?;
    let machine = if little {
        u16::from_le_bytes(bytes)
    } else {
        u16::from_be_bytes(bytes)
    };
    match (machine, wide, little) {
        (62, true, true) => Some("amd64"),
        (3, false, true) => Some("386"),
        (183, true, true) => Some("arm64"),
        (40, false, true) => Some("arm"),
        (243, true, true) => Some("riscv64"),
        (22, true, false) => Some("s390x"),
        (21, true, true) => Some("ppc64le"),
        (21, true, false) => Some("ppc64"),
        (258, true, true) => Some("loong64"),
        _ => None,
    }
}

/// Evidence in the first bytes of a disk.
pub(super) fn boot_record(first: &[u8]) -> Vec<Finding> {
    let at = |offset: usize, magic: &[u8]| {
        first
            .get(offset..)
            .is_some_and(|rest| rest.starts_with(magic))
    };
    let proof = |architecture, why: &str| {
        vec![Finding {
            architecture,
            weight: Weight::Proof,
            why: why.to_owned(),
        }]
    };
    if at(0, b"zIPL") {
        return proof("s390x", "the boot record is one of zipl");
    }
    // "IPL1" in EBCDIC.
    if at(0, &[0xc9, 0xd7, 0xd3, 0xf1]) {
        return proof("s390x", "the boot record is an IPL record");
    }
    if let Some(architecture) = elf(first) {
        return proof(architecture, "the disk is an ELF program");
    }
    if at(0x38, b"ARM\x64") {
        return proof("arm64", "the disk is a Linux kernel");
    }
    if at(0x30, b"RISCV\0\0\0") || at(0x38, b"RSC\x05") {
        return proof("riscv64", "the disk is a Linux kernel");
    }
    if at(0x202, b"HdrS") {
        return proof("amd64", "the disk is a Linux kernel");
    }
    if let Some(architecture) = pe(first) {
        return proof(architecture, "the disk is a PE program");
    }
    // Boot code begins with a jump, or with clearing interrupts or registers; a table without code
    // begins with zeros.
    let code = matches!(
        first,
        [0xeb, _, 0x90, ..] | [0xeb, 0x63, ..] | [0xfa, ..] | [0x33 | 0x31, 0xc0, ..]
    );
    if at(510, &[0x55, 0xaa]) && code && !super::fat::is_fat(first) {
        return vec![Finding {
            architecture: "amd64",
            weight: Weight::Hint,
            why: "the boot record has code for a BIOS".to_owned(),
        }];
    }
    Vec::new()
}
