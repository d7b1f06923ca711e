//! The data folder: objects in `store.redb`, keys below `pki`.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use ::apiserver::pki::Authority;
use ::apiserver::store::{Options, Store, StoreError};
use anyhow::Context as _;

/// Objects within the folder.
const STORE: &str = "store.redb";

/// Whether there is a cluster in the folder.
pub(super) fn exists(folder: &Path) -> bool {
    folder.join(STORE).exists()
}

/// Removes the objects; the keys may stay.
pub(super) fn discard(folder: &Path) {
    // What is left says so itself: the next start refuses it.
    let _ = std::fs::remove_file(folder.join(STORE));
}

/// Opens the folder, made on first use and readable by its owner alone.
pub(super) fn open(folder: &Path) -> anyhow::Result<(Store, Authority)> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .with_context(|| {
            format!(
                "making the data folder {}; choose another with --data DIR",
                folder.display()
            )
        })?;
    let store = Store::open(folder.join(STORE), Options::default()).map_err(|error| {
        let hint = match &error {
            StoreError::InUse { .. } => {
                "; stop that server, or choose another folder with --data DIR"
            }
            StoreError::Format { .. } => {
                "; choose another folder with --data DIR, or move the file away to start anew"
            }
            error if error.is_corruption() => {
                "; restore the file from a copy, or move it away to start anew"
            }
            _ => "",
        };
        let error = anyhow::Error::new(error);
        anyhow::anyhow!(
            "opening the data folder {}: {error:#}{hint}",
            folder.display()
        )
    })?;
    let keys = folder.join("pki");
    let authority = Authority::open(&keys).with_context(|| {
        format!(
            "opening the keys in {}; move them away to have new ones made",
            keys.display()
        )
    })?;
    Ok((store, authority))
}
