//! Certificates of servers: files that are renewed externally, or issued here.
//!
//! ```text
//! Files, SelfSigned, Authority --> Pair --> Tls --> new connections
//!   `-- Renewal: another pair from time to time --^
//! ```

mod authority;
mod clients;
mod files;
mod tls;

use std::fmt;
use std::path::PathBuf;

pub use authority::{Authority, SelfSigned};
pub use clients::{ClientAuthorities, Rejection};
pub use files::Files;
pub use tls::{Renewal, Tls};

/// A certificate chain and its key, in PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct Pair {
    /// The certificate.
    pub certificate: Vec<u8>,
    /// Its private key.
    pub key: Vec<u8>,
}

/// Keys must not appear in logs.
impl fmt::Debug for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pair").finish_non_exhaustive()
    }
}

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file with a certificate or key cannot be read.
    #[error("reading {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// A certificate cannot be issued.
    #[error("creating a certificate for {names}")]
    Make {
        /// Its subject names.
        names: String,
        /// The cause.
        #[source]
        source: rcgen::Error,
    },
    /// The certificate or key is invalid.
    #[error("using the {what}: {why}")]
    Tls {
        /// Which of them.
        what: String,
        /// The cause.
        why: String,
    },
}
