//! Complete snapshots.
//!
//! Data may not have reached the disk when a snapshot is renamed: waiting for that would slow down
//! every pull. So a snapshot records the boot id of the node until all of it is synced. If the node
//! crashes before that, the snapshot is discarded and unpacked again. A kill of the process alone does
//! no harm.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use parking_lot::Mutex;
use platform::Digest;
use serde::{Deserialize, Serialize};

use crate::snapshot::{Scratch, remove_tree};

/// Metadata of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct About {
    /// The size of its files in bytes.
    pub(crate) bytes: u64,
    /// The number of files and folders.
    pub(crate) entries: u64,
    /// Devices and attributes that could not be created.
    pub(crate) left_out: u64,
    /// The boot id under which it was created; `None` once it is synced to disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) boot: Option<String>,
}

/// All snapshots.
#[derive(Debug)]
pub(crate) struct Snapshots {
    folder: PathBuf,
    boot: String,
    known: Mutex<BTreeMap<Digest, About>>,
    discarded: AtomicU64,
}

impl Snapshots {
    /// Opens the snapshots of a folder, and removes incomplete ones.
    pub(crate) fn open(folder: &Path) -> io::Result<Self> {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let boot = boot.trim().to_owned();
        let mut known = BTreeMap::new();
        for entry in fs::read_dir(folder.join("sha256"))? {
            let entry = entry?;
            let name = entry.file_name();
            let digest = name.to_str().map(|name| format!("sha256:{name}").parse());
            let about = fs::read(entry.path().join("about.json"));
            let about = about
                .ok()
                .and_then(|bytes| serde_json::from_slice(&bytes).ok());
            let whole = about.filter(|about: &About| {
                // Same boot: the page cache was not lost, so what was renamed is
                // complete even if it was never synced.
                about.boot.as_ref().is_none_or(|made| *made == boot)
                    && entry.path().join("rootfs").is_dir()
            });
            if let (Some(Ok(digest)), Some(about)) = (digest, whole) {
                known.insert(digest, about);
            } else {
                tracing::warn!(path = %entry.path().display(), "removed: this snapshot is not whole");
                remove_tree(&entry.path())?;
            }
        }
        Ok(Self {
            folder: folder.to_owned(),
            boot,
            known: Mutex::new(known),
            discarded: AtomicU64::new(0),
        })
    }

    fn place(&self, chain: &Digest) -> PathBuf {
        let folder = self.folder.join(chain.algorithm().name());
        folder.join(chain.hash())
    }

    /// The root folder of a snapshot.
    pub(crate) fn rootfs(&self, chain: &Digest) -> PathBuf {
        self.place(chain).join("rootfs")
    }

    pub(crate) fn get(&self, chain: &Digest) -> Option<About> {
        self.known.lock().get(chain).cloned()
    }

    /// The size of all snapshots in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.sum(|about| about.bytes)
    }

    /// The number of files and folders of all snapshots.
    pub(crate) fn entries(&self) -> u64 {
        self.sum(|about| about.entries)
    }

    fn sum(&self, of: impl Fn(&About) -> u64) -> u64 {
        let known = self.known.lock();
        known.values().map(of).fold(0, u64::saturating_add)
    }

    /// Renames a snapshot into place.
    pub(crate) fn add(&self, chain: &Digest, mut about: About, made: Scratch) -> io::Result<()> {
        about.boot = Some(self.boot.clone());
        write(made.path(), &about)?;
        // A discarded snapshot that could not be moved would be in the way.
        remove_tree(&self.place(chain))?;
        made.name(&self.place(chain))?;
        self.known.lock().insert(chain.clone(), about);
        Ok(())
    }

    /// Waits until a snapshot is synced to disk, and records that.
    pub(crate) fn mark_durable(&self, chain: &Digest) -> io::Result<()> {
        let Some(mut about) = self.get(chain).filter(|about| about.boot.is_some()) else {
            return Ok(());
        };
        let place = self.place(chain);
        // `syncfs` of the whole file system: a snapshot has thousands of files, and an
        // `fsync` for each takes far longer than the pull.
        sync(&File::open(&place)?)?;
        about.boot = None;
        write(&place, &about)?;
        if let Some(known) = self.known.lock().get_mut(chain) {
            *known = about;
        }
        Ok(())
    }

    /// Moves a snapshot to the trash; returns its path there.
    pub(super) fn discard(&self, chain: &Digest, trash: &Path) -> Option<PathBuf> {
        let mut known = self.known.lock();
        known.remove(chain)?;
        // An earlier one of this name may not be removed yet.
        let number = self.discarded.fetch_add(1, Ordering::Relaxed);
        let to = trash.join(format!("{}-{number}", chain.hash()));
        match fs::rename(self.place(chain), &to) {
            Ok(()) => Some(to),
            Err(error) => {
                tracing::warn!(%chain, %error, "a snapshot stays");
                None
            }
        }
    }

    /// Snapshots older than a given age.
    pub(super) fn older(&self, is_old: impl Fn(SystemTime) -> bool) -> Vec<Digest> {
        let known: Vec<Digest> = self.known.lock().keys().cloned().collect();
        let made = |chain: &Digest| {
            let about = fs::metadata(self.place(chain).join("about.json"));
            about.and_then(|about| about.modified()).ok()
        };
        let old = known.into_iter();
        old.filter(|chain| made(chain).is_some_and(&is_old))
            .collect()
    }
}

fn write(folder: &Path, about: &About) -> io::Result<()> {
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(&serde_json::to_vec(about)?)?;
    file.as_file().sync_all()?;
    file.persist(folder.join("about.json"))?;
    Ok(())
}

#[cfg(target_os = "linux")]
fn sync(folder: &File) -> io::Result<()> {
    Ok(rustix::fs::syncfs(folder)?)
}

#[cfg(not(target_os = "linux"))]
fn sync(_: &File) -> io::Result<()> {
    rustix::fs::sync();
    Ok(())
}
