//! Unpacks the entries of layers into one folder.
//!
//! Paths are resolved component by component with open folders, as if the folder were the root
//! directory: links in an image stay in the image, however they are written. Paths with `..` are
//! rejected.
//!
//! Without root privileges, files cannot change owner and devices cannot be created: everything then
//! belongs to the user, and devices are left out. Modes and times of folders are set last, since a
//! folder may be read-only, and creating entries changes its time.
//!
//! Memory does not grow with the image: the paths a layer created are a [`PathSet`], attributes of
//! folders are spooled to a file ([`Folders`]), one folder is open at a time, and nothing recurses.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;

use disk::{Attributes, Entry, Extract, Kind, OPAQUE, WHITEOUT, components};
use rustix::fs::{
    AtFlags, CWD, Dev, Dir, FileType, Gid, Mode, OFlags, Timespec, Timestamps, Uid, XattrFlags,
};
use rustix::io::Errno;

use super::folders::Folders;
use super::paths::PathSet;
use super::remove::remove_at;
use crate::store::Store;

/// Upper bound of links followed for one path (Linux's limit, ELOOP).
const MAX_LINKS: usize = 40;

/// Upper bound of entries per image; real images have far fewer.
// Inodes are shared by the whole node and no quota counts them: without this bound an
// archive of empty files could use up all of them.
const MAX_ENTRIES: u64 = 10_000_000;

/// The longest path inside an image (`PATH_MAX`), also of link targets: a longer one cannot be opened.
const MAX_PATH: usize = 4096;

/// The longest path component (`NAME_MAX`).
const MAX_PART: usize = 255;

/// The deepest nesting. Nested `node_modules` stay below a hundred.
// Every component costs an `openat` for every entry below it, so depth is what makes unpacking quadratic.
const MAX_DEPTH: usize = 512;

/// Bytes of paths queued while a folder with many entries becomes opaque.
const MAX_PENDING: usize = 8 << 20;

/// The minimum a file occupies on disk.
const BLOCK: u64 = 4096;

/// Targets of links up to this length are kept in the inode (ext4).
const INLINE_LINK: usize = 59;

/// Attributes reserved by overlay file systems: an image that sets them could redirect lookups of the
/// overlay it becomes part of.
const RESERVED: [&[u8]; 2] = [b"trusted.overlay.", b"user.overlay."];

/// The quota reserved for an image, and the space it uses.
#[derive(Debug)]
pub(crate) struct UnpackReservation {
    store: Arc<Store>,
    /// Bytes of files.
    pub(crate) bytes: u64,
    /// Files and folders.
    pub(crate) entries: u64,
}

impl UnpackReservation {
    pub(crate) fn new(store: Arc<Store>) -> Self {
        Self {
            store,
            bytes: 0,
            entries: 0,
        }
    }

    fn take(&mut self, bytes: u64) -> io::Result<()> {
        self.store
            .reserve_space(bytes)
            .map_err(|error| io::Error::new(io::ErrorKind::QuotaExceeded, error))?;
        self.bytes = self.bytes.saturating_add(bytes);
        Ok(())
    }

    /// Reserves quota for content, in whole blocks.
    fn take_blocks(&mut self, bytes: u64) -> io::Result<()> {
        let blocks = bytes.checked_next_multiple_of(BLOCK);
        let blocks = blocks.ok_or_else(|| refused(format!("no disk holds {bytes} bytes")))?;
        self.take(blocks)
    }

    fn entry(&mut self) -> io::Result<()> {
        self.entries += 1;
        if self.entries > MAX_ENTRIES {
            return Err(io::Error::other(format!(
                "the image has more than {MAX_ENTRIES} files"
            )));
        }
        Ok(())
    }
}

impl Drop for UnpackReservation {
    fn drop(&mut self) {
        // By now the content is counted as used, or has been removed.
        self.store.quota.release(self.bytes);
    }
}

/// A file being written.
#[derive(Debug)]
struct Open {
    file: File,
    attributes: Attributes,
    /// The offset of the next bytes.
    position: u64,
    /// The file ends in a hole, and has to be extended to its size.
    ends_in_hole: bool,
}

