//! The target of an import: `NAME.part` until the disk is complete, or a block device.

use std::ffi::OsStr;
use std::fs::{self, File, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use disk::Checkpoint;
use platform::Digest;
use rustix::fs::{CWD, OFlags, RenameFlags, renameat_with};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::error::Error;

/// A larger state file was not written by this crate.
const MAX_STATE_BYTES: u64 = 256 << 20;

/// How often another import may rename the file between opening and locking it.
// Each attempt means that another import finished or that a planted file was removed. A third one is no coincidence,
// and the caller retries with backoff.
const MAX_OPEN_ATTEMPTS: usize = 3;

/// The kind of target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    Device,
}

/// Whether a disk may be written to this path.
pub(crate) fn check(path: &Path, overwrite: bool) -> Result<Kind, Error> {
    let unfit = |found| Error::Target {
        path: path.to_owned(),
        found,
    };
    if path.file_name().is_none() {
        return Err(unfit("not a file name"));
    }
    let kind = match fs::metadata(path) {
        Ok(found) if found.file_type().is_block_device() => Kind::Device,
        Ok(found) if found.is_dir() => return Err(unfit("a folder")),
        Ok(found) if !found.is_file() => return Err(unfit("neither a file nor a block device")),
        Ok(_) => Kind::File,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            // A dangling link also occupies the name.
            if fs::symlink_metadata(path).is_err() {
                return Ok(Kind::File);
            }
            Kind::File
        }
        Err(source) => return Err(failed("looking at", path)(source)),
    };
    if overwrite {
        Ok(kind)
    } else {
        Err(Error::Exists {
            path: path.to_owned(),
        })
    }
}

fn failed(operation: &'static str, path: &Path) -> impl Fn(io::Error) -> Error {
    move |source| Error::File {
        operation,
        path: path.to_owned(),
        source,
    }
}

/// The unfinished file of a name, and its state file.
pub(crate) fn beside(path: &Path) -> (PathBuf, PathBuf) {
    let with = |end: &str| {
        let mut name = path.file_name().map(OsStr::to_owned).unwrap_or_default();
        name.push(end);
        path.with_file_name(name)
    };
    (with(".part"), with(".part.json"))
}

/// The checkpoint of an import, and the file it belongs to.
#[derive(Serialize, Deserialize)]
struct State {
    /// The digest of the image, or the identity of a web file's version.
    of: String,
    device: u64,
    inode: u64,
    checkpoint: Checkpoint,
}

/// A disk being written under an exclusive lock; removed on drop unless it is finished or kept.
#[derive(Debug)]
pub(crate) struct Target {
    path: PathBuf,
    part: PathBuf,
    state: PathBuf,
    kind: Kind,
    file: File,
    overwrite: bool,
    remove: bool,
}

