use proptest::prelude::*;
use rstest::rstest;

use super::*;
use crate::sink::MemorySink;

fn put(disk: &mut [u8], at: usize, data: &[u8]) {
    disk[at..at + data.len()].copy_from_slice(data);
}

/// The head of a PE program for a machine.
fn program(machine: u16) -> Vec<u8> {
    let mut head = vec![0; 512];
    put(&mut head, 0, b"MZ");
    put(&mut head, 0x3c, &0x80_u32.to_le_bytes());
    put(&mut head, 0x80, b"PE\0\0");
    put(&mut head, 0x84, &machine.to_le_bytes());
    head
}

/// An entry of a folder.
fn entry(name: &[u8; 11], folder: bool, cluster: u16) -> [u8; 32] {
    let mut entry = [0; 32];
    entry[..11].copy_from_slice(name);
    entry[11] = if folder { 0x10 } else { 0x20 };
    entry[26..28].copy_from_slice(&cluster.to_le_bytes());
    entry
}

/// A file system with these programs in \EFI\BOOT. The folder BOOT has two clusters, so that the table
/// matters; the programs are named in the second one.
fn fat(bits: u32, programs: &[(&[u8; 11], u16)]) -> Vec<u8> {
    let (sectors, table): (u32, u32) = match bits {
        12 => (2_000, 6),
        16 => (20_000, 80),
        _ => (80_000, 640),
    };
    let wide = bits == 32;
    let mut disk = vec![0; sectors as usize * 512];
    put(&mut disk, 0, &[0xeb, 0x3c, 0x90]);
    put(&mut disk, 11, &512_u16.to_le_bytes());
    disk[13] = 1;
    put(&mut disk, 14, &32_u16.to_le_bytes());
    disk[16] = 2;
    if wide {
        put(&mut disk, 36, &table.to_le_bytes());
        put(&mut disk, 44, &2_u32.to_le_bytes());
    } else {
        put(&mut disk, 17, &64_u16.to_le_bytes());
        put(&mut disk, 22, &u16::try_from(table).unwrap().to_le_bytes());
    }
    put(&mut disk, 32, &sectors.to_le_bytes());
    put(&mut disk, 510, &[0x55, 0xaa]);
    let root = (32 + 2 * table as usize) * 512;
    let data = root + if wide { 0 } else { 64 * 32 };
    let cluster = |number: usize| data + (number - 2) * 512;
    // Cluster 2 is the root of FAT32, 3 is EFI, 4 and 9 are BOOT.
    let root = if wide { cluster(2) } else { root };
    put(&mut disk, root, &entry(b"EFI        ", true, 3));
    put(&mut disk, cluster(3), &entry(b"BOOT       ", true, 4));
    for index in 0..16 {
        put(
            &mut disk,
            cluster(4) + index * 32,
            &entry(b"FILLER  TXT", false, 0),
        );
    }
    let mut link = |from: usize, to: u32| {
        let at = 32 * 512;
        match bits {
            12 => {
                let at = at + from + from / 2;
                let old = u16::from_le_bytes([disk[at], disk[at + 1]]);
                let to = u16::try_from(to & 0xfff).unwrap();
                let both = if from.is_multiple_of(2) {
                    old & 0xf000 | to
                } else {
                    old & 0xf | to << 4
                };
                put(&mut disk, at, &both.to_le_bytes());
            }
            16 => put(
                &mut disk,
                at + from * 2,
                &u16::try_from(to & 0xffff).unwrap().to_le_bytes(),
            ),
            _ => put(&mut disk, at + from * 4, &to.to_le_bytes()),
        }
    };
    link(3, 0x0fff_ffff);
    link(4, 9);
    link(9, 0x0fff_ffff);
    for (index, (name, machine)) in programs.iter().enumerate() {
        let number = 20 + index;
        put(
            &mut disk,
            cluster(9) + index * 32,
            &entry(name, false, u16::try_from(number).unwrap()),
        );
        put(&mut disk, cluster(number), &program(*machine));
    }
    disk
}