/// The folder layers are unpacked into.
#[derive(Debug)]
pub(crate) struct Tree {
    root: OwnedFd,
    is_superuser: bool,
    open: Option<Open>,
    /// The folder of the previous entry.
    last: Option<(Vec<u8>, Arc<OwnedFd>)>,
    /// The number of layers begun. Whiteouts in the first one hide nothing.
    layers: usize,
    /// The paths this layer created: whiteouts hide only entries of lower layers.
    made: PathSet,
    /// Folder attributes to be set last.
    folders: Folders,
    reservation: UnpackReservation,
    /// The number of devices and attributes that could not be created.
    left_out: u64,
}

pub(super) fn name(part: &[u8]) -> &OsStr {
    OsStr::from_bytes(part)
}

pub(super) fn refused(why: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.into())
}

impl Tree {
    /// Unpacks into a folder. Attributes of folders are spooled to `spool`, an empty file.
    pub(crate) fn new(
        path: &Path,
        spool: File,
        reservation: UnpackReservation,
    ) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::openat(CWD, path, flags, Mode::empty())?;
        Ok(Self {
            root,
            is_superuser: rustix::process::geteuid().is_root(),
            open: None,
            last: None,
            layers: 0,
            made: PathSet::default(),
            folders: Folders::new(spool),
            reservation,
            left_out: 0,
        })
    }

    /// Begins the next layer.
    pub(crate) fn next_layer(&mut self) {
        self.layers += 1;
        self.made.clear();
        self.open = None;
    }

    /// Records that this layer created a path.
    fn record_created(&mut self, path: &[u8]) -> io::Result<()> {
        if self.layers > 1 {
            self.made.insert(path)?;
        }
        Ok(())
    }

    /// Applies folder attributes. Returns the space used, and how many devices and attributes were left
    /// out.
    pub(crate) fn finish(mut self) -> io::Result<(UnpackReservation, u64)> {
        self.made.clear();
        while let Some((path, attributes)) = self.folders.pop()? {
            let parts = path.split(|byte| *byte == b'/');
            let parts: Vec<&[u8]> = parts.filter(|part| !part.is_empty()).collect();
            // A later layer may have replaced it.
            match self.real_folder(&parts) {
                Ok(folder) => self.set(folder.as_fd(), &attributes)?,
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
                // A user may just have made the parent inaccessible; root can access everything.
                Err(Errno::ACCESS) if !self.is_superuser => self.left_out += 1,
                Err(error) => return Err(error.into()),
            }
        }
        Ok((self.reservation, self.left_out))
    }

    /// A folder by its path, without following links.
    fn real_folder(&self, parts: &[&[u8]]) -> Result<OwnedFd, Errno> {
        let mut folder = open_folder(self.root.as_fd(), b".")?;
        for part in parts {
            folder = open_folder(folder.as_fd(), part)?;
        }
        Ok(folder)
    }

    /// The folder of an entry, created if missing. Links are followed inside the tree.
    fn folder(&mut self, parts: &[&[u8]]) -> io::Result<Arc<OwnedFd>> {
        let path = parts.join(&b'/');
        if let Some((last, folder)) = &self.last
            && *last == path
        {
            return Ok(Arc::clone(folder));
        }
        let folder = Arc::new(self.walk(parts)?);
        self.last = Some((path, Arc::clone(&folder)));
        Ok(folder)
    }

    fn walk(&mut self, parts: &[&[u8]]) -> io::Result<OwnedFd> {
        let mut left: Vec<Vec<u8>> = parts.iter().rev().map(|part| part.to_vec()).collect();
        let mut here = open_folder(self.root.as_fd(), b".")?;
        let mut path = RealPath::default();
        let mut links = 0;
        while let Some(part) = left.pop() {
            if part == b".." {
                // The parent of the root is the root.
                if path.pop() {
                    here = rustix::fs::openat(&here, c"..", FOLDER, Mode::empty())?;
                }
                continue;
            }
            match open_folder(here.as_fd(), &part) {
                Ok(folder) => {
                    path.push(&part)?;
                    here = folder;
                }
                Err(Errno::NOENT) => {
                    path.push(&part)?;
                    self.reservation.entry()?;
                    self.reservation.take(BLOCK)?;
                    rustix::fs::mkdirat(&here, name(&part), Mode::from_bits_truncate(0o755))?;
                    here = open_folder(here.as_fd(), &part)?;
                    // Regardless of the umask.
                    rustix::fs::fchmod(&here, Mode::from_bits_truncate(0o755))?;
                    self.record_created(&path.0)?;
                }
                // Which of these a link gives with `O_NOFOLLOW | O_DIRECTORY` depends on the kernel. `openat2` with
                // `RESOLVE_IN_ROOT` would resolve like this in one call, but only on Linux.
                Err(Errno::NOTDIR | Errno::LOOP | Errno::MLINK) => {
                    links += 1;
                    let to = rustix::fs::readlinkat(&here, name(&part), Vec::new());
                    let to = match to {
                        Ok(to) if links <= MAX_LINKS => to,
                        Ok(_) => return Err(refused("its folder is a link that leads in circles")),
                        Err(_) => return Err(refused("its parent is not a folder")),
                    };
                    let to = to.as_bytes();
                    if to.starts_with(b"/") {
                        here = open_folder(self.root.as_fd(), b".")?;
                        path = RealPath::default();
                    }
                    let parts = to.split(|byte| *byte == b'/').rev();
                    left.extend(
                        parts
                            .filter(|part| !part.is_empty() && *part != b".")
                            .map(<[u8]>::to_vec),
                    );
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(here)
    }

    /// Removes an entry of a folder.
    fn clear(&mut self, folder: BorrowedFd<'_>, part: &[u8]) -> io::Result<()> {
        self.last = None;
        remove_at(folder, part)
    }

    /// Removes the entries of lower layers from a folder.
    fn clear_below(&mut self, folder: &OwnedFd, path: &[u8]) -> io::Result<()> {
        // A folder that became opaque in this layer, or is inside one, has no entries of lower layers
        // left. Without this check an image could have the same folders visited for each of its
        // entries.
        let is_clear = self.made.contains(&opaque(b""))
            || (1..=path.len())
                .filter(|end| path.get(*end).is_none_or(|byte| *byte == b'/'))
                .any(|end| {
                    let above = path.get(..end).unwrap_or(path);
                    self.made.contains(&opaque(above))
                });
        if is_clear {
            return Ok(());
        }
        let mut pending: Vec<Vec<u8>> = vec![Vec::new()];
        let mut bytes = 0_usize;
        while let Some(inner) = pending.pop() {
            bytes = bytes.saturating_sub(inner.len());
            let parts = inner.split(|byte| *byte == b'/');
            let opened = parts
                .filter(|part| !part.is_empty())
                .try_fold(open_folder(folder.as_fd(), b".")?, |folder, part| {
                    open_folder(folder.as_fd(), part)
                });
            let Ok(here) = opened else {
                continue;
            };
            for entry in Dir::read_from(&here)? {
                let entry = entry?;
                let found = entry.file_name().to_bytes();
                if matches!(found, b"." | b"..") {
                    continue;
                }
                let inner = join(&inner, found);
                if !self.made.contains(&join(path, &inner)) {
                    self.clear(here.as_fd(), found)?;
                } else if matches!(entry.file_type(), FileType::Directory | FileType::Unknown) {
                    bytes = bytes.saturating_add(inner.len());
                    if bytes > MAX_PENDING {
                        return Err(refused(format!(
                            "it makes a folder opaque after the layer put more than {MAX_PENDING} bytes of names into it"
                        )));
                    }
                    pending.push(inner);
                }
            }
        }
        self.record_created(&opaque(path))
    }

    /// Applies a whiteout; `false` if the entry is not one.
    fn whiteout(&mut self, parents: &[&[u8]], last: &[u8]) -> io::Result<bool> {
        let Some(hidden) = last.strip_prefix(WHITEOUT) else {
            return Ok(false);
        };
        if matches!(hidden, b"" | b"." | b"..") {
            return Err(refused("this is no name that a whiteout could hide"));
        }
        // There is nothing below the first layer.
        if self.layers <= 1 {
            return Ok(true);
        }
        let folder = self.folder(parents)?;
        if last == OPAQUE {
            self.clear_below(&folder, &parents.join(&b'/'))?;
            return Ok(true);
        }
        // Reserved by union file systems.
        if hidden.starts_with(WHITEOUT) {
            return Ok(true);
        }
        let mut path = parents.to_vec();
        path.push(hidden);
        // A whiteout hides entries of lower layers only; in the same layer the order of entries has no meaning
        // (`layer.md` of the image specification).
        if !self.made.contains(&path.join(&b'/')) {
            self.clear(folder.as_fd(), hidden)?;
        }
        Ok(true)
    }

    fn make(&mut self, entry: Entry) -> io::Result<()> {
        let parts = components(&entry.path)
            .ok_or_else(|| refused("its path has \"..\" in it, which no layer may have"))?;
        check_parts(&parts)?;
        let Some((last, parents)) = parts.split_last() else {
            // The root itself: only its attributes are used.
            if entry.kind == Kind::Directory {
                self.folders.add(b"", &entry.attributes)?;
            }
            return Ok(());
        };
        if self.whiteout(parents, last)? {
            return Ok(());
        }
        self.reservation.entry()?;
        let folder = self.folder(parents)?;
        let path = parts.join(&b'/');
        match entry.kind {
            Kind::Directory => {
                self.make_folder(&folder, last)?;
                self.folders.add(&path, &entry.attributes)?;
            }
            Kind::File => {
                self.reservation.take_blocks(entry.stored)?;
                let flags = OFlags::WRONLY
                    | OFlags::CREATE
                    // `EXCL` and `NOFOLLOW`: an entry never writes through what an earlier layer left at its path,
                    // link or file. `in_place` removes that and tries again.
                    | OFlags::EXCL
                    | OFlags::NOFOLLOW
                    | OFlags::CLOEXEC;
                let mode = Mode::from_bits_truncate(0o600);
                let file = self.in_place(&folder, last, || {
                    rustix::fs::openat(&folder, name(last), flags, mode)
                })?;
                self.open = Some(Open {
                    file: file.into(),
                    attributes: entry.attributes,
                    position: 0,
                    ends_in_hole: false,
                });
            }
            Kind::HardLink => self.link(&folder, last, &entry.link)?,
            Kind::SymbolicLink => {
                if entry.link.len() > INLINE_LINK {
                    self.reservation.take(BLOCK)?;
                }
                self.in_place(&folder, last, || {
                    rustix::fs::symlinkat(name(&entry.link), &folder, name(last))
                })?;
                self.last = None;
                self.set_at(&folder, last, &entry.attributes)?;
            }
            Kind::CharacterDevice | Kind::BlockDevice | Kind::Pipe => {
                self.device(&folder, last, &entry)?;
            }
            Kind::Other => self.left_out += 1,
        }
        self.record_created(&path)
    }

    /// Creates an entry, replacing an existing one.
    fn in_place<T>(
        &mut self,
        folder: &OwnedFd,
        last: &[u8],
        make: impl Fn() -> Result<T, Errno>,
    ) -> io::Result<T> {
        match make() {
            Err(Errno::EXIST) => {
                self.clear(folder.as_fd(), last)?;
                Ok(make()?)
            }
            done => Ok(done?),
        }
    }

    fn make_folder(&mut self, folder: &OwnedFd, last: &[u8]) -> io::Result<()> {
        let mode = Mode::from_bits_truncate(0o755);
        match rustix::fs::mkdirat(folder, name(last), mode) {
            Err(Errno::EXIST) if open_folder(folder.as_fd(), last).is_ok() => return Ok(()),
            Err(Errno::EXIST) => {
                self.clear(folder.as_fd(), last)?;
                rustix::fs::mkdirat(folder, name(last), mode)?;
            }
            done => done?,
        }
        self.reservation.take(BLOCK)
    }

    /// Creates a hard link. The target is relative to the root.
    fn link(&mut self, folder: &OwnedFd, last: &[u8], target: &[u8]) -> io::Result<()> {
        let parts =
            components(target).ok_or_else(|| refused("it links to a path with \"..\" in it"))?;
        check_parts(&parts)?;
        let Some((file, parents)) = parts.split_last() else {
            return Err(refused("it links to the root of the image"));
        };
        let from = self.walk(parents)?;
        let linked = self.in_place(folder, last, || {
            rustix::fs::linkat(&from, name(file), folder, name(last), AtFlags::empty())
        });
        linked.map_err(|error| {
            if error.kind() == io::ErrorKind::NotFound {
                let target = String::from_utf8_lossy(target);
                refused(format!("it links to {target:?}, which is not in the image"))
            } else {
                error
            }
        })
    }

    fn device(&mut self, folder: &OwnedFd, last: &[u8], entry: &Entry) -> io::Result<()> {
        let kind = match entry.kind {
            Kind::CharacterDevice => FileType::CharacterDevice,
            Kind::BlockDevice => FileType::BlockDevice,
            _ => FileType::Fifo,
        };
        let (major, minor) = entry.attributes.device;
        // A 0/0 character device is a whiteout of overlay file systems, and needs no privileges.
        if kind == FileType::CharacterDevice && (major, minor) == (0, 0) {
            self.left_out += 1;
            return Ok(());
        }
        let device: Dev = rustix::fs::makedev(major, minor);
        let mode = Mode::from_bits_truncate(0o600);
        let made = self.in_place(folder, last, || make_node(folder, last, kind, mode, device));
        match made {
            Ok(()) => self.set_at(folder, last, &entry.attributes),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                self.left_out += 1;
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Sets owner, mode, extended attributes and time of a file or folder.
    fn set(&mut self, file: BorrowedFd<'_>, attributes: &Attributes) -> io::Result<()> {
        if self.is_superuser {
            let (uid, gid) = owner(attributes);
            rustix::fs::fchown(file, uid, gid)?;
        }
        // After the owner: changing the owner clears set-user-id.
        rustix::fs::fchmod(file, mode(attributes))?;
        for (key, value) in &attributes.extended {
            if RESERVED.iter().any(|reserved| key.starts_with(reserved)) {
                self.left_out += 1;
                continue;
            }
            self.reservation.take((key.len() + value.len()) as u64)?;
            match rustix::fs::fsetxattr(file, name(key), value, XattrFlags::empty()) {
                Ok(()) => {}
                // Not supported by the file system, or restricted to root.
                Err(Errno::OPNOTSUPP | Errno::PERM | Errno::ACCESS) => self.left_out += 1,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(rustix::fs::futimens(file, &times(attributes))?)
    }

    /// Like [`Self::set`] for entries that are not opened: links and devices.
    fn set_at(&mut self, folder: &OwnedFd, last: &[u8], attributes: &Attributes) -> io::Result<()> {
        let here = AtFlags::SYMLINK_NOFOLLOW;
        if self.is_superuser {
            let (uid, gid) = owner(attributes);
            rustix::fs::chownat(folder, name(last), uid, gid, here)?;
        }
        // Links have no mode of their own.
        let found = rustix::fs::statat(folder, name(last), here)?;
        if FileType::from_raw_mode(found.st_mode) != FileType::Symlink {
            rustix::fs::chmodat(folder, name(last), mode(attributes), AtFlags::empty())?;
        }
        Ok(rustix::fs::utimensat(
            folder,
            name(last),
            &times(attributes),
            here,
        )?)
    }
}

impl Extract for Tree {
    fn entry(&mut self, entry: Entry) -> io::Result<()> {
        self.make(entry)
    }

    fn data(&mut self, data: &[u8]) -> io::Result<()> {
        let Some(open) = &mut self.open else {
            return Ok(());
        };
        open.file.write_all_at(data, open.position)?;
        open.position = open.position.saturating_add(data.len() as u64);
        open.ends_in_hole = false;
        Ok(())
    }

    fn hole(&mut self, length: u64) -> io::Result<()> {
        let Some(open) = &mut self.open else {
            return Ok(());
        };
        open.position = open.position.saturating_add(length);
        open.ends_in_hole = true;
        // The data after the hole begins a new block.
        self.reservation.take(BLOCK)
    }

    fn end(&mut self) -> io::Result<()> {
        let Some(open) = self.open.take() else {
            return Ok(());
        };
        if open.ends_in_hole {
            open.file.set_len(open.position)?;
        }
        self.set(open.file.as_fd(), &open.attributes)
    }
}

/// A path of existing folders without links.
#[derive(Debug, Default)]
struct RealPath(Vec<u8>);

impl RealPath {
    fn push(&mut self, part: &[u8]) -> io::Result<()> {
        self.0 = join(&self.0, part);
        let depth = self.0.split(|byte| *byte == b'/').count();
        if self.0.len() > MAX_PATH || depth > MAX_DEPTH {
            return Err(refused(format!(
                "it is {depth} folders deep at {} bytes of path; the maximum is {MAX_DEPTH} and {MAX_PATH}",
                self.0.len()
            )));
        }
        Ok(())
    }

    /// Moves to the parent; `false` at the root.
    fn pop(&mut self) -> bool {
        let is_inside = !self.0.is_empty();
        let end = self.0.iter().rposition(|byte| *byte == b'/');
        self.0.truncate(end.unwrap_or(0));
        is_inside
    }
}

fn join(path: &[u8], part: &[u8]) -> Vec<u8> {
    if path.is_empty() {
        return part.to_vec();
    }
    [path, part].join(&b'/')
}

/// The path under which an opaque folder is recorded.
fn opaque(path: &[u8]) -> Vec<u8> {
    join(path, OPAQUE)
}

/// Checks a path before anything is created.
fn check_parts(parts: &[&[u8]]) -> io::Result<()> {
    if parts.len() > MAX_DEPTH {
        return Err(refused(format!(
            "it is {} folders deep; the maximum is {MAX_DEPTH}",
            parts.len()
        )));
    }
    match parts.iter().find(|part| part.len() > MAX_PART) {
        Some(part) => Err(refused(format!(
            "a part of its path has {} bytes; the maximum is {MAX_PART}",
            part.len()
        ))),
        None => Ok(()),
    }
}

#[cfg(not(target_vendor = "apple"))]
fn make_node(
    folder: &OwnedFd,
    last: &[u8],
    kind: FileType,
    mode: Mode,
    device: Dev,
) -> Result<(), Errno> {
    rustix::fs::mknodat(folder, name(last), kind, mode, device)
}

/// This platform has no `mknodat`, and runs no containers.
#[cfg(target_vendor = "apple")]
fn make_node(_: &OwnedFd, _: &[u8], _: FileType, _: Mode, _: Dev) -> Result<(), Errno> {
    Err(Errno::PERM)
}

/// Flags to open a folder without following links.
const FOLDER: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

pub(super) fn open_folder(folder: BorrowedFd<'_>, part: &[u8]) -> Result<OwnedFd, Errno> {
    rustix::fs::openat(folder, name(part), FOLDER, Mode::empty())
}

fn owner(attributes: &Attributes) -> (Option<Uid>, Option<Gid>) {
    (
        Some(Uid::from_raw(attributes.uid)),
        Some(Gid::from_raw(attributes.gid)),
    )
}

fn mode(attributes: &Attributes) -> Mode {
    Mode::from_bits_truncate(attributes.mode & 0o7777)
}

fn times(attributes: &Attributes) -> Timestamps {
    let (seconds, nanoseconds) = attributes.modified;
    let time = Timespec {
        tv_sec: seconds,
        tv_nsec: nanoseconds.into(),
    };
    Timestamps {
        last_access: time,
        last_modification: time,
    }
}
