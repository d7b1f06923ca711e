//! Why there is no admission check.

use std::net::SocketAddr;

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
    /// The certificate cannot be made or used.
    #[error(transparent)]
    Certificate(#[from] serving::certificates::Error),
    /// What a ConfigMap says of client certificates makes no sense.
    #[error("reading the client CA of ConfigMap {0}: {1}")]
    ClientCa(String, String),
    /// Nobody can sign certificates.
    #[error("making a certificate: there is no authority")]
    NoAuthority,
    /// Where the API server is to ask makes no sense.
    #[error(
        "{0:?} does not say where the API server is to ask; accepted are url=https://HOST[:PORT] and service=NAMESPACE/NAME[:PORT]"
    )]
    Reach(String),
    /// The API server did not take the registration.
    #[error(transparent)]
    Register(#[from] runtime::Error),
}
