//! The listening socket: only its owner may open it, without a window in which others could.

#[cfg(test)]
mod tests;

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use tokio::net::UnixListener;

/// The URL scheme of socket addresses.
const SCHEME: &str = "unix://";

/// Why the socket cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// The address is invalid.
    #[error("reading the address {address:?}: expected unix:///PATH or an absolute path")]
    Address {
        /// The address given.
        address: String,
    },
    /// Another process listens there.
    #[error("listening on {}: another process listens there", path.display())]
    Busy {
        /// The path of the socket.
        path: PathBuf,
    },
    /// The path is not a socket.
    #[error("listening on {}: it exists and is not a socket", path.display())]
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

/// A listening socket. Its path is removed on drop, unless another process has replaced it.
#[derive(Debug)]
pub(crate) struct Socket {
    path: PathBuf,
    inode: u64,
}

impl Socket {
    /// Listens. A stale socket is replaced; missing folders are created.
    ///
    /// It is created in a private folder with its permissions, and then renamed to its path.
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
            // Only a connection proves that a process listens: the file of a killed process stays, and refusing it
            // would need an administrator after every crash.
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
            // `bind` creates the socket with the umask, and `chmod` follows: at the final path there would be a
            // moment in which any user could connect and pull with the node's credentials.
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
