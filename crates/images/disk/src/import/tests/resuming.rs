//! Imports of a killed process are resumed where possible.

use platform::Digest;
use rstest::rstest;

use super::fixture::{Log, Registry, archive, pack, pack_parts};
use crate::Error;
use crate::import::{Checkpoint, Contents, Options};
use crate::qcow2::tests::fixture::{Folder, run, text};
use crate::sink::MemorySink;
use crate::unpack::Packing;

fn options() -> Options {
    Options {
        checkpoint_every: 300_000,
        ..Options::default()
    }
}

#[rstest]
fn from_the_last_checkpoint_on(
    #[values("raw", "qcow2", "qcow2 -c", "grown")] format: &str,
    #[values(Packing::Plain, Packing::Gzip, Packing::Zstd)] packing: Packing,
    #[values(40, 95)] percent: u64,
) {
    let folder = Folder::new();
    let raw = folder.raw("disk.raw", 9 << 20, 41);
    let image = match format {
        "raw" => raw.clone(),
        "qcow2" => folder.convert(&raw, "disk.qcow2", &["-o", "cluster_size=16k"]),
        "grown" => {
            let image = folder.convert(&raw, "disk.qcow2", &["-o", "cluster_size=8k"]);
            run("qemu-img", &["resize", "-q", text(&image), "60M"]);
            image
        }
        _ => folder.convert(&raw, "disk.qcow2", &["-c", "-o", "cluster_size=64k"]),
    };
    let expected = match format {
        "raw" => std::fs::read(&raw).unwrap(),
        _ => folder.oracle(&image),
    };
    let tar = archive(&[
        ("etc/motd", b"hello"),
        ("disk/disk.img", &std::fs::read(&image).unwrap()),
    ]);
    let blob = match packing {
        Packing::Plain => tar.clone(),
        packing => pack_parts(packing, &tar, 150_001),
    };
    let mut registry = Registry::default();
    let length = blob.len() as u64;
    registry.push(blob, &tar);

    // Killed in the middle.
    registry.breaks_at = Some(length * percent / 100);
    let mut sink = MemorySink::new(None);
    let mut log = Log::default();
    let error = registry
        .import_with(&mut sink, &options(), None, &mut log)
        .unwrap_err();
    assert_eq!(error.reason(), "ReadFailed");

    let checkpoint = log.checkpoints.last().expect("there is a checkpoint");
    let stored = serde_json::to_vec(checkpoint).unwrap();
    let checkpoint: Checkpoint = serde_json::from_slice(&stored).unwrap();
    let (layer, offset) = checkpoint.place();
    assert_eq!(layer, Some(&registry.layers[0].digest));
    assert!(offset > 0);

    // What was written after the checkpoint may be there or not; it is written again.
    registry.breaks_at = None;
    registry.opened.clear();
    let imported = registry
        .import_with(&mut sink, &options(), Some(checkpoint), &mut Log::default())
        .unwrap();
    assert!(sink.to_vec() == expected);
    assert_eq!(
        registry.opened,
        [(registry.layers[0].digest.clone(), offset)]
    );
    assert_eq!(imported.fetched, length - offset);
    assert_eq!(Some(&imported.diff_id), registry.layers[0].diff_id.as_ref());

    let whole = registry.import(&mut MemorySink::new(None)).unwrap();
    assert_eq!(imported.content, whole.content);
}