impl Target {
    /// Opens the unfinished file, with the data of an earlier import, or the device.
    pub(crate) fn open(path: &Path, overwrite: bool, remove: bool) -> Result<Self, Error> {
        let kind = check(path, overwrite)?;
        let (part, state) = match kind {
            Kind::File => beside(path),
            Kind::Device => (path.to_owned(), PathBuf::new()),
        };
        for _ in 0..MAX_OPEN_ATTEMPTS {
            let (file, made) = match open(&part, kind) {
                Ok(opened) => opened,
                Err(_) if kind == Kind::File && is_link(&part) => {
                    fs::remove_file(&part).map_err(failed("removing the link", &part))?;
                    continue;
                }
                Err(source) => return Err(failed("opening", &part)(source)),
            };
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Err(Error::Busy { path: part }),
                Err(TryLockError::Error(source)) => return Err(failed("locking", &part)(source)),
            }
            if kind == Kind::File && !made && !is_own(&file).map_err(failed("looking at", &part))? {
                // Discard its contents; the import starts over.
                fs::remove_file(&part).map_err(failed("removing", &part))?;
                continue;
            }
            // Between opening and locking, another import may have renamed the file to its final name.
            if is_at(&file, &part).map_err(failed("looking at", &part))? {
                return Ok(Self {
                    path: path.to_owned(),
                    part,
                    state,
                    kind,
                    file,
                    overwrite,
                    remove,
                });
            }
        }
        Err(Error::Busy { path: part })
    }

    /// The file, for a sink.
    pub(crate) fn file(&self) -> Result<File, Error> {
        self.file.try_clone().map_err(failed("opening", &self.part))
    }

    /// The checkpoint of an earlier import of the same content into the same file. An invalid one is
    /// ignored: the import starts over.
    pub(crate) fn saved(&self, of: &Digest) -> Option<Checkpoint> {
        if self.kind == Kind::Device {
            return None;
        }
        let mut bytes = Vec::new();
        File::open(&self.state)
            .ok()?
            .take(MAX_STATE_BYTES)
            .read_to_end(&mut bytes)
            .ok()?;
        let state: State = serde_json::from_slice(&bytes).ok()?;
        let found = self.file.metadata().ok()?;
        // By inode as well: a volume that was restored from a snapshot has the state file but other data, and
        // resuming would complete a disk from two sources.
        let same =
            state.of == of.to_string() && state.device == found.dev() && state.inode == found.ino();
        same.then_some(state.checkpoint)
    }

    /// Saves a checkpoint. Failing to do so only costs the ability to resume.
    pub(crate) fn save(&self, of: &Digest, checkpoint: Checkpoint) {
        if self.kind == Kind::Device {
            return;
        }
        let written = || {
            let found = self.file.metadata()?;
            let state = State {
                of: of.to_string(),
                device: found.dev(),
                inode: found.ino(),
                checkpoint,
            };
            let folder = self.state.parent().filter(|it| *it != Path::new(""));
            let mut new =
                tempfile::NamedTempFile::new_in(folder.unwrap_or_else(|| Path::new(".")))?;
            new.write_all(&serde_json::to_vec(&state)?)?;
            // Not synced: after a power failure an older checkpoint, or none, only costs time. The data that it
            // refers to was synced before.
            new.persist(&self.state)?;
            Ok::<(), io::Error>(())
        };
        if let Err(error) = written() {
            tracing::debug!(%error, path = %self.state.display(), "cannot save a checkpoint");
        }
    }

    /// Removes the checkpoint: resuming from it would fail again.
    pub(crate) fn forget(&self) {
        if self.kind == Kind::File {
            // Missing if nothing was saved.
            let _ = fs::remove_file(&self.state);
        }
    }

    /// Renames a complete and durable disk to its name.
    pub(crate) fn finish(mut self) -> Result<(), Error> {
        if self.kind == Kind::Device {
            return Ok(());
        }
        // Data, name, folder: the sink has synced the data before this, and the folder is synced last. In any other
        // order a crash could leave a name for a disk that is incomplete.
        self.rename()?;
        self.remove = false;
        self.forget();
        let folder = match self.path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        File::open(folder)
            .and_then(|folder| folder.sync_all())
            .map_err(failed("making durable", folder))
    }

    fn rename(&self) -> Result<(), Error> {
        let failed = failed("renaming", &self.part);
        if self.overwrite {
            return fs::rename(&self.part, &self.path).map_err(failed);
        }
        match renameat_with(CWD, &self.part, CWD, &self.path, RenameFlags::NOREPLACE) {
            Ok(()) => Ok(()),
            Err(Errno::EXIST) => Err(Error::Exists {
                path: self.path.clone(),
            }),
            // File systems without RENAME_NOREPLACE.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                check(&self.path, false)?;
                fs::rename(&self.part, &self.path).map_err(failed)
            }
            Err(errno) => Err(failed(errno.into())),
        }
    }
}

/// Opens a device or the unfinished file, and returns whether it was created.
///
/// The name of the unfinished file is predictable: it lets a stopped import be resumed, and the lock on
/// it keeps two imports apart. Where other users can write as well, they may have planted it, so links
/// are not followed.
fn open(path: &Path, kind: Kind) -> io::Result<(File, bool)> {
    let mut options = File::options();
    options.read(true).write(true);
    if kind == Kind::Device {
        // Devices are usually given as links, such as those in /dev/disk.
        return Ok((options.open(path)?, false));
    }
    match options.clone().create_new(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        made => return Ok((made?, true)),
    }
    let flags = i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or_default();
    Ok((options.custom_flags(flags).open(path)?, false))
}

/// Whether the unfinished file belongs to an import of this user. A file of another user could be
/// changed after the disk was verified, and one with a second hard link is in use elsewhere.
fn is_own(file: &File) -> io::Result<bool> {
    let found = file.metadata()?;
    Ok(found.is_file() && found.nlink() == 1 && found.uid() == rustix::process::geteuid().as_raw())
}

/// Whether the path is a symbolic link.
fn is_link(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink())
}

/// Whether the path still refers to this file.
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let (mine, named) = match (file.metadata()?, fs::metadata(path)) {
        (mine, Ok(named)) => (mine, named),
        (_, Err(error)) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        (_, Err(error)) => return Err(error),
    };
    Ok(mine.dev() == named.dev() && mine.ino() == named.ino())
}

impl Drop for Target {
    fn drop(&mut self) {
        if self.remove && self.kind == Kind::File {
            discard(&self.path);
        }
    }
}

/// Removes the unfinished file and state of a name.
pub(crate) fn discard(path: &Path) {
    let (part, state) = beside(path);
    for path in [state, part] {
        if let Err(error) = fs::remove_file(&path)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(%error, path = %path.display(), "cannot remove an unfinished file");
        }
    }
}
