//! Fuzzing entry points: each takes arbitrary bytes and panics if an invariant is violated.

use std::fs;
use std::io::Cursor;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use disk::Packing;
use platform::{Descriptor, Digest, MediaType};

use crate::snapshot::{self, Scratch, Tree, UnpackReservation, remove_tree};
use crate::store::Store;

/// The quota of the store in bytes.
const LIMIT: u64 = 1 << 20;

/// Layers become files inside their folder only, within the quota of the store, and every tree can be
/// removed again. The input is a list of layers, each after its length in two bytes.
pub fn snapshot(mut data: &[u8]) {
    let place = tempfile::tempdir().expect("a folder can be made");
    let canary = place.path().join("canary");
    fs::write(&canary, "here").expect("a file can be written");
    let store = Store::open(&place.path().join("store"), Some(LIMIT));
    let store = Arc::new(store.expect("a store can be opened"));
    let scratch = Scratch::new(store.root().join("unpacking/it")).expect("a folder can be made");
    let rootfs = scratch.path().join("rootfs");
    fs::create_dir(&rootfs).expect("a folder can be made");
    let spool = scratch.spool().expect("a file can be made");
    let reservation = UnpackReservation::new(Arc::clone(&store));
    let mut tree = Tree::new(&rootfs, spool, reservation).expect("the folder can be opened");
    let stop = Arc::new(AtomicBool::new(false));
    let mut is_whole = true;
    while let Some((length, rest)) = data.split_first_chunk() {
        let length = usize::from(u16::from_le_bytes(*length)).min(rest.len());
        let (layer, rest) = rest.split_at(length);
        data = rest;
        let layer = match Packing::of(layer) {
            Packing::Plain => disk::fuzz::mended(layer),
            _ => layer.to_vec(),
        };
        let described = Descriptor {
            media_type: MediaType::default(),
            digest: Digest::sha256(&layer),
            size: layer.len() as u64,
            platform: None,
            artifact_type: String::new(),
            annotations: std::collections::BTreeMap::new(),
        };
        let from = Cursor::new(layer);
        let applied = snapshot::apply(&mut tree, &described, &described.digest, from, &stop);
        // Only an uncompressed layer equals its diff-id.
        is_whole &= !matches!(
            applied,
            Err(error) if !matches!(error, disk::Error::DigestMismatch { .. })
        );
        if !is_whole {
            break;
        }
    }
    if is_whole {
        // The file system may reject attributes.
        let _ = tree.finish();
    }
    assert_eq!(fs::read_to_string(&canary).ok().as_deref(), Some("here"));
    let beside = |path: &Path| fs::read_dir(path).expect("it can be read").count();
    assert_eq!(
        beside(place.path()),
        2,
        "something was made outside of the store"
    );
    assert_eq!(
        beside(scratch.path()),
        1,
        "something was made outside of the image"
    );
    remove_tree(&rootfs).expect("what was made can be removed");
    assert!(!rootfs.exists());
}
