//! Headers that are refused, and by which name.

use rstest::rstest;

use super::fixture::{Folder, run, text};
use crate::qcow2::{Compression, Header, Qcow2Error};

/// A valid header of version 3: 1 GiB, 64 KiB clusters.
fn valid() -> Vec<u8> {
    let mut head = vec![0; 112];
    head[..4].copy_from_slice(b"QFI\xfb");
    put32(&mut head, 4, 3);
    put32(&mut head, 20, 16);
    put64(&mut head, 24, 1 << 30);
    put32(&mut head, 36, 2);
    put64(&mut head, 40, 0x30000);
    put64(&mut head, 48, 0x10000);
    put32(&mut head, 56, 1);
    put32(&mut head, 96, 4);
    put32(&mut head, 100, 112);
    head
}

fn put32(head: &mut [u8], at: usize, value: u32) {
    head[at..at + 4].copy_from_slice(&value.to_be_bytes());
}

fn put64(head: &mut [u8], at: usize, value: u64) {
    head[at..at + 8].copy_from_slice(&value.to_be_bytes());
}

#[rstest]
#[case::magic(0, 1, Qcow2Error::NotQcow2)]
#[case::version_1(4, 1, Qcow2Error::Version { version: 1 })]
#[case::version_4(4, 4, Qcow2Error::Version { version: 4 })]
#[case::small_clusters(20, 8, Qcow2Error::ClusterSize { bits: 8 })]
#[case::large_clusters(20, 22, Qcow2Error::ClusterSize { bits: 22 })]
#[case::encrypted(32, 2, Qcow2Error::Encrypted { method: 2 })]
#[case::l1_too_small(36, 1, Qcow2Error::L1TooSmall { entries: 1, needed: 2 })]
#[case::l1_too_large(36, 1 << 23, Qcow2Error::L1TooLarge { entries: 1 << 23, most: 1 << 19 })]
#[case::l1_unaligned(44, 0x30200, Qcow2Error::Unaligned { what: "L1 table", offset: 0x30200 })]
#[case::external_data(76, 4, Qcow2Error::ExternalData)]
#[case::unknown_feature(76, 0x20, Qcow2Error::Features { bits: 0x20 })]
#[case::unknown_high_feature(72, 1, Qcow2Error::Features { bits: 1 << 32 })]
#[case::compression_flag(76, 8, Qcow2Error::CompressionType { kind: 0, flag: true })]
#[case::compression_type(104, 0x0100_0000, Qcow2Error::CompressionType { kind: 1, flag: false })]
#[case::refcount_order(96, 7, Qcow2Error::RefcountOrder { order: 7 })]
#[case::short_length(100, 100, Qcow2Error::HeaderLength { length: 100 })]
#[case::long_length(100, 0x10001, Qcow2Error::HeaderLength { length: 0x10001 })]
fn refused(#[case] at: usize, #[case] value: u32, #[case] expected: Qcow2Error) {
    let mut head = valid();
    Header::parse(&head).unwrap();
    put32(&mut head, at, value);
    assert_eq!(Header::parse(&head), Err(expected));
}

#[test]
fn unmappable_size_is_rejected() {
    let mut head = valid();
    put64(&mut head, 24, u64::MAX);
    assert!(matches!(
        Header::parse(&head),
        Err(Qcow2Error::L1TooLarge { .. })
    ));
}

#[test]
fn truncated_header_is_an_error() {
    let head = valid();
    for length in 0..105 {
        assert!(Header::parse(&head[..length]).is_err(), "{length}");
    }
}

#[test]
fn dirty_or_corrupt_image_is_read_and_flagged() {
    let mut head = valid();
    put32(&mut head, 76, 3);
    let header = Header::parse(&head).unwrap();
    assert!(header.dirty && header.corrupt);
}

#[test]
fn images_of_qemu_img_are_parsed() {
    let folder = Folder::new();
    let image = folder.create(
        "disk.qcow2",
        "compression_type=zstd,extended_l2=on,cluster_size=32k",
        "3G",
    );
    let header = Header::parse(&std::fs::read(image).unwrap()).unwrap();
    assert_eq!(header.size, 3 << 30);
    assert_eq!(header.cluster(), 32 << 10);
    assert_eq!(header.compression, Compression::Zstd);
    assert!(header.extended_l2 && !header.dirty && !header.corrupt);
}

#[test]
fn a_backing_file_is_named() {
    let folder = Folder::new();
    let base = folder.create("base.qcow2", "", "1M");
    let image = folder.path("top.qcow2");
    run(
        "qemu-img",
        &[
            "create",
            "-q",
            "-f",
            "qcow2",
            "-F",
            "qcow2",
            "-b",
            text(&base),
            text(&image),
        ],
    );
    assert_eq!(
        Header::parse(&std::fs::read(image).unwrap()),
        Err(Qcow2Error::BackingFile {
            name: text(&base).to_owned()
        })
    );
}

#[test]
fn luks_and_external_data_files_are_refused() {
    let folder = Folder::new();
    let image = folder.path("data.qcow2");
    let options = format!("data_file={}", text(&folder.path("data.raw")));
    run(
        "qemu-img",
        &[
            "create",
            "-q",
            "-f",
            "qcow2",
            "-o",
            &options,
            text(&image),
            "1M",
        ],
    );
    assert_eq!(
        Header::parse(&std::fs::read(image).unwrap()),
        Err(Qcow2Error::ExternalData)
    );
    // Not created by `encrypt.format=luks`: qemu-img measures the CPU for that, which fails on a busy host.
    let image = folder.create("luks.qcow2", "", "1M");
    let mut bytes = std::fs::read(image).unwrap();
    // `crypt_method` in docs/interop/qcow2.txt of QEMU: 2 is LUKS.
    bytes[32..36].copy_from_slice(&2_u32.to_be_bytes());
    assert_eq!(
        Header::parse(&bytes),
        Err(Qcow2Error::Encrypted { method: 2 })
    );
}
