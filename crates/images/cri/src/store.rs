//! The store on disk: blobs, snapshots and image records.
//!
//! ```text
//! ROOT/lock                       one process at a time
//! ROOT/images.json                images: names, handlers, contents
//! ROOT/oci-layout, ROOT/blobs/    content by digest, as an OCI layout has it
//! ROOT/ingest/                    partial downloads
//! ROOT/snapshots/sha256/HASH/     rootfs/ and about.json, by chain id
//! ROOT/unpacking/, ROOT/trash/    unfinished or discarded snapshots; emptied at every start
//! ```
//!
//! Everything is renamed into place when it is complete, and an image is recorded when all its content
//! is in place. So after any crash, recorded images are complete; the rest is garbage, or is resumed.

mod leases;
mod snapshots;

use std::collections::BTreeSet;
use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use oci::{BlobStore, Kept, KeyedLocks, StoreError};
use parking_lot::Mutex;
use platform::Digest;

use tokio::sync::Semaphore;

use crate::quota::{Quota, QuotaExceeded};
use crate::records::{Record, Records};
use crate::snapshot::remove_tree;

pub(crate) use leases::{Lease, Leases};
pub(crate) use snapshots::{About, Snapshots};

/// Layers unpacked concurrently. Each may take 32 MiB for its decoder's window and 16 MiB for its path
/// set; a pull holds a permit only while it unpacks, never while it waits for a download.
const MAX_DECODERS: usize = 2;

