//! Certificates of servers: files that somebody else renews, or made here.
//!
//! ```text
//! Files, SelfMade, Authority --> Pair --> Tls --> what a new connection gets
//!   `-- Renewal: another pair, once in a while --^
//! ```

mod authority;
mod clients;
mod files;
mod tls;

use std::fmt;
use std::path::PathBuf;

pub use authority::{Authority, SelfMade};
pub use clients::{ClientAuthorities, Rejection};
pub use files::Files;
pub use tls::{Renewal, Tls};

/// A certificate, with those it depends on, and its key, in PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct Pair {
    /// The certificate.
    pub certificate: Vec<u8>,
    /// Its private key.
    pub key: Vec<u8>,
}

/// Keys are for nobody's eyes.
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
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// No certificate can be made.
    #[error("making a certificate for {names}")]
    Make {
        /// Whom it is for.
        names: String,
        /// Why.
        #[source]
        source: rcgen::Error,
    },
    /// The certificate or key cannot be used.
    #[error("using the {what}: {why}")]
    Tls {
        /// Which of them.
        what: String,
        /// Why.
        why: String,
    },
}
