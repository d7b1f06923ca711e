//! What goes wrong on the way, and by which name.

use platform::Digest;
use rstest::rstest;

use super::fixture::{Log, Registry, archive, pack};
use crate::import::Options;
use crate::qcow2::tests::fixture::{Folder, run, text};
use crate::sink::MemorySink;
use crate::unpack::{Limits, Packing};
use crate::{Error, UnpackError};

fn registry() -> Registry {
    let disk: Vec<u8> = (0..1_000_000_u32)
        .map(|n| (n * 7 / 3 % 251) as u8)
        .collect();
    Registry::with(&[("disk/disk.img", &disk)], Packing::Gzip)
}

/// Changes the blob of the only layer, and not its name.
fn damage(registry: &mut Registry, how: impl FnOnce(&mut Vec<u8>)) {
    let blob = registry.blobs.values_mut().next().unwrap();
    how(blob);
}

#[rstest]
#[case::cut(|blob: &mut Vec<u8>| blob.truncate(1000))]
#[case::empty(Vec::clear as fn(&mut Vec<u8>))]
#[case::longer(|blob: &mut Vec<u8>| blob.extend([0; 5]))]
fn another_length_is_not_the_layer(#[case] how: fn(&mut Vec<u8>)) {
    let mut registry = registry();
    damage(&mut registry, how);
    let error = registry.import(&mut MemorySink::new(None)).unwrap_err();
    assert!(matches!(error, Error::SizeMismatch { .. }), "{error:?}");
}

#[rstest]
#[case::first(0)]
#[case::middle(3000)]
fn damaged_layer_is_reported_as_digest_mismatch(#[case] at: usize) {
    let mut registry = registry();
    damage(&mut registry, |blob| blob[at] ^= 0x55);
    let error = registry.import(&mut MemorySink::new(None)).unwrap_err();
    assert!(
        matches!(error, Error::DigestMismatch { what: "digest", .. }),
        "{error:?}"
    );
}

#[test]
fn a_layer_that_is_broken_as_it_was_pushed_is_a_bad_layer() {
    let mut registry = Registry::default();
    let tar = archive(&[("disk/disk.img", &vec![1; 100_000])]);
    let mut blob = pack(Packing::Gzip, &tar);
    let length = blob.len();
    blob.truncate(length / 2);
    registry.push(blob, &tar);
    let error = registry.import(&mut MemorySink::new(None)).unwrap_err();
    assert!(
        matches!(error, Error::Unpack(UnpackError::Truncated { .. })),
        "{error:?}"
    );
    assert_eq!(error.reason(), "BadLayer");
}

#[test]
fn a_wrong_diff_id_is_noticed() {
    let mut registry = registry();
    registry.layers[0].diff_id = Some(Digest::sha256(b"something else"));
    let error = registry.import(&mut MemorySink::new(None)).unwrap_err();
    assert!(
        matches!(
            error,
            Error::DigestMismatch {
                what: "diff-id",
                ..
            }
        ),
        "{error:?}"
    );
}

#[test]
fn a_layer_without_a_disk_is_verified_as_well() {
    let mut registry = registry();
    let top = archive(&[("etc/motd", b"hello")]);
    registry.push(pack(Packing::Gzip, &top), &top);
    registry.layers[1].diff_id = Some(Digest::sha256(b"something else"));
    assert!(registry.import(&mut MemorySink::new(None)).is_err());
}

#[test]
fn read_error_names_the_offset() {
    let mut registry = registry();
    registry.breaks_at = Some(700);
    let error = registry.import(&mut MemorySink::new(None)).unwrap_err();
    assert_eq!(error.reason(), "ReadFailed");
    assert!(!error.is_final());
}

#[rstest]
#[case::raw("raw")]
#[case::qcow2("qcow2")]
fn a_disk_that_does_not_fit_is_not_begun(#[case] format: &str) {
    let folder = Folder::new();
    let raw = folder.raw("disk.raw", 1 << 20, 5);
    let image = folder.convert_to(format, &raw, "image", &[]);
    let file = std::fs::read(image).unwrap();
    let mut registry = Registry::with(&[("disk/disk.img", &file)], Packing::Gzip);
    for mut sink in [
        MemorySink::new(Some((1 << 20) - 1)),
        MemorySink::device((1 << 20) - 512),
    ] {
        let error = registry.import(&mut sink).unwrap_err();
        let Error::TooSmall { need, have } = error else {
            panic!("{error:?}");
        };
        assert_eq!(need, 1 << 20);
        assert!(have < need);
        assert_eq!(sink.highest(), 0);
    }
}

