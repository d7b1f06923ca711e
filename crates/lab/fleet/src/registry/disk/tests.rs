//! Disks as firmware reads them, parsed by the rules of the formats.

use rstest::rstest;

use super::*;

fn number(bytes: &[u8], at: usize, size: usize) -> u64 {
    let bytes = &bytes[at..at + size];
    bytes
        .iter()
        .rev()
        .fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

fn place(bytes: &[u8], at: usize, size: usize) -> usize {
    usize::try_from(number(bytes, at, size)).unwrap()
}

/// The content of the file at a path of 8.3 names.
fn file(volume: &[u8], path: &[&[u8; 11]]) -> Option<Vec<u8>> {
    let sector = place(volume, 11, 2);
    let cluster = place(volume, 13, 1) * sector;
    let table = place(volume, 14, 2) * sector;
    let root = table + place(volume, 16, 1) * place(volume, 22, 2) * sector;
    let entries = place(volume, 17, 2);
    let data = root + entries * 32;
    let total = place(volume, 19, 2) * sector;
    assert_eq!(total, volume.len());
    // This number of clusters makes it FAT16.
    assert!((4085..65525).contains(&((total - data) / cluster)));
    // Every cluster has its entry in the table.
    assert!(place(volume, 22, 2) * sector >= ((total - data) / cluster + 2) * 2);
    let chain = |mut at: usize| {
        let mut content = Vec::new();
        while at < 0xfff8 {
            let from = data + (at - 2) * cluster;
            content.extend_from_slice(&volume[from..from + cluster]);
            at = place(volume, table + at * 2, 2);
        }
        content
    };
    let mut folder = volume[root..data].to_vec();
    for (depth, name) in path.iter().enumerate() {
        let entry = folder
            .chunks(32)
            .find(|entry| entry[..11] == name[..] && entry[11] & 0x08 == 0)?;
        let is_folder = entry[11] & 0x10 != 0;
        assert_eq!(is_folder, depth + 1 < path.len());
        let content = chain(place(entry, 26, 2));
        if !is_folder {
            return Some(content[..place(entry, 28, 4)].to_vec());
        }
        folder = content;
    }
    None
}

#[rstest]
#[case(Architecture::Amd64, b"BOOTX64 EFI", 0x8664)]
#[case(Architecture::Arm64, b"BOOTAA64EFI", 0xaa64)]
fn uefi_finds_a_program_for_its_architecture(
    #[case] architecture: Architecture,
    #[case] name: &[u8; 11],
    #[case] machine: u64,
) {
    let raw = disk(architecture, "a disk").raw();
    assert_eq!(&raw[510..512], [0x55, 0xaa]);
    assert_eq!(raw[450], 0xee);
    // The table, and its copy in the last sector, each with its sum.
    let last = raw.len() - 512;
    for at in [512, last] {
        let mut header = raw[at..at + 92].to_vec();
        assert_eq!(&header[..8], b"EFI PART");
        assert_eq!(place(&header, 24, 8) * 512, at);
        assert_eq!(
            place(&header, 32, 8) * 512,
            if at == 512 { last } else { 512 }
        );
        let entries = place(&header, 72, 8) * 512;
        let entries = &raw[entries..entries + 128 * 128];
        let sum = |bytes: &[u8]| {
            let mut crc = flate2::Crc::new();
            crc.update(bytes);
            u64::from(crc.sum())
        };
        assert_eq!(number(&header, 88, 4), sum(entries));
        let stated = number(&header, 16, 4);
        header[16..20].fill(0);
        assert_eq!(stated, sum(&header));
        let usable = place(&header, 40, 8)..=place(&header, 48, 8);
        for entry in entries.chunks(128).take(2) {
            assert!(usable.contains(&place(entry, 32, 8)));
            assert!(usable.contains(&place(entry, 40, 8)));
        }
    }
    let first = &raw[1024..1024 + 128];
    assert_eq!(first[..16], gpt::FIRMWARE);
    let (from, to) = (place(first, 32, 8), place(first, 40, 8));
    let volume = &raw[from * 512..(to + 1) * 512];
    let program = file(volume, &[b"EFI        ", b"BOOT       ", name]).unwrap();
    assert_eq!(&program[..2], b"MZ");
    let header = place(&program, 60, 4);
    assert_eq!(&program[header..header + 4], b"PE\0\0");
    assert_eq!(number(&program, header + 4, 2), machine);
    assert_eq!(number(&program, header + 24, 2), 0x20b);
    assert_eq!(number(&program, header + 24 + 68, 2), 10);
    // The entry point is the code.
    let section = header + 24 + place(&program, header + 20, 2);
    assert_eq!(&program[section..section + 5], b".text");
    let code = place(&program, section + 20, 4);
    let (_, expected) = architecture.firmware().unwrap();
    assert_eq!(&program[code..code + expected.code.len()], expected.code);
    assert_eq!(
        number(&program, header + 40, 4),
        number(&program, section + 12, 4)
    );
}

#[test]
fn ipl_records_lead_to_the_code() {
    let raw = disk(Architecture::S390x, "a disk").raw();
    let pointer = |at: usize| {
        let bytes: [u8; 8] = raw[at..at + 8].try_into().unwrap();
        usize::try_from(u64::from_be_bytes(bytes)).unwrap() * 512
    };
    assert_eq!(&raw[..4], b"zIPL");
    let programs = pointer(16);
    assert_eq!(&raw[programs..programs + 4], b"zIPL");
    let components = pointer(programs + 16);
    assert_eq!(&raw[components..components + 4], b"zIPL");
    let code = pointer(components + 32);
    assert_eq!(&raw[code..code + 2], [0x0d, 0x10]);
    // A partition behind the IPL records.
    assert_eq!(&raw[510..512], [0x55, 0xaa]);
    assert_eq!(raw[446 + 4], 0x83);
    let start = place(&raw, 446 + 8, 4) * 512;
    assert!(start > code);
    assert!(raw[start..].starts_with(b"This stands for a system: a disk, s390x\n"));
}

#[test]
fn disks_are_reproducible_and_distinct() {
    let all: Vec<Canvas> = Architecture::ALL
        .into_iter()
        .flat_map(|it| ["a", "b"].map(|name| disk(it, name)))
        .collect();
    for (at, one) in all.iter().enumerate() {
        assert!(!all[..at].contains(one));
    }
    assert_eq!(disk(Architecture::Amd64, "a"), all[0]);
}
