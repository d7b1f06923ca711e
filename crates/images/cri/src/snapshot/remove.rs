//! Removes trees of any depth and width.
//!
//! The standard library's `remove_dir_all` recurses per level and keeps a folder open for each: a deep
//! tree overflows the stack or exhausts file descriptors. Here one folder is open at a time, and only
//! the names on the path to it are kept.

#[cfg(test)]
mod tests;

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::tree::{name, open_folder};

/// Removes a folder or file with its contents, regardless of permissions. A missing one is not an
/// error.
pub(crate) fn remove_tree(path: &Path) -> io::Result<()> {
    let (Some(folder), Some(last)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match rustix::fs::openat(CWD, folder, flags, Mode::empty()) {
        Ok(folder) => remove_at(folder.as_fd(), last.as_bytes()),
        Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Removes an entry of a folder with its contents. No other writer may be active.
pub(super) fn remove_at(folder: BorrowedFd<'_>, part: &[u8]) -> io::Result<()> {
    match rustix::fs::unlinkat(folder, name(part), AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => return Ok(()),
        Err(Errno::ISDIR | Errno::PERM) => {}
        Err(error) => return Err(error.into()),
    }
    let mut path = vec![part.to_vec()];
    let mut current = enter(folder, part)?;
    while let Some(last) = path.last() {
        if let Some(inner) = remove_files(&current)? {
            current = enter(current.as_fd(), &inner)?;
            path.push(inner);
            continue;
        }
        // It is empty.
        if path.len() == 1 {
            rustix::fs::unlinkat(folder, name(last), AtFlags::REMOVEDIR)?;
            break;
        }
        // `..` leads back to the parent, since nothing is moved meanwhile.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let above = rustix::fs::openat(&current, c"..", flags, Mode::empty())?;
        rustix::fs::unlinkat(&above, name(last), AtFlags::REMOVEDIR)?;
        path.pop();
        current = above;
    }
    Ok(())
}

/// Opens a folder to empty it. Folders of images may be read-only, which only root can ignore.
fn enter(folder: BorrowedFd<'_>, part: &[u8]) -> Result<OwnedFd, Errno> {
    if !rustix::process::geteuid().is_root() {
        let mode = Mode::from_bits_truncate(0o700);
        rustix::fs::chmodat(folder, name(part), mode, AtFlags::empty())?;
    }
    open_folder(folder, part)
}

/// Removes the files of a folder until it meets a subfolder, whose name it returns.
fn remove_files(folder: &OwnedFd) -> io::Result<Option<Vec<u8>>> {
    loop {
        let mut removed = false;
        for entry in Dir::read_from(folder)? {
            let entry = entry?;
            let found = entry.file_name().to_bytes();
            if matches!(found, b"." | b"..") {
                continue;
            }
            if entry.file_type() == FileType::Directory {
                return Ok(Some(found.to_vec()));
            }
            match rustix::fs::unlinkat(folder, entry.file_name(), AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => removed = true,
                // Not all file systems report the type of an entry.
                Err(Errno::ISDIR | Errno::PERM) => return Ok(Some(found.to_vec())),
                Err(error) => return Err(error.into()),
            }
        }
        // A file system may skip entries while others are removed: read the folder again.
        if !removed {
            return Ok(None);
        }
    }
}
