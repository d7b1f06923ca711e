//! Makes files of the entries of layers, inside one folder and nowhere else.
//!
//! Paths are followed part by part with open folders, as if the folder were the root of everything:
//! links in an image lead somewhere in the image, however they are written. Paths with `..` are refused.
//!
//! Who is not the superuser cannot give files away or make devices: then everything belongs to the
//! user, and devices are left out. Modes and times of folders are set last, since a folder may be
//! read-only, and whatever is put into it changes its time.

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;

use disk::{Attributes, Entry, Extract, Kind, OPAQUE, WHITEOUT, components};
use rustix::fs::{
    AtFlags, CWD, Dev, Dir, FileType, Gid, Mode, OFlags, Timespec, Timestamps, Uid, XattrFlags,
};
use rustix::io::Errno;

use crate::store::Store;

/// Links that lead to links: more go round in circles.
const MOST_LINKS: usize = 40;

/// Entries of one image; no image has so many.
const MOST_ENTRIES: u64 = 10_000_000;

/// What a file takes on a disk, at least.
const BLOCK: u64 = 4096;

/// Attributes that overlay file systems keep for themselves: an image that has them would tell the
/// one that it becomes a part of where else to look.
const RESERVED: [&[u8]; 2] = [b"trusted.overlay.", b"user.overlay."];

/// How much there may be, and how much there is.
#[derive(Debug)]
pub(crate) struct Room {
    store: Arc<Store>,
    /// Bytes of files.
    pub(crate) bytes: u64,
    /// Files and folders.
    pub(crate) entries: u64,
}

impl Room {
    pub(crate) fn new(store: Arc<Store>) -> Self {
        Self {
            store,
            bytes: 0,
            entries: 0,
        }
    }

    fn take(&mut self, bytes: u64) -> io::Result<()> {
        self.store
            .make_room(bytes)
            .map_err(|error| io::Error::new(io::ErrorKind::QuotaExceeded, error))?;
        self.bytes += bytes;
        Ok(())
    }

    fn entry(&mut self) -> io::Result<()> {
        self.entries += 1;
        if self.entries > MOST_ENTRIES {
            return Err(io::Error::other(format!(
                "the image has more than {MOST_ENTRIES} files"
            )));
        }
        Ok(())
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        // By now it is counted with what is there, or has gone.
        self.store.quota.give_back(self.bytes);
    }
}

/// A file whose bytes are coming.
#[derive(Debug)]
struct Open {
    file: File,
    attributes: Attributes,
}

/// The folder that layers are unpacked into.
#[derive(Debug)]
pub(crate) struct Tree {
    root: OwnedFd,
    is_superuser: bool,
    open: Option<Open>,
    /// The folder that was last worked in.
    last: Option<(Vec<u8>, Arc<OwnedFd>)>,
    /// What this layer has made: whiteouts hide only what was there before.
    made: HashSet<Vec<u8>>,
    /// Modes and times to be set last.
    folders: BTreeMap<Vec<u8>, Attributes>,
    room: Room,
    /// Devices and attributes that could not be made.
    left_out: u64,
}

fn name(part: &[u8]) -> &OsStr {
    OsStr::from_bytes(part)
}

fn refused(why: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.into())
}

