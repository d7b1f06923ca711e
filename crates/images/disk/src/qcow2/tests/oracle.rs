//! What qemu-img makes of the same images, byte for byte.

use rstest::rstest;

use super::fixture::{Dice, Folder, agrees, decode, qemu_io, run, shuffled, text};
use crate::error::Error;
use crate::qcow2::Qcow2Error;
use crate::sink::MemorySink;

#[rstest]
#[case::default(&[])]
#[case::v2(&["-o", "compat=0.10"])]
#[case::v2_compressed(&["-c", "-o", "compat=0.10"])]
#[case::zlib(&["-c"])]
#[case::zstd(&["-c", "-o", "compression_type=zstd"])]
#[case::cluster_512(&["-o", "cluster_size=512"])]
#[case::cluster_512_zlib(&["-c", "-o", "cluster_size=512"])]
#[case::cluster_4k(&["-o", "cluster_size=4k"])]
#[case::cluster_4k_zstd(&["-c", "-o", "cluster_size=4k,compression_type=zstd"])]
#[case::cluster_1m(&["-o", "cluster_size=1M"])]
#[case::cluster_2m(&["-o", "cluster_size=2M"])]
#[case::cluster_2m_zlib(&["-c", "-o", "cluster_size=2M"])]
#[case::cluster_2m_zstd(&["-c", "-o", "cluster_size=2M,compression_type=zstd"])]
#[case::extended(&["-o", "extended_l2=on"])]
#[case::extended_128k(&["-o", "extended_l2=on,cluster_size=128k"])]
#[case::extended_zlib(&["-c", "-o", "extended_l2=on"])]
#[case::extended_zstd(&["-c", "-o", "extended_l2=on,compression_type=zstd,cluster_size=16k"])]
#[case::lazy(&["-o", "lazy_refcounts=on"])]
#[case::refcount_1(&["-o", "refcount_bits=1"])]
#[case::refcount_64(&["-o", "refcount_bits=64"])]
#[case::metadata(&["-o", "preallocation=metadata"])]
#[case::metadata_4k(&["-o", "preallocation=metadata,cluster_size=4k"])]
#[case::falloc(&["-o", "preallocation=falloc"])]
#[case::full(&["-o", "preallocation=full"])]
#[case::out_of_order(&["-W", "-m", "16"])]
#[case::out_of_order_zlib(&["-W", "-m", "16", "-c"])]
#[case::not_sparse(&["-S", "0"])]
fn everything_that_qemu_img_writes(#[case] arguments: &[&str]) {
    let folder = Folder::new();
    for (size, seed) in [(9 << 20, 7), (3_000_320, 1), (512, 3)] {
        let raw = folder.raw("disk.raw", size, seed);
        let image = folder.convert(&raw, "disk.qcow2", arguments);
        let (file, device) = agrees(&folder, &image);
        assert!(file.disk == std::fs::read(&raw).unwrap());
        // Room for all data is taken before the tables are, if it is preallocated.
        let late = arguments
            .iter()
            .any(|argument| matches!(*argument, "preallocation=falloc" | "preallocation=full"));
        assert_eq!(file.passes, 1, "{size}");
        assert!(device.passes <= if late { 2 } else { 1 }, "{size}");
    }
}

#[rstest]
#[case::default("")]
#[case::v2("compat=0.10")]
#[case::cluster_4k("cluster_size=4k")]
#[case::cluster_512("cluster_size=512")]
#[case::cluster_2m("cluster_size=2M")]
#[case::extended("extended_l2=on")]
#[case::lazy("lazy_refcounts=on")]
#[case::metadata("preallocation=metadata,cluster_size=16k")]
fn images_that_machines_ran_on(#[case] options: &str) {
    let folder = Folder::new();
    for seed in 1..4 {
        let image = folder.create("disk.qcow2", options, "24M");
        let mut dice = Dice(seed * 7919);
        let mut commands = Vec::new();
        for round in 0..60 {
            let at = dice.roll(24 << 20) & !511;
            let length = ((dice.roll(200_000) & !511) + 512).min((24 << 20) - at);
            commands.push(match dice.roll(6) {
                0 => format!("write -z {at} {length}"),
                1 if !options.contains("0.10") => format!("write -z -u {at} {length}"),
                2 => format!("discard {at} {length}"),
                _ => format!("write -P {} {at} {length}", round + 1),
            });
        }
        qemu_io(&image, &commands);
        agrees(&folder, &image);
    }
}

#[rstest]
#[case::plain(&[])]
#[case::zlib(&["-c"])]
#[case::zstd(&["-c", "-o", "compression_type=zstd"])]
#[case::extended(&["-o", "extended_l2=on"])]
fn the_l1_table_of_a_grown_disk_comes_last(#[case] arguments: &[&str]) {
    let folder = Folder::new();
    // More than is kept of what cannot be parked.
    let raw = folder.raw("disk.raw", 40 << 20, 11);
    let mut all = arguments.to_vec();
    // An L2 table of such clusters maps 32 MiB or 16 MiB: growing needs another L1 table.
    let options = arguments
        .iter()
        .position(|argument| *argument == "-o")
        .map_or_else(String::new, |at| format!("{},", arguments[at + 1]));
    let options = format!("{options}cluster_size=16k");
    all.extend(["-o", &options]);
    let image = folder.convert(&raw, "disk.qcow2", &all);
    run("qemu-img", &["resize", "-q", text(&image), "200M"]);
    let bytes = std::fs::read(&image).unwrap();
    let expected = folder.oracle(&image);

    let file = decode(&bytes, &mut MemorySink::new(None), 65_536, 2).unwrap();
    assert!(file.disk == expected);
    assert_eq!(file.passes, 1);
    assert!(file.parked > 1 << 20, "{}", file.parked);

    let mut device = MemorySink::device(expected.len() as u64);
    let device = decode(&bytes, &mut device, 65_536, 2).unwrap();
    assert!(device.disk == expected);
    assert!(device.passes > 1);
    assert_eq!(device.parked, 0);
}

