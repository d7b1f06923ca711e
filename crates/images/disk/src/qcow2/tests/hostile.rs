//! Images that want to do harm: an error or a disk, but no panic and nothing outside.

use std::sync::OnceLock;

use proptest::prelude::*;

use super::fixture::{Folder, decode};
use crate::sink::MemorySink;

/// Small images of several kinds.
fn seeds() -> &'static Vec<Vec<u8>> {
    static SEEDS: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    SEEDS.get_or_init(|| {
        let folder = Folder::new();
        let raw = folder.raw("disk.raw", 600_000, 5);
        [
            &["-o", "cluster_size=512"] as &[&str],
            &["-o", "cluster_size=4k"],
            &["-c", "-o", "cluster_size=4k"],
            &["-c", "-o", "cluster_size=4k,compression_type=zstd"],
            &["-o", "cluster_size=16k,extended_l2=on"],
        ]
        .iter()
        .map(|arguments| std::fs::read(folder.convert(&raw, "disk.qcow2", arguments)).unwrap())
        .collect()
    })
}

/// Bytes of the target.
const CAPACITY: u64 = 4 << 20;

/// What is done to an image.
#[derive(Debug, Clone)]
enum Change {
    Byte(prop::sample::Index, u8),
    Entry(prop::sample::Index, u64),
    Copy(prop::sample::Index, prop::sample::Index),
    Cut(prop::sample::Index),
}

fn change() -> impl Strategy<Value = Change> {
    let index = any::<prop::sample::Index>;
    prop_oneof![
        4 => (index(), any::<u8>()).prop_map(|(at, byte)| Change::Byte(at, byte)),
        4 => (index(), 0_u64..2_000, 0_u64..4).prop_map(|(at, cluster, flags)| {
            Change::Entry(at, cluster << 9 | flags << 62)
        }),
        3 => (index(), index()).prop_map(|(from, to)| Change::Copy(from, to)),
        1 => index().prop_map(Change::Cut),
    ]
}

/// Mostly in the part with the tables.
fn place(index: prop::sample::Index, length: usize) -> usize {
    let at = index.index(length * 2);
    if at < length {
        at
    } else {
        (at - length) % length.min(16_384)
    }
}

fn apply(image: &mut Vec<u8>, change: &Change) {
    let length = image.len();
    if length < 1024 {
        return;
    }
    match change {
        Change::Byte(at, byte) => image[place(*at, length)] = *byte,
        Change::Entry(at, entry) => {
            let at = place(*at, length - 8) & !7;
            image[at..at + 8].copy_from_slice(&entry.to_be_bytes());
        }
        Change::Copy(from, to) => {
            let (from, to) = (
                place(*from, length - 512) & !511,
                place(*to, length - 512) & !511,
            );
            image.copy_within(from..from + 512, to);
        }
        Change::Cut(at) => image.truncate(at.index(length)),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn mutated_images_never_write_outside(
        seed in 0_usize..5,
        changes in prop::collection::vec(change(), 1..12),
        piece in 1_usize..70_000,
        tail: bool,
    ) {
        let mut image = seeds()[seed].clone();
        for change in &changes {
            apply(&mut image, change);
        }
        let mut sink = if tail { MemorySink::new(Some(CAPACITY)) } else { MemorySink::device(CAPACITY) };
        if let Ok(decoded) = decode(&image, &mut sink, piece, 0) {
            prop_assert!(decoded.disk.len() as u64 <= CAPACITY);
        }
        let end = CAPACITY + image.len() as u64 + (3 << 20);
        let most = if tail { end } else { CAPACITY };
        prop_assert!(sink.highest() <= most);
    }

    #[test]
    fn both_kinds_of_target_get_the_same_disk(
        seed in 0_usize..5,
        changes in prop::collection::vec(change(), 1..6),
        piece in 1_usize..70_000,
    ) {
        let mut image = seeds()[seed].clone();
        for change in &changes {
            apply(&mut image, change);
        }
        let file = decode(&image, &mut MemorySink::new(Some(CAPACITY)), piece, 0);
        let device = decode(&image, &mut MemorySink::device(CAPACITY), 65_536, 0);
        if let (Ok(file), Ok(device)) = (file, device) {
            prop_assert!(file.disk == device.disk);
            prop_assert_eq!(file.content, device.content);
        }
    }
}
