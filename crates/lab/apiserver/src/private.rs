//! Files that only their owner may read: objects, keys, kubeconfigs.
//!
//! They are created with their mode (a `chmod` afterwards would leave a window in which others can
//! open them), and never opened through a symbolic link, which another user may have planted to
//! redirect reads or writes.

#[cfg(test)]
mod tests;

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use rustix::fs::OFlags;
use tempfile::NamedTempFile;

/// Mode of the files.
const OWNER_ONLY: u32 = 0o600;
/// Mode bits of everyone else.
const OTHERS: u32 = 0o077;

/// Creates a folder, and missing parents, for the owner alone. An existing one keeps its mode: the
/// user may keep other files in it.
pub(crate) fn make_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// The folder that a file is in.
pub(crate) fn folder_of(path: &Path) -> &Path {
    path.parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or_else(|| Path::new("."))
}

/// A new file with a random name next to `path`, to replace it when it is complete. It is removed
/// unless it is persisted.
pub(crate) fn beside(path: &Path) -> io::Result<NamedTempFile> {
    tempfile::Builder::new()
        .prefix(".medley-")
        .permissions(Permissions::from_mode(OWNER_ONLY))
        .tempfile_in(folder_of(path))
}

/// Writes a file atomically: readers see all of it or the previous content. A link of that name is
/// replaced, not followed.
pub(crate) fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    // In the same folder, because a rename is atomic only within one file system.
    let mut file = beside(path)?;
    file.write_all(content)?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

/// Opens a file for reading and writing, creating it if necessary.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(OWNER_ONLY)
        .custom_flags(no_follow())
        .open(path)
}

/// Removes the permissions of others from a file that an earlier version, a copy or a user left
/// readable, and logs them. Links and other file types are rejected.
pub(crate) fn narrow(path: &Path) -> io::Result<()> {
    let found = path.symlink_metadata()?;
    if found.is_symlink() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is a symbolic link, which is not followed; use the folder of the file it leads to",
        ));
    }
    if !found.is_file() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is not a regular file",
        ));
    }
    // By file descriptor: the name may point elsewhere by now.
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(no_follow())
        .open(path)?;
    let mode = file.metadata()?.permissions().mode();
    if mode & OTHERS == 0 {
        return Ok(());
    }
    file.set_permissions(Permissions::from_mode(mode & !OTHERS & 0o777))?;
    tracing::warn!(
        path = %path.display(),
        mode = format!("{:o}", mode & 0o777),
        "the file could be opened by other users; its mode is now {:o}. Keys and secrets in it may be known",
        mode & !OTHERS & 0o777,
    );
    Ok(())
}

fn no_follow() -> i32 {
    // The flag is a small positive number on all platforms.
    i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or_default()
}