/// A disk with a GPT; partitions by type and content.
fn gpt(sector: usize, partitions: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut disk = vec![0; 40 * sector.max(512)];
    put(
        &mut disk,
        446,
        &[0, 0, 0, 0, 0xee, 0, 0, 0, 1, 0, 0, 0, 255, 0, 0, 0],
    );
    put(&mut disk, 510, &[0x55, 0xaa]);
    put(&mut disk, sector, b"EFI PART");
    put(&mut disk, sector + 72, &2_u64.to_le_bytes());
    put(&mut disk, sector + 80, &128_u32.to_le_bytes());
    put(&mut disk, sector + 84, &128_u32.to_le_bytes());
    for (index, (guid, content)) in partitions.iter().enumerate() {
        let digits: Vec<u8> = guid
            .replace('-', "")
            .as_bytes()
            .chunks(2)
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
            .collect();
        let order = [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15];
        let at = 2 * sector + index * 128;
        for (to, from) in order.iter().enumerate() {
            disk[at + to] = digits[*from];
        }
        let first = disk.len().div_ceil(sector);
        disk.resize(first * sector, 0);
        disk.extend(content);
        disk.resize(disk.len().next_multiple_of(sector), 0);
        let last = disk.len() / sector - 1;
        put(&mut disk, at + 32, &(first as u64).to_le_bytes());
        put(&mut disk, at + 40, &(last as u64).to_le_bytes());
    }
    disk
}

fn look(disk: &[u8]) -> Sniffed {
    let mut sink = MemorySink::new(None);
    sink.prepare(disk.len() as u64).unwrap();
    sink.write_at(0, disk).unwrap();
    sniff(&mut sink, disk.len() as u64).unwrap()
}

fn names(sniffed: &Sniffed) -> Vec<&str> {
    sniffed.architectures.iter().copied().collect()
}

const ESP: &str = "c12a7328-f81f-11d2-ba4b-00a0c93ec93b";

#[rstest]
fn efi_programs_determine_the_architecture(
    #[values(12, 16, 32)] bits: u32,
    #[values(512, 4096)] sector: usize,
    #[values((0x8664, "amd64"), (0xaa64, "arm64"), (0x5064, "riscv64"))] machine: (u16, &str),
) {
    let part = fat(bits, &[(b"BOOTX64 EFI", machine.0)]);
    // The number in the program counts, not its name.
    let sniffed = look(&gpt(
        sector,
        &[
            ("0fc63daf-8483-4772-8e79-3d69d8477de4", vec![1; 512]),
            (ESP, part),
        ],
    ));
    assert_eq!(names(&sniffed), [machine.1]);
    assert_eq!(
        sniffed.findings[0].why,
        r"partition 2 has \EFI\BOOT\BOOTX64.EFI"
    );
    assert_eq!(sniffed.boots_on(machine.1), Some(true));
    assert_eq!(sniffed.boots_on("s390x"), Some(false));
}

#[test]
fn disk_for_several_architectures_is_detected() {
    let part = fat(16, &[(b"BOOTX64 EFI", 0x8664), (b"BOOTAA64EFI", 0xaa64)]);
    assert_eq!(names(&look(&gpt(512, &[(ESP, part)]))), ["amd64", "arm64"]);
}

#[test]
fn a_file_system_without_a_table_and_one_in_an_mbr() {
    let part = fat(12, &[(b"BOOTAA64EFI", 0xaa64)]);
    let sniffed = look(&part);
    assert_eq!(names(&sniffed), ["arm64"]);
    assert!(sniffed.findings[0].why.starts_with("the disk has"));

    let mut disk = vec![0; 2048 * 512];
    let sectors = u32::try_from(part.len() / 512).unwrap();
    put(&mut disk, 446, &[0x80, 0, 0, 0, 0xef]);
    put(&mut disk, 454, &2048_u32.to_le_bytes());
    put(&mut disk, 458, &sectors.to_le_bytes());
    put(&mut disk, 510, &[0x55, 0xaa]);
    disk.extend(part);
    assert_eq!(names(&look(&disk)), ["arm64"]);
}

