//! Why there is no admission check.

use std::net::SocketAddr;
use std::path::PathBuf;

/// Why the check cannot run, or nobody can be told of it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address cannot be used.
    #[error("listening on {address} for admission reviews")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        #[source]
        source: std::io::Error,
    },
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
    /// Where the API server is to ask makes no sense.
    #[error(
        "{0:?} does not say where the API server is to ask; accepted are url=https://HOST[:PORT] and service=NAMESPACE/NAME[:PORT]"
    )]
    Reach(String),
    /// The API server did not take the registration.
    #[error(transparent)]
    Register(#[from] chassis::Error),
}