#[rstest]
#[case::tables_first(true)]
#[case::tables_last(false)]
fn memory_is_bounded_for_fragmented_images(#[case] tables_first: bool) {
    let folder = Folder::new();
    let image = folder.path("disk.qcow2");
    let clusters = 3 * super::super::plan::MAX_ITEMS as u64;
    std::fs::write(&image, shuffled(clusters, tables_first)).unwrap();
    let (file, device) = agrees(&folder, &image);
    assert_eq!(file.disk[512..516], [0, 0, 0, 2]);
    assert_eq!(file.passes, 1);
    assert!(file.parked > 0);
    // What comes last finds these few megabytes still in memory.
    assert_eq!(device.passes, if tables_first { 3 } else { 1 });
    // More passes bring more.
    let larger = 5 * super::super::plan::MAX_ITEMS as u64;
    std::fs::write(&image, shuffled(larger, tables_first)).unwrap();
    let (_, device) = agrees(&folder, &image);
    assert!((2..=8).contains(&device.passes), "{}", device.passes);
    // What they all would not bring is refused after the first, where there is no room to park.
    let image = shuffled(20 * super::super::plan::MAX_ITEMS as u64, tables_first);
    let error = decode(&image, &mut MemorySink::device(1 << 30), 65_536, 0).err();
    assert!(
        matches!(
            error,
            Some(Error::Qcow2(Qcow2Error::Fragmented { passes: 1, .. }))
        ),
        "{error:?}"
    );
    let file = decode(&image, &mut MemorySink::new(None), 65_536, 0).unwrap();
    assert_eq!(file.passes, 1);
    assert_eq!(file.disk[512..516], [0, 0, 0, 2]);
}

#[test]
fn snapshots_are_not_imported() {
    let folder = Folder::new();
    let image = folder.create("disk.qcow2", "", "8M");
    qemu_io(&image, &["write -P 1 0 3M".to_owned()]);
    run("qemu-img", &["snapshot", "-c", "first", text(&image)]);
    qemu_io(
        &image,
        &["write -P 2 1M 1M".to_owned(), "write -P 3 5M 1M".to_owned()],
    );
    run("qemu-img", &["snapshot", "-c", "second", text(&image)]);
    qemu_io(&image, &["write -P 4 2M 64k".to_owned()]);
    let (file, _) = agrees(&folder, &image);
    assert_eq!(file.disk[2 << 20], 4);
}

#[test]
fn a_base_that_was_compressed_and_then_written_to() {
    let folder = Folder::new();
    let raw = folder.raw("disk.raw", 12 << 20, 23);
    for compression in ["zlib", "zstd"] {
        let options = format!("cluster_size=8k,compression_type={compression}");
        let image = folder.convert(&raw, "disk.qcow2", &["-c", "-o", &options]);
        let mut dice = Dice(99);
        let commands: Vec<_> = (1..80)
            .map(|round| format!("write -P {round} {} 3k", dice.roll(11 << 20) & !511))
            .collect();
        qemu_io(&image, &commands);
        run("qemu-img", &["resize", "-q", text(&image), "40M"]);
        agrees(&folder, &image);
    }
}

#[test]
fn cluster_mapped_twice_needs_another_pass() {
    // Two L2 tables; the data that both map lies between them.
    let folder = Folder::new();
    let image = folder.create("disk.qcow2", "cluster_size=512", "64k");
    qemu_io(
        &image,
        &[
            "write -P 5 0 512".to_owned(),
            "write -P 6 32k 512".to_owned(),
        ],
    );
    let mut bytes = std::fs::read(&image).unwrap();
    let l1 = usize::try_from(super::super::Header::parse(&bytes).unwrap().l1_offset).unwrap();
    let table = |bytes: &[u8], index: usize| {
        let at = l1 + index * 8;
        let entry = u64::from_be_bytes(bytes[at..at + 8].try_into().unwrap());
        usize::try_from(entry & 0x00ff_ffff_ffff_fe00).unwrap()
    };
    let (first, second) = (table(&bytes, 0), table(&bytes, 1));
    assert!(first < second);
    let entry: [u8; 8] = bytes[first..first + 8].try_into().unwrap();
    assert!(u64::from_be_bytes(entry) & 0x00ff_ffff_ffff_fe00 < second as u64);
    bytes[second + 8..second + 16].copy_from_slice(&entry);
    std::fs::write(&image, &bytes).unwrap();
    let (file, device) = agrees(&folder, &image);
    assert_eq!(file.disk[32 * 1024 + 512], 5);
    // The cluster is not parked, as it was claimed; a device does not differ.
    assert_eq!((file.passes, device.passes), (2, 2));
}

#[test]
fn truncated_image_is_rejected() {
    let folder = Folder::new();
    let raw = folder.raw("disk.raw", 3 << 20, 7);
    let image = folder.convert(&raw, "disk.qcow2", &[]);
    let bytes = std::fs::read(&image).unwrap();
    let error = decode(
        &bytes[..bytes.len() - (1 << 20)],
        &mut MemorySink::new(None),
        4096,
        0,
    )
    .err();
    assert!(
        matches!(
            error,
            Some(Error::Qcow2(Qcow2Error::Truncated { what: "data", .. }))
        ),
        "{error:?}"
    );
}