impl Tree {
    pub(crate) fn new(path: &Path, room: Room) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::openat(CWD, path, flags, Mode::empty())?;
        Ok(Self {
            root,
            is_superuser: rustix::process::geteuid().is_root(),
            open: None,
            last: None,
            made: HashSet::new(),
            folders: BTreeMap::new(),
            room,
            left_out: 0,
        })
    }

    /// Begins another layer, over those that are there.
    pub(crate) fn next_layer(&mut self) {
        self.made.clear();
        self.open = None;
    }

    /// Sets what has to be set last. What it took, and how many devices and attributes were left out.
    pub(crate) fn finish(mut self) -> io::Result<(Room, u64)> {
        let folders = std::mem::take(&mut self.folders);
        // The deepest first: setting it does not change what is above.
        for (path, attributes) in folders.iter().rev() {
            let parts: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
            let parts = if path.is_empty() {
                &[]
            } else {
                parts.as_slice()
            };
            // A later layer may have put something else in its place.
            match self.real_folder(parts) {
                Ok(folder) => self.set(folder.as_fd(), attributes)?,
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok((self.room, self.left_out))
    }

    /// A folder by its own path: no links are followed.
    fn real_folder(&self, parts: &[&[u8]]) -> Result<OwnedFd, Errno> {
        let mut folder = open_folder(self.root.as_fd(), b".")?;
        for part in parts {
            folder = open_folder(folder.as_fd(), part)?;
        }
        Ok(folder)
    }

    /// The folder that an entry is to be in, which is made if it is missing. Links are followed inside
    /// the tree.
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
        let mut stack = vec![open_folder(self.root.as_fd(), b".")?];
        let mut path: Vec<Vec<u8>> = Vec::new();
        let mut links = 0;
        while let Some(part) = left.pop() {
            if part == b".." {
                // Above the root is the root.
                if stack.len() > 1 {
                    stack.pop();
                    path.pop();
                }
                continue;
            }
            let Some(here) = stack.last() else {
                return Err(refused("a path leads out of the image"));
            };
            match open_folder(here.as_fd(), &part) {
                Ok(folder) => {
                    stack.push(folder);
                    path.push(part);
                }
                Err(Errno::NOENT) => {
                    rustix::fs::mkdirat(here, name(&part), Mode::from_bits_truncate(0o755))?;
                    self.room.entry()?;
                    let folder = open_folder(here.as_fd(), &part)?;
                    // Whatever the process masks.
                    rustix::fs::fchmod(&folder, Mode::from_bits_truncate(0o755))?;
                    stack.push(folder);
                    path.push(part);
                    self.made.insert(path.join(&b'/'));
                }
                Err(Errno::NOTDIR | Errno::LOOP | Errno::MLINK) => {
                    links += 1;
                    let to = rustix::fs::readlinkat(here, name(&part), Vec::new());
                    let to = match to {
                        Ok(to) if links <= MOST_LINKS => to,
                        Ok(_) => return Err(refused("its folder is a link that leads in circles")),
                        Err(_) => return Err(refused("what it is in is not a folder")),
                    };
                    let to = to.as_bytes();
                    if to.starts_with(b"/") {
                        stack.truncate(1);
                        path.clear();
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
        stack
            .pop()
            .ok_or_else(|| refused("a path leads out of the image"))
    }

    /// Removes what has a name in a folder.
    fn clear(&mut self, folder: BorrowedFd<'_>, part: &[u8]) -> io::Result<()> {
        self.last = None;
        match rustix::fs::unlinkat(folder, name(part), AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(Errno::ISDIR | Errno::PERM) => {
                let inner = open_folder(folder, part)?;
                for child in children(&inner)? {
                    self.clear(inner.as_fd(), &child)?;
                }
                Ok(rustix::fs::unlinkat(
                    folder,
                    name(part),
                    AtFlags::REMOVEDIR,
                )?)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Removes what layers below have put into a folder.
    fn clear_below(&mut self, folder: &OwnedFd, path: &[u8]) -> io::Result<()> {
        for child in children(folder)? {
            let mut inner = path.to_vec();
            if !inner.is_empty() {
                inner.push(b'/');
            }
            inner.extend_from_slice(&child);
            if !self.made.contains(&inner) {
                self.clear(folder.as_fd(), &child)?;
            } else if let Ok(folder) = open_folder(folder.as_fd(), &child) {
                self.clear_below(&folder, &inner)?;
            }
        }
        Ok(())
    }

    /// Does what a whiteout says; `false` if it is none.
    fn whiteout(&mut self, parents: &[&[u8]], last: &[u8]) -> io::Result<bool> {
        let Some(hidden) = last.strip_prefix(WHITEOUT) else {
            return Ok(false);
        };
        let folder = self.folder(parents)?;
        if last == OPAQUE {
            self.clear_below(&folder, &parents.join(&b'/'))?;
            return Ok(true);
        }
        // What union file systems keep for themselves.
        if hidden.starts_with(WHITEOUT) {
            return Ok(true);
        }
        if matches!(hidden, b"" | b"." | b"..") {
            return Err(refused("this is no name that a whiteout could hide"));
        }
        let mut path = parents.to_vec();
        path.push(hidden);
        if !self.made.contains(&path.join(&b'/')) {
            self.clear(folder.as_fd(), hidden)?;
        }
        Ok(true)
    }

    fn make(&mut self, entry: Entry) -> io::Result<()> {
        let parts = components(&entry.path)
            .ok_or_else(|| refused("its path has \"..\" in it, which no layer may have"))?;
        let Some((last, parents)) = parts.split_last() else {
            // The root itself: only its attributes count.
            if entry.kind == Kind::Directory {
                self.folders.insert(Vec::new(), entry.attributes);
            }
            return Ok(());
        };
        if self.whiteout(parents, last)? {
            return Ok(());
        }
        self.room.entry()?;
        let folder = self.folder(parents)?;
        let path = parts.join(&b'/');
        match entry.kind {
            Kind::Directory => {
                self.make_folder(&folder, last)?;
                self.folders.insert(path.clone(), entry.attributes);
            }
            Kind::File => {
                self.room.take(entry.size.next_multiple_of(BLOCK))?;
                let flags = OFlags::WRONLY
                    | OFlags::CREATE
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
                });
            }
            Kind::HardLink => self.link(&folder, last, &entry.link)?,
            Kind::SymbolicLink => {
                self.in_place(&folder, last, || {
                    rustix::fs::symlinkat(name(&entry.link), &folder, name(last))
                })?;
                self.last = None;
                self.set_at(&folder, last, &entry.attributes)?;
            }
            Kind::CharacterDevice | Kind::BlockDevice | Kind::Pipe => {
                self.device(&folder, last, &entry)?;
            }
            Kind::Sparse => {
                return Err(refused(
                    "it is stored as a sparse file of the archive, which layers do not have; store the whole file",
                ));
            }
            Kind::Other => self.left_out += 1,
        }
        self.made.insert(path);
        Ok(())
    }

    /// Makes something, in the place of what may be there.
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
        match rustix::fs::mkdirat(folder, name(last), Mode::from_bits_truncate(0o755)) {
            Err(Errno::EXIST) => {
                if open_folder(folder.as_fd(), last).is_err() {
                    self.clear(folder.as_fd(), last)?;
                    rustix::fs::mkdirat(folder, name(last), Mode::from_bits_truncate(0o755))?;
                }
                Ok(())
            }
            done => Ok(done?),
        }
    }

    /// Gives a file another name. The file is named from the root.
    fn link(&mut self, folder: &OwnedFd, last: &[u8], target: &[u8]) -> io::Result<()> {
        let parts =
            components(target).ok_or_else(|| refused("it links to a path with \"..\" in it"))?;
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
        // That is how overlay file systems hide what is below, and anybody may make it.
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
        // After the owner: giving a file away takes set-user-id from it.
        rustix::fs::fchmod(file, mode(attributes))?;
        for (key, value) in &attributes.extended {
            if RESERVED.iter().any(|reserved| key.starts_with(reserved)) {
                self.left_out += 1;
                continue;
            }
            match rustix::fs::fsetxattr(file, name(key), value, XattrFlags::empty()) {
                Ok(()) => {}
                // The file system has none, or only the superuser may.
                Err(Errno::OPNOTSUPP | Errno::PERM | Errno::ACCESS) => self.left_out += 1,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(rustix::fs::futimens(file, &times(attributes))?)
    }

    /// The same for what is not opened: links and devices.
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
        match &mut self.open {
            Some(open) => open.file.write_all(data),
            None => Ok(()),
        }
    }

    fn end(&mut self) -> io::Result<()> {
        let Some(open) = self.open.take() else {
            return Ok(());
        };
        self.set(open.file.as_fd(), &open.attributes)
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

/// There is no such call, and nobody runs containers there.
#[cfg(target_vendor = "apple")]
fn make_node(_: &OwnedFd, _: &[u8], _: FileType, _: Mode, _: Dev) -> Result<(), Errno> {
    Err(Errno::PERM)
}

fn open_folder(folder: BorrowedFd<'_>, part: &[u8]) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(folder, name(part), flags, Mode::empty())
}

/// The names of all that is in a folder.
fn children(folder: &OwnedFd) -> io::Result<Vec<Vec<u8>>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            names.push(name.to_vec());
        }
    }
    Ok(names)
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