#[test]
fn a_disk_of_unknown_size_stops_where_the_target_ends() {
    let file = pack(Packing::Xz, &vec![9; 100_000]);
    let mut registry = Registry::with(&[("disk/disk.img.xz", &file)], Packing::Gzip);
    for mut sink in [MemorySink::new(Some(50_000)), MemorySink::device(50_000)] {
        let error = registry.import(&mut sink).unwrap_err();
        assert_eq!(error.reason(), "TooSmall", "{error:?}");
        assert!(sink.highest() <= 50_000);
    }
}

#[test]
fn bombs_do_not_go_off() {
    let mut registry = Registry::with(&[("etc/zeros", &vec![0; 10_000_000])], Packing::Gzip);
    let options = Options {
        limits: Limits {
            unpacked: 1 << 20,
            ..Limits::default()
        },
        ..Options::default()
    };
    let error = registry
        .import_with(
            &mut MemorySink::new(None),
            &options,
            None,
            &mut Log::default(),
        )
        .unwrap_err();
    assert_eq!(error.reason(), "Bomb");
    // Compressed once more than the limit.
    let once = pack(Packing::Gzip, b"disk");
    let thrice = pack(Packing::Gzip, &pack(Packing::Gzip, &once));
    let mut registry = Registry::with(&[("disk/a", &thrice)], Packing::Gzip);
    let error = registry.import(&mut MemorySink::new(None)).unwrap_err();
    assert_eq!(error.reason(), "Bomb");
}

#[test]
fn observer_can_cancel_the_import() {
    let mut registry = registry();
    registry.blobs.clear();
    registry.layers.clear();
    let tar = archive(&[("disk/disk.img", &vec![1; 8 << 20])]);
    registry.push(tar.clone(), &tar);
    let mut log = Log {
        enough: Some(2),
        ..Log::default()
    };
    let error = registry
        .import_with(
            &mut MemorySink::new(None),
            &Options::default(),
            None,
            &mut log,
        )
        .unwrap_err();
    assert!(matches!(error, Error::Cancelled));
    assert_eq!(log.reports.len(), 2);
}

#[test]
fn nothing_at_all_is_no_disk() {
    let error = Registry::default()
        .import(&mut MemorySink::new(None))
        .unwrap_err();
    assert_eq!(error.reason(), "NoDisk");
    let mut registry = Registry::with(&[("disk/a", b"1"), ("disk/b", b"2")], Packing::Plain);
    let error = registry.import(&mut MemorySink::new(None)).unwrap_err();
    assert_eq!(error.reason(), "MoreThanOneDisk");
}

#[test]
fn an_empty_file_is_an_empty_disk() {
    let mut registry = Registry::with(&[("disk/disk.img", b"")], Packing::Gzip);
    let imported = registry.import(&mut MemorySink::new(None)).unwrap();
    assert_eq!(imported.size, 0);
}

#[test]
fn device_needs_another_pass_or_fails() {
    let folder = Folder::new();
    let raw = folder.raw("disk.raw", 20 << 20, 31);
    let image = folder.convert(&raw, "disk.qcow2", &["-o", "cluster_size=16k"]);
    run("qemu-img", &["resize", "-q", text(&image), "100M"]);
    let expected = folder.oracle(&image);
    let file = std::fs::read(&image).unwrap();
    let mut registry = Registry::with(&[("disk/disk.img", &file)], Packing::Gzip);

    let mut device = MemorySink::device(100 << 20);
    let imported = registry.import(&mut device).unwrap();
    assert!(device.to_vec() == expected);
    assert!(imported.passes > 1);
    assert_eq!(registry.opened.len(), imported.passes as usize);

    let mut target = MemorySink::new(None);
    let parked = registry.import(&mut target).unwrap();
    assert_eq!(parked.passes, 1);
    assert!(parked.parked > 0);
    assert_eq!(parked.content, imported.content);

    registry.opened.clear();
    registry.once = true;
    let error = registry
        .import(&mut MemorySink::device(100 << 20))
        .unwrap_err();
    assert!(
        matches!(error, Error::AnotherPass { missing, .. } if missing > 0),
        "{error:?}"
    );
}
