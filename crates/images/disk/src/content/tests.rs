use proptest::prelude::*;

use super::*;

/// The tree as the documentation words it, from the whole disk.
fn by_the_book(disk: &[u8], leaf: usize) -> String {
    let mut root = Hasher::new(Algorithm::Sha256);
    root.update(b"medley disk 1\n");
    root.update(&(disk.len() as u64).to_be_bytes());
    root.update(&(leaf as u64).to_be_bytes());
    for (index, part) in disk.chunks(leaf).enumerate() {
        let mut hash = Sha256::new();
        let mut any = false;
        for (number, block) in part.chunks(BLOCK).enumerate() {
            if block.iter().any(|byte| *byte != 0) {
                any = true;
                hash.update(u32::try_from(number).unwrap().to_be_bytes());
                hash.update(u32::try_from(block.len()).unwrap().to_be_bytes());
                hash.update(block);
            }
        }
        if any {
            root.update(&(index as u64).to_be_bytes());
            root.update(&hash.finalize());
        }
    }
    format!("tree-{}", root.finish())
}

fn write(disk: &mut [u8], sink: &mut crate::MemorySink, order: &[(usize, usize, u8)]) -> String {
    let mut canvas = crate::canvas::Canvas::new(sink, disk.len() as u64).unwrap();
    for (at, length, byte) in order {
        let data = vec![*byte; *length];
        canvas.put(*at as u64, &data).unwrap();
        // Blocks of zeros are not written: the law is for disks that are written once.
        let end = (at + length).min(disk.len());
        disk[*at..end].fill(*byte);
    }
    canvas.finish().unwrap().content.to_string()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn hash_is_independent_of_write_order_and_length(
        size in 1_usize..3_000_000,
        pieces in prop::collection::vec((0_usize..3_000_000, 1_usize..300_000, 1_u8..4), 0..12),
    ) {
        let pieces: Vec<_> = pieces.into_iter().filter(|(at, ..)| *at < size).collect();
        let mut disk = vec![0; size];
        let mut sink = crate::MemorySink::new(None);
        let name = write(&mut disk, &mut sink, &pieces);
        prop_assert_eq!(sink.to_vec(), disk.clone());
        prop_assert_eq!(name, by_the_book(&disk, 1 << 20));
    }
}

#[test]
fn leaves_grow_with_the_disk() {
    assert_eq!(Tree::new(1 << 36).leaf, 1 << 20);
    assert_eq!(Tree::new((1 << 36) + 1).leaf, 1 << 21);
    assert_eq!(Tree::new(u64::MAX).leaf, 1 << 48);
}