/// Why the store cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process uses it.
    #[error("opening {}: another process uses it", path.display())]
    Busy {
        /// The store.
        path: PathBuf,
    },
    /// A file operation failed.
    #[error("{operation} {}", path.display())]
    File {
        /// `making`, `reading`...
        operation: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The blob store cannot be opened.
    #[error(transparent)]
    Blobs(#[from] StoreError),
}

/// The store on disk.
#[derive(Debug)]
pub(crate) struct Store {
    root: PathBuf,
    pub(crate) blobs: BlobStore,
    pub(crate) records: Mutex<Records>,
    pub(crate) snapshots: Snapshots,
    pub(crate) quota: Quota,
    leases: Leases,
    /// Locks of snapshots being unpacked.
    pub(crate) unpacking: KeyedLocks<Digest>,
    /// Permits to unpack a layer.
    pub(crate) decoders: Arc<Semaphore>,
    /// Held as long as the store is open.
    _lock: File,
}

/// What to collect.
#[derive(Debug)]
pub(crate) enum Garbage<'a> {
    /// The content of a removed image.
    Of(&'a Record),
    /// Everything unreferenced that is at least this old.
    Older(Duration),
}

impl Store {
    /// Opens the store in a folder, and drops incomplete content.
    pub(crate) fn open(root: &Path, limit: Option<u64>) -> Result<Self, OpenError> {
        let failed = |operation, path: &Path| {
            let path = path.to_owned();
            move |source| OpenError::File {
                operation,
                path,
                source,
            }
        };
        for folder in ["", "snapshots/sha256", "unpacking", "trash"] {
            let path = root.join(folder);
            let mut builder = fs::DirBuilder::new();
            builder.recursive(true).mode(0o700);
            builder.create(&path).map_err(failed("making", &path))?;
        }
        // Images contain set-user-id programs of root: no other user may reach them.
        let mode = fs::Permissions::from_mode(0o700);
        fs::set_permissions(root, mode).map_err(failed("opening", root))?;
        let lock = root.join("lock");
        let file = File::create(&lock).map_err(failed("opening", &lock))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let path = root.to_owned();
                return Err(OpenError::Busy { path });
            }
            Err(TryLockError::Error(source)) => return Err(failed("locking", &lock)(source)),
        }
        for folder in ["unpacking", "trash"] {
            empty(&root.join(folder)).map_err(failed("emptying", &root.join(folder)))?;
        }
        let blobs = BlobStore::open(root)?;
        let path = root.join("images.json");
        let records = known(&path).map_err(failed("reading", &path))?;
        let place = root.join("snapshots");
        let snapshots = Snapshots::open(&place).map_err(failed("reading", &place))?;
        let store = Self {
            root: root.to_owned(),
            blobs,
            records: Mutex::new(records),
            snapshots,
            quota: Quota::new(limit),
            leases: Leases::default(),
            unpacking: KeyedLocks::default(),
            decoders: Arc::new(Semaphore::new(MAX_DECODERS)),
            _lock: file,
        };
        store.check().map_err(failed("writing", &path))?;
        store.measure();
        Ok(store)
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Drops images with missing or damaged content. Layers are not read here, since containers use the
    /// snapshot.
    fn check(&self) -> io::Result<()> {
        self.records.lock().retain(|record| {
            let broken = record
                .documents
                .iter()
                .find(|digest| self.blobs.read(digest).is_err());
            if let Some(digest) = broken {
                tracing::warn!(image = %record.id, %digest, "dropping an image: a document is damaged");
                let _ = self.blobs.remove(digest);
                return false;
            }
            let whole = self.snapshots.get(&record.chain).is_some();
            if !whole {
                tracing::warn!(image = %record.id, snapshot = %record.chain, "dropping an image: its snapshot is incomplete");
            }
            whole
        })
    }

    /// Reads all layers and removes damaged ones: the next pull downloads them again. Takes as long as
    /// reading the disk; `stop` ends it.
    pub(crate) fn scrub(&self, stop: &AtomicBool) {
        let Ok(all) = self.blobs.complete() else {
            return;
        };
        for Kept { digest, .. } in all {
            if stop.load(Ordering::Relaxed) {
                return;
            }
            match self.blobs.verify(&digest, stop) {
                Ok(true) => {}
                Ok(false) => tracing::warn!(%digest, "removed a damaged blob"),
                // It may have been removed in the meantime.
                Err(error) => tracing::debug!(%digest, %error, "not verified"),
            }
        }
    }

    /// Measures the space used.
    pub(crate) fn measure(&self) {
        let blobs = self.blobs.complete().unwrap_or_default();
        let unfinished = self.blobs.unfinished().unwrap_or_default();
        let files = blobs.iter().chain(&unfinished).map(|kept| kept.size);
        let bytes = files.fold(0, u64::saturating_add);
        self.quota
            .record_usage(bytes.saturating_add(self.snapshots.bytes()));
    }

    /// Reserves space. Unreferenced content is removed before a reservation fails.
    pub(crate) fn reserve_space(&self, bytes: u64) -> Result<(), QuotaExceeded> {
        self.quota.reserve(bytes).or_else(|refusal| {
            // A request larger than the limit must not empty the store.
            // Collecting everything cannot help here, and would throw away partial downloads
            // and layers that other pulls resume from.
            if bytes > refusal.limit {
                return Err(refusal);
            }
            self.collect(&Garbage::Older(Duration::ZERO));
            self.quota.reserve(bytes)
        })
    }

    /// Protects content from collection until it is part of an image.
    pub(crate) fn lease(self: &Arc<Self>, digests: BTreeSet<Digest>) -> Lease {
        Lease::new(self, digests)
    }

    pub(crate) fn leases(&self) -> &Leases {
        &self.leases
    }

    /// Removes unreferenced content.
    pub(crate) fn collect(&self, garbage: &Garbage<'_>) {
        let (mut blobs, mut chains): (Vec<Digest>, Vec<Digest>) = (Vec::new(), Vec::new());
        match garbage {
            Garbage::Of(record) => {
                blobs.extend(record.blobs().cloned());
                chains.push(record.chain.clone());
            }
            Garbage::Older(age) => {
                let now = SystemTime::now();
                let is_old =
                    |when: SystemTime| now.duration_since(when).is_ok_and(|passed| passed >= *age);
                let complete = self.blobs.complete().unwrap_or_default().into_iter();
                let all = complete.chain(self.blobs.unfinished().unwrap_or_default());
                blobs.extend(
                    all.filter(|kept| is_old(kept.modified))
                        .map(|kept| kept.digest),
                );
                chains.extend(self.snapshots.older(is_old));
            }
        }
        for digest in blobs {
            // Lease, then record, both checked under the lease lock: a pull that takes a lease now waits until the
            // removal is done, and then finds the blob missing and fetches it.
            self.leases.unless_leased(&digest, || {
                if self.needs(|record| record.blobs().any(|blob| *blob == digest)) {
                    return;
                }
                if let Err(error) = self.blobs.remove(&digest) {
                    tracing::warn!(%digest, %error, "garbage stays");
                }
            });
        }
        for chain in chains {
            let mut trash = None;
            self.leases.unless_leased(&chain, || {
                if !self.needs(|record| record.chain == chain) {
                    trash = self.snapshots.discard(&chain, &self.root.join("trash"));
                }
            });
            let Some(trash) = trash else {
                continue;
            };
            let remove = move || {
                if let Err(error) = remove_tree(&trash) {
                    tracing::warn!(path = %trash.display(), %error, "garbage stays until the next start");
                }
            };
            match garbage {
                // Removal takes long, and the caller need not wait for it.
                Garbage::Of(_) => drop(std::thread::spawn(remove)),
                Garbage::Older(_) => remove(),
            }
        }
        self.measure();
    }

    fn needs(&self, this: impl Fn(&Record) -> bool) -> bool {
        self.records.lock().all().iter().any(this)
    }
}

/// The image records. If they cannot be read, the store starts without images: the content is still
/// there, so pulling again costs little.
fn known(path: &Path) -> io::Result<Records> {
    match Records::open(path) {
        Ok(records) => Ok(records),
        // Not damaged, only unreadable for this user: moving the file aside would make root's images unknown.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Err(error),
        Err(error) => {
            let aside = path.with_extension("json.damaged");
            tracing::warn!(path = %path.display(), %error, kept = %aside.display(), "images are forgotten");
            fs::rename(path, &aside)?;
            Records::open(path)
        }
    }
}

fn empty(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        remove_tree(&path)?;
    }
    Ok(())
}