#[rstest]
#[case::zipl(0, b"zIPL", "s390x")]
#[case::ipl(0, &[0xc9, 0xd7, 0xd3, 0xf1], "s390x")]
#[case::arm64_kernel(0x38, b"ARM\x64", "arm64")]
#[case::riscv_kernel(0x30, b"RISCV\0\0\0", "riscv64")]
#[case::x86_kernel(0x202, b"HdrS", "amd64")]
#[case::elf_amd64(0, b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\x3e\0", "amd64")]
#[case::elf_arm64(0, b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\xb7\0", "arm64")]
#[case::elf_s390x(0, b"\x7fELF\x02\x02\x01\0\0\0\0\0\0\0\0\0\0\x02\0\x16", "s390x")]
#[case::elf_ppc64le(0, b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\x15\0", "ppc64le")]
fn boot_records_determine_the_architecture(
    #[case] at: usize,
    #[case] magic: &[u8],
    #[case] expected: &str,
) {
    let mut disk = vec![0; 8192];
    put(&mut disk, at, magic);
    let sniffed = look(&disk);
    assert_eq!(names(&sniffed), [expected]);
    assert_eq!(sniffed.findings[0].weight, Weight::Proof);
}

#[rstest]
#[case::amd64("4f68bce3-e8cd-4db1-96e7-fbcaf984b709", "amd64")]
#[case::s390x("5eead9a9-fe09-4a1e-a1d7-520d00531306", "s390x")]
#[case::prep("9e1a2d38-c612-4316-aa26-8b49521e5a8b", "ppc64le")]
fn partition_types_determine_the_architecture(#[case] guid: &str, #[case] expected: &str) {
    assert_eq!(names(&look(&gpt(512, &[(guid, vec![0; 512])]))), [expected]);
}

#[test]
fn hint_is_used_only_without_proof() {
    let bios = "21686148-6449-6e6f-744e-656564454649";
    let disk = gpt(512, &[(bios, vec![0; 512])]);
    assert_eq!(names(&look(&disk)), ["amd64"]);
    let part = fat(16, &[(b"BOOTAA64EFI", 0xaa64)]);
    let disk = gpt(512, &[(bios, vec![0; 512]), (ESP, part)]);
    assert_eq!(names(&look(&disk)), ["arm64"]);
}

#[rstest]
#[case::empty(vec![])]
#[case::short(vec![1; 100])]
#[case::zeros(vec![0; 100_000])]
#[case::text(b"nothing to see here".repeat(1000))]
#[case::table_only(gpt(512, &[]))]
#[case::empty_esp(gpt(512, &[(ESP, fat(16, &[]))]))]
fn disk_without_evidence(#[case] disk: Vec<u8>) {
    let sniffed = look(&disk);
    assert_eq!(sniffed, Sniffed::default());
    assert_eq!(sniffed.boots_on("amd64"), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn hostile_disks_never_panic(
        bits in prop::sample::select(vec![12_u32, 16]),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
    ) {
        static SEEDS: std::sync::OnceLock<[Vec<u8>; 2]> = std::sync::OnceLock::new();
        let seeds = SEEDS.get_or_init(|| [12, 16].map(|bits| {
            gpt(512, &[(ESP, fat(bits, &[(b"BOOTX64 EFI", 0x8664)]))])
        }));
        let mut disk = seeds[usize::from(bits == 16)].clone();
        for (at, byte) in &changes {
            // Where tables are.
            let at = at.index(60_000);
            disk[at] = *byte;
        }
        let _ = look(&disk);
    }
}
