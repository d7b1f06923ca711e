//! Images that a node has pulled and mounted as a folder.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use disk::{Contents, Layer, OverlayError};
use platform::Digest;

use crate::error::Error;
use crate::import::{Cancellable, failed};

/// The folder of the disk in container disks.
const DISK_FOLDER: &str = "disk";

/// The disk of a mounted image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mounted {
    /// The path of the disk.
    pub path: PathBuf,
    /// The size of the file in bytes.
    pub size: u64,
}

/// Finds the disk: the only file in `/disk`, by the same rules as in layers. Symbolic links are not
/// followed: they could lead out of the image.
pub(crate) fn find_disk(root: &Path, name: &str) -> Result<Mounted, Error> {
    let folder = root.join(DISK_FOLDER);
    let refuse = |why: OverlayError| failed(name, why.into());
    let reading = |path: &Path| {
        let path = path.to_owned();
        move |source| Error::File {
            operation: "reading",
            path,
            source,
        }
    };
    match fs::symlink_metadata(&folder) {
        Ok(found) if found.is_dir() => {}
        Ok(_) => return Err(refuse(OverlayError::NotAFolder)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            // Distinguishes a missing mount from an image without `/disk`.
            fs::read_dir(root).map_err(reading(root))?;
            return Err(refuse(OverlayError::NoDisk));
        }
        Err(error) => return Err(reading(&folder)(error)),
    }
    let shown = |name: &OsString| format!("{DISK_FOLDER}/{}", name.to_string_lossy());
    let mut disk: Option<(OsString, u64)> = None;
    let mut links = Vec::new();
    for entry in fs::read_dir(&folder).map_err(reading(&folder))? {
        let entry = entry.map_err(reading(&folder))?;
        // `DirEntry::metadata` does not follow links; `fs::metadata` would leave the
        // image and read files of the importer pod.
        let found = entry.metadata().map_err(reading(&entry.path()))?;
        let own = entry.file_name();
        let path = shown(&own);
        if found.is_symlink() {
            let target = fs::read_link(entry.path()).map_err(reading(&entry.path()))?;
            links.push((path, target));
        } else if found.is_dir() {
            return Err(refuse(OverlayError::Nested { path }));
        } else if !found.is_file() {
            return Err(refuse(OverlayError::NotAFile { path }));
        } else if let Some((first, _)) = &disk {
            return Err(refuse(OverlayError::MoreThanOne {
                first: shown(first),
                second: path,
            }));
        } else {
            disk = Some((own, found.len()));
        }
    }
    let leads = |target: &Path| {
        let folder = target.parent().and_then(Path::to_str);
        let within = matches!(folder, Some("" | "." | "/disk"));
        let disk = disk.as_ref().map(|(name, _)| name.as_os_str());
        within && target.file_name() == disk
    };
    if let Some((path, target)) = links.iter().find(|(_, target)| !leads(target)) {
        return Err(refuse(OverlayError::LinkOutside {
            path: path.clone(),
            target: target.display().to_string(),
        }));
    }
    let Some((disk, size)) = &disk else {
        return Err(refuse(OverlayError::NoDisk));
    };
    Ok(Mounted {
        path: folder.join(disk),
        size: *size,
    })
}

impl Mounted {
    /// The disk as one layer. The node has verified the image it pulled; the file itself has no known
    /// digest.
    pub(crate) fn layer(&self) -> Layer {
        Layer {
            digest: Digest::sha256(self.path.as_os_str().as_encoded_bytes()),
            is_verified: false,
            size: Some(self.size),
            diff_id: None,
            contents: Contents::Disk,
        }
    }
}

/// The bytes of the disk.
pub(crate) struct Bytes {
    pub(crate) path: PathBuf,
    pub(crate) stopped: Arc<AtomicBool>,
}

impl disk::Source for Bytes {
    fn open(&mut self, _layer: &Layer, offset: u64) -> io::Result<Box<dyn Read + Send>> {
        let mut reader = File::open(&self.path)?;
        reader.seek(SeekFrom::Start(offset))?;
        Ok(Box::new(Cancellable {
            reader,
            stopped: Arc::clone(&self.stopped),
        }))
    }
}
