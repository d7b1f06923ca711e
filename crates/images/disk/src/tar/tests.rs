mod differential;
mod hostile;

use std::path::Path;

use proptest::prelude::*;
use rstest::rstest;

use super::*;

/// Reads an archive that comes in pieces: entries and their data.
pub(crate) fn read(archive: &[u8], piece: usize) -> Result<Vec<(Entry, Vec<u8>)>, TarError> {
    let mut reader = Reader::default();
    let mut all: Vec<(Entry, Vec<u8>)> = Vec::new();
    let mut open = false;
    for mut part in archive.chunks(piece) {
        while let Some(event) = reader.next(&mut part)? {
            match event {
                Event::Entry(entry) => {
                    assert!(!open);
                    open = true;
                    all.push((entry, Vec::new()));
                }
                Event::Data(data) => all.last_mut().unwrap().1.extend_from_slice(data),
                Event::Hole(length) => {
                    let content = &mut all.last_mut().unwrap().1;
                    content.extend((0..length).map(|_| 0));
                }
                Event::End => {
                    assert!(open);
                    open = false;
                }
            }
        }
        assert!(part.is_empty());
    }
    reader.end()?;
    Ok(all)
}

/// An archive of GNU tar.
fn archive(folder: &Path, arguments: &[&str]) -> Vec<u8> {
    let output = std::process::Command::new("tar")
        .arg("-C")
        .arg(folder)
        .args(["-cf", "-"])
        .args(arguments)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    output.stdout
}

#[rstest]
fn archives_of_gnu_tar_are_read(
    #[values("gnu", "pax", "ustar", "v7", "oldgnu")] format: &str,
    #[values(1, 511, 512, 10_000_000)] piece: usize,
) {
    let folder = tempfile::tempdir().unwrap();
    let disk = folder.path().join("disk");
    std::fs::create_dir(&disk).unwrap();
    let long = if matches!(format, "v7" | "ustar") {
        "n".repeat(60)
    } else {
        "n".repeat(240)
    };
    let data: Vec<u8> = (0..70_001_u32).map(|n| (n % 253) as u8).collect();
    std::fs::write(disk.join(&long), &data).unwrap();
    std::fs::write(disk.join("empty"), b"").unwrap();
    std::os::unix::fs::symlink(&long, disk.join("soft")).unwrap();
    std::fs::hard_link(disk.join(&long), disk.join("z-hard")).unwrap();
    let archive = archive(
        folder.path(),
        &["--format", format, "--sort=name", "./disk"],
    );
    let entries = read(&archive, piece).unwrap();
    let file = format!("./disk/{long}");
    let entry = |path: &str| {
        entries
            .iter()
            .find(|(entry, _)| entry.path == path.as_bytes())
            .unwrap_or_else(|| panic!("{path}"))
    };
    assert_eq!(entries.len(), 5);
    assert_eq!(entry("./disk/").0.kind, Kind::Directory);
    assert_eq!(entry("./disk/empty").1, b"");
    assert_eq!(entry(&file).0.kind, Kind::File);
    assert!(entry(&file).1 == data);
    assert_eq!(entry("./disk/soft").0.kind, Kind::SymbolicLink);
    assert_eq!(entry("./disk/soft").0.link, long.as_bytes());
    assert_eq!(entry("./disk/z-hard").0.kind, Kind::HardLink);
    assert_eq!(entry("./disk/z-hard").0.link, file.as_bytes());
}

#[rstest]
#[case::gnu(&["--format=gnu"])]
#[case::pax_0_0(&["--format=pax", "--sparse-version=0.0"])]
#[case::pax_0_1(&["--format=pax", "--sparse-version=0.1"])]
#[case::pax_1_0(&["--format=pax", "--sparse-version=1.0"])]
fn sparse_files_are_read_in_all_forms(#[case] arguments: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let file = std::fs::File::create(folder.path().join("a-sparse")).unwrap();
    for island in 0..40_u64 {
        std::os::unix::fs::FileExt::write_all_at(&file, &[7; 512], island << 16).unwrap();
    }
    file.set_len(5 << 20).unwrap();
    std::fs::write(folder.path().join("b"), b"behind").unwrap();
    let expected = std::fs::read(folder.path().join("a-sparse")).unwrap();
    let mut all = arguments.to_vec();
    all.extend(["-S", "a-sparse", "b"]);
    let archive = archive(folder.path(), &all);
    assert!(archive.len() < 1 << 20);
    for piece in [1, 1000, archive.len()] {
        let entries = read(&archive, piece).unwrap();
        assert_eq!(entries.len(), 2);
        assert_eq!(entries[0].0.kind, Kind::File);
        assert_eq!(entries[0].0.path, b"a-sparse");
        assert_eq!(entries[0].0.size, 5 << 20);
        assert!(entries[0].0.stored < 1 << 20);
        assert!(entries[0].1 == expected);
        assert_eq!(entries[1].0.kind, Kind::File);
        assert_eq!(entries[1].1, b"behind");
    }
}

