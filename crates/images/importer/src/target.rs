//! Where a disk is written: beside its name until it is complete, or straight to a device.

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

/// A state that is larger was not written here.
const LARGEST_STATE: u64 = 256 << 20;

/// How often another import may finish while this one begins.
const ATTEMPTS: usize = 3;

/// What a path is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    Device,
}

/// Whether a disk may be written there.
pub(crate) fn check(path: &Path, overwrite: bool) -> Result<Kind, Error> {
    let unfit = |found| Error::Target {
        path: path.to_owned(),
        found,
    };
    if path.file_name().is_none() {
        return Err(unfit("no name of a file"));
    }
    let kind = match fs::metadata(path) {
        Ok(found) if found.file_type().is_block_device() => Kind::Device,
        Ok(found) if found.is_dir() => return Err(unfit("a folder")),
        Ok(found) if !found.is_file() => return Err(unfit("neither a file nor a block device")),
        Ok(_) => Kind::File,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            // A link to nowhere is something, too.
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

/// The unfinished file of a name, and what is known of it.
pub(crate) fn beside(path: &Path) -> (PathBuf, PathBuf) {
    let with = |end: &str| {
        let mut name = path.file_name().map(OsStr::to_owned).unwrap_or_default();
        name.push(end);
        path.with_file_name(name)
    };
    (with(".part"), with(".part.json"))
}

/// Where an import can go on, and with which file.
#[derive(Serialize, Deserialize)]
struct State {
    /// The image or the version of a file, by its digest.
    of: String,
    device: u64,
    inode: u64,
    checkpoint: Checkpoint,
}

/// A disk that is being written. Nobody else writes it; unless it is finished or kept, it goes.
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
    /// Opens the unfinished file, with what an earlier import left in it, or the device.
    pub(crate) fn open(path: &Path, overwrite: bool, remove: bool) -> Result<Self, Error> {
        let kind = check(path, overwrite)?;
        let (part, state) = match kind {
            Kind::File => beside(path),
            Kind::Device => (path.to_owned(), PathBuf::new()),
        };
        for _ in 0..ATTEMPTS {
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
                // Nothing of it is used; the import starts over.
                fs::remove_file(&part).map_err(failed("removing", &part))?;
                continue;
            }
            // Between opening and locking, another import may have given it its final name.
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

    /// Where an earlier import of the same to the same file stopped. Whatever is wrong with it only
    /// means to start over.
    pub(crate) fn saved(&self, of: &Digest) -> Option<Checkpoint> {
        if self.kind == Kind::Device {
            return None;
        }
        let mut bytes = Vec::new();
        File::open(&self.state)
            .ok()?
            .take(LARGEST_STATE)
            .read_to_end(&mut bytes)
            .ok()?;
        let state: State = serde_json::from_slice(&bytes).ok()?;
        let found = self.file.metadata().ok()?;
        let same =
            state.of == of.to_string() && state.device == found.dev() && state.inode == found.ino();
        same.then_some(state.checkpoint)
    }

    /// Remembers where to go on. An import that cannot be resumed is still one.
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
            new.persist(&self.state)?;
            Ok::<(), io::Error>(())
        };
        if let Err(error) = written() {
            tracing::debug!(%error, path = %self.state.display(), "no checkpoint was written");
        }
    }

    /// Forgets where to go on: what is there leads nowhere.
    pub(crate) fn forget(&self) {
        if self.kind == Kind::File {
            // Where nothing was saved, nothing is there.
            let _ = fs::remove_file(&self.state);
        }
    }

    /// Gives a complete and durable disk its name.
    pub(crate) fn finish(mut self) -> Result<(), Error> {
        if self.kind == Kind::Device {
            return Ok(());
        }
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
            // File systems that cannot do both at once.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                check(&self.path, false)?;
                fs::rename(&self.part, &self.path).map_err(failed)
            }
            Err(errno) => Err(failed(errno.into())),
        }
    }
}

/// Opens a device, or the unfinished file, and says whether it was made for that.
///
/// The name of the unfinished file can be foreseen: by it an import that was stopped is resumed, and the lock on it keeps
/// two imports apart. So where others may write as well, it may have been planted. A link is not followed.
fn open(path: &Path, kind: Kind) -> io::Result<(File, bool)> {
    let mut options = File::options();
    options.read(true).write(true);
    if kind == Kind::Device {
        // Usually found by a link, such as those in /dev/disk.
        return Ok((options.open(path)?, false));
    }
    match options.clone().create_new(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        made => return Ok((made?, true)),
    }
    let flags = i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or_default();
    Ok((options.custom_flags(flags).open(path)?, false))
}

/// Whether what was found under the name of the unfinished file is one that an import of this user left. A file of
/// another user could be changed after the disk was verified, and one with a second name is in use elsewhere.
fn is_own(file: &File) -> io::Result<bool> {
    let found = file.metadata()?;
    Ok(found.is_file() && found.nlink() == 1 && found.uid() == rustix::process::geteuid().as_raw())
}

/// Whether this is a link, wherever it leads.
fn is_link(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink())
}

/// Whether a file still has this name.
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

/// Removes what is unfinished under a name.
pub(crate) fn discard(path: &Path) {
    let (part, state) = beside(path);
    for path in [state, part] {
        if let Err(error) = fs::remove_file(&path)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(%error, path = %path.display(), "an unfinished file stays");
        }
    }
}