#[test]
fn data_after_a_checkpoint_is_verified() {
    let disk: Vec<u8> = (0..2_000_000_u32).map(|n| (n % 241) as u8).collect();
    let tar = archive(&[("disk/disk.img", &disk)]);
    let mut registry = Registry::default();
    registry.push(tar.clone(), &tar);
    let mut log = Log::default();
    let mut sink = MemorySink::new(None);
    registry
        .import_with(&mut sink, &options(), None, &mut log)
        .unwrap();
    let checkpoint = log.checkpoints.swap_remove(2);
    registry.blobs.values_mut().next().unwrap()[1_900_000] ^= 1;
    let error = registry
        .import_with(&mut sink, &options(), Some(checkpoint), &mut Log::default())
        .unwrap_err();
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
fn one_gzip_member_or_a_packed_disk_has_no_place_to_go_on() {
    let disk: Vec<u8> = (0..2_000_000_u32)
        .map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    let tar = archive(&[("disk/disk.img", &disk)]);
    let mut registry = Registry::default();
    registry.push(pack(Packing::Gzip, &tar), &tar);
    let mut log = Log::default();
    registry
        .import_with(&mut MemorySink::new(None), &options(), None, &mut log)
        .unwrap();
    assert!(log.checkpoints.is_empty());

    let tar = archive(&[("disk/disk.img.gz", &pack(Packing::Gzip, &disk))]);
    let mut registry = Registry::default();
    registry.push(tar.clone(), &tar);
    registry
        .import_with(&mut MemorySink::new(None), &options(), None, &mut log)
        .unwrap();
    // Nothing but what is before the first bytes of the disk.
    assert!(log.checkpoints.is_empty());
}

#[test]
fn packed_and_without_a_diff_id_there_is_no_checkpoint() {
    let tar = archive(&[("disk/disk.img", &vec![3; 2_000_000])]);
    let mut registry = Registry::default();
    registry.push(pack_parts(Packing::Gzip, &tar, 100_000), &tar);
    registry.layers[0].diff_id = None;
    let mut log = Log::default();
    let every = Options {
        checkpoint_every: 1,
        ..options()
    };
    registry
        .import_with(&mut MemorySink::new(None), &every, None, &mut log)
        .unwrap();
    assert!(log.checkpoints.is_empty());
}

/// A file on a web server: it has no diff-id, and a digest only if it is configured.
#[rstest]
fn a_plain_file_goes_on_and_is_verified_as_a_whole(
    #[values(true, false)] is_verified: bool,
    #[values(true, false)] is_damaged: bool,
) {
    let disk: Vec<u8> = (0..2_000_000_u32).map(|n| (n % 241) as u8).collect();
    let mut registry = Registry::default();
    registry.push(disk.clone(), &disk);
    registry.layers[0].diff_id = None;
    registry.layers[0].is_verified = is_verified;
    registry.layers[0].contents = Contents::Disk;
    let mut log = Log::default();
    let mut sink = MemorySink::new(None);
    registry.breaks_at = Some(1_500_000);
    registry
        .import_with(&mut sink, &options(), None, &mut log)
        .unwrap_err();
    let checkpoint = log.checkpoints.pop().unwrap();
    registry.breaks_at = None;
    if is_damaged {
        registry.blobs.values_mut().next().unwrap()[1_900_000] ^= 1;
    }
    let outcome =
        registry.import_with(&mut sink, &options(), Some(checkpoint), &mut Log::default());
    match outcome {
        Err(error) => {
            assert!(is_verified && is_damaged, "{error:?}");
            assert!(
                matches!(error, Error::DigestMismatch { what: "digest", .. }),
                "{error:?}"
            );
        }
        Ok(imported) => {
            assert!(!(is_verified && is_damaged));
            let there = registry.blobs.values().next().unwrap();
            assert!(sink.to_vec().starts_with(there));
            // Of all of it, although only its end was read.
            assert_eq!(imported.layer, Digest::sha256(there));
            assert_eq!(imported.size, 2_000_384, "in whole sectors");
            let mut whole = Registry::with(&[("disk/disk.img", there)], Packing::Plain);
            let whole = whole.import(&mut MemorySink::new(None)).unwrap();
            assert_eq!(imported.content, whole.content);
        }
    }
}

#[test]
fn a_checkpoint_of_another_image_is_refused() {
    let tar = archive(&[("disk/disk.img", &vec![3; 2_000_000])]);
    let mut registry = Registry::default();
    registry.push(tar.clone(), &tar);
    let mut log = Log::default();
    registry
        .import_with(&mut MemorySink::new(None), &options(), None, &mut log)
        .unwrap();
    let checkpoint = log.checkpoints.pop().unwrap();
    registry.layers[0].digest = Digest::sha256(b"another");
    let mut sink = MemorySink::new(None);
    let error = registry
        .import_with(&mut sink, &options(), Some(checkpoint), &mut log)
        .unwrap_err();
    assert_eq!(error.reason(), "CheckpointMismatch");
    assert_eq!(sink.highest(), 0);
}
