//! The socket: nobody but its owner may open it, and there is never a moment when others could.

#[cfg(test)]
mod tests;

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use tokio::net::UnixListener;

/// What addresses of sockets begin with.
const SCHEME: &str = "unix://";

/// Why there is no socket.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// The address is none.
    #[error("reading the address {address:?}: expected unix:///PATH or an absolute path")]
    Address {
        /// What was read.
        address: String,
    },
    /// Somebody else listens there.
    #[error("listening on {}: another process does", path.display())]
    Busy {
        /// Where.
        path: PathBuf,
    },
    /// There is something else.
    #[error("listening on {}: there is something that is no socket", path.display())]
    NotASocket {
        /// Where.
        path: PathBuf,
    },
    /// It could not be made.
    #[error("listening on {}", path.display())]
    Bind {
        /// Where.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

/// The path of an address: `unix:///run/x.sock` or `/run/x.sock`.
pub fn path_of(address: &str) -> Result<PathBuf, SocketError> {
    let path = PathBuf::from(address.strip_prefix(SCHEME).unwrap_or(address));
    if path.is_absolute() && path.file_name().is_some() {
        return Ok(path);
    }
    Err(SocketError::Address {
        address: address.to_owned(),
    })
}

/// A socket that is listened on. Its name goes when this is dropped, unless somebody else has taken it.
#[derive(Debug)]
pub(crate) struct Socket {
    path: PathBuf,
    inode: u64,
}

impl Socket {
    /// Listens. A socket that nobody listens on any more is replaced; folders that are missing are made.
    ///
    /// It is made where only its owner can look, and gets its name with its permissions.
    pub(crate) fn bind(path: &Path) -> Result<(Self, UnixListener), SocketError> {
        let failed = |source| SocketError::Bind {
            path: path.to_owned(),
            source,
        };
        match fs::symlink_metadata(path) {
            Ok(found) if !found.file_type().is_socket() => {
                let path = path.to_owned();
                return Err(SocketError::NotASocket { path });
            }
            Ok(_) if UnixStream::connect(path).is_ok() => {
                let path = path.to_owned();
                return Err(SocketError::Busy { path });
            }
            _ => {}
        }
        let folder = path.parent().unwrap_or_else(|| Path::new("/"));
        let mut builder = fs::DirBuilder::new();
        builder.mode(0o700);
        builder.recursive(true).create(folder).map_err(failed)?;
        let bound = (|| {
            // Short, since addresses of sockets are.
            let private = tempfile::Builder::new().prefix(".").tempdir_in(folder)?;
            let first = private.path().join("s");
            let listener = UnixListener::bind(&first)?;
            fs::set_permissions(&first, fs::Permissions::from_mode(0o600))?;
            fs::rename(&first, path)?;
            Ok((inode(path)?, listener))
        })();
        let (inode, listener) = bound.map_err(failed)?;
        let path = path.to_owned();
        Ok((Self { path, inode }, listener))
    }
}

fn inode(path: &Path) -> io::Result<u64> {
    use std::os::unix::fs::MetadataExt as _;
    Ok(fs::symlink_metadata(path)?.ino())
}

impl Drop for Socket {
    fn drop(&mut self) {
        if inode(&self.path).is_ok_and(|now| now == self.inode) {
            let _ = fs::remove_file(&self.path);
        }
    }
}