#[test]
fn truncation_is_detected_except_between_entries() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a"), vec![1; 1000]).unwrap();
    let archive = archive(folder.path(), &["--format=ustar", "a"]);
    for length in 0..1536 {
        let whole = matches!(length, 0 | 1536);
        assert_eq!(read(&archive[..length], 100).is_ok(), whole, "{length}");
    }
    // Blocks of zeros at the end may be missing.
    assert!(read(&archive[..1536], 100).is_ok());
    assert!(read(&archive[..2048], 100).is_ok());
}

#[test]
fn long_names_have_a_limit() {
    let mut block = vec![0; 512];
    block[124..136].copy_from_slice(b"77777777777\0");
    block[156] = b'L';
    block[148..156].fill(b' ');
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    assert_eq!(
        read(&block, 512),
        Err(TarError::TooLong {
            offset: 0,
            length: 0o77_777_777_777,
            limit: MAX_LONG_NAME,
        })
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]
    #[test]
    fn mutated_archives_never_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        piece in 1_usize..2_000,
    ) {
        static SEED: std::sync::OnceLock<Vec<u8>> = std::sync::OnceLock::new();
        let seed = SEED.get_or_init(|| {
            let folder = tempfile::tempdir().unwrap();
            std::fs::write(folder.path().join("n".repeat(200)), vec![1; 700]).unwrap();
            std::os::unix::fs::symlink("t".repeat(150), folder.path().join("l")).unwrap();
            let mut all = archive(folder.path(), &["--format=gnu", "."]);
            all.truncate(all.len() - 8192);
            all.extend(archive(folder.path(), &["--format=pax", "."]));
            all
        });
        let mut archive = seed.clone();
        for (at, byte) in &changes {
            let at = at.index(archive.len());
            archive[at] = *byte;
        }
        let _ = read(&archive, piece);
    }
}

/// What has to become a file needs more than its content.
#[rstest]
#[case(b"1600000000.25", (1_600_000_000, 250_000_000))]
#[case(b"1600000000", (1_600_000_000, 0))]
#[case(b"-1.25", (-2, 750_000_000))]
#[case(b"-3", (-3, 0))]
#[case(b"nonsense", (7, 0))]
fn attributes_are_those_of_the_extended_header(
    #[case] modified: &[u8],
    #[case] expected: (i64, u32),
) {
    let mut records = Vec::new();
    for (key, value) in [
        (&b"uid"[..], &b"70000"[..]),
        (b"mtime", modified),
        (b"SCHILY.xattr.user.a", b"=\n\0"),
    ] {
        // A record begins with its own length.
        let rest = key.len() + value.len() + 3;
        let length = rest + (rest + 2).to_string().len();
        records.extend(format!("{length} ").bytes());
        records.extend([key, b"=", value, b"\n"].concat());
    }
    let mut archive = block("pax", b'x', records.len());
    archive.extend(&records);
    archive.resize(archive.len().next_multiple_of(BLOCK), 0);
    archive.extend(block("dev", b'3', 0));
    let all = read(&archive, 512).unwrap();
    let (entry, _) = &all[0];
    assert_eq!(entry.kind, Kind::CharacterDevice);
    assert_eq!(
        entry.attributes,
        Attributes {
            mode: 0o4755,
            uid: 70_000,
            gid: 5,
            modified: expected,
            device: (1, 3),
            extended: vec![(b"user.a".to_vec(), b"=\n\0".to_vec())],
        }
    );
}

/// A header with attributes.
fn block(path: &str, flag: u8, size: usize) -> Vec<u8> {
    let mut block = vec![0; BLOCK];
    for (at, text) in [
        (0, path.to_owned()),
        (100, "0104755\0".to_owned()),
        (108, "0000004\0".to_owned()),
        (116, "0000005\0".to_owned()),
        (124, format!("{size:011o}\0")),
        (136, "00000000007\0".to_owned()),
        (148, "        ".to_owned()),
        (329, "0000001\0".to_owned()),
        (257, "ustar\x0000".to_owned()),
        (337, "0000003\0".to_owned()),
    ] {
        block[at..at + text.len()].copy_from_slice(text.as_bytes());
    }
    block[156] = flag;
    sealed(block)
}

/// A header with the right checksum.
fn sealed(mut block: Vec<u8>) -> Vec<u8> {
    block[148..156].fill(b' ');
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    block
}
