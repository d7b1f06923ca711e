//! The data directory: objects in `store.redb`, keys below `pki`.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use ::apiserver::pki::Authority;
use ::apiserver::store::{Options, Store, StoreError};
use anyhow::Context as _;

/// File name of the object store.
const STORE: &str = "store.redb";

/// Whether the directory holds a cluster.
pub(super) fn exists(folder: &Path) -> bool {
    folder.join(STORE).exists()
}

/// Removes the objects; the keys may stay.
pub(super) fn discard(folder: &Path) {
    // If this fails, the next start refuses the directory and reports it.
    let _ = std::fs::remove_file(folder.join(STORE));
}

/// Opens the directory, created on first use and readable by its owner only.
pub(super) fn open(folder: &Path) -> anyhow::Result<(Store, Authority)> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .with_context(|| {
            format!(
                "creating the data directory {}; choose another with --data DIR",
                folder.display()
            )
        })?;
    let store = Store::open(folder.join(STORE), Options::default()).map_err(|error| {
        let hint = match &error {
            StoreError::InUse { .. } => {
                "; stop that server, or choose another directory with --data DIR"
            }
            StoreError::Format { .. } => {
                "; choose another directory with --data DIR, or move the file away to start anew"
            }
            error if error.is_corruption() => {
                "; restore the file from a copy, or move it away to start anew"
            }
            _ => "",
        };
        let error = anyhow::Error::new(error);
        anyhow::anyhow!(
            "opening the data directory {}: {error:#}{hint}",
            folder.display()
        )
    })?;
    let keys = folder.join("pki");
    let authority = Authority::open(&keys).with_context(|| {
        format!(
            "opening the keys in {}; move them away to create new ones",
            keys.display()
        )
    })?;
    Ok((store, authority))
}
