//! Errors of the webhook.

use std::net::SocketAddr;

/// Why the webhook cannot run or be registered.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address cannot be bound.
    #[error("listening on {address} for admission reviews")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The I/O error.
        #[source]
        source: std::io::Error,
    },
    /// The serving certificate cannot be created or loaded.
    #[error(transparent)]
    Certificate(#[from] serving::certificates::Error),
    /// A ConfigMap has an invalid client CA.
    #[error("reading the client CA of ConfigMap {0}: {1}")]
    ClientCa(String, String),
    /// No CA can sign certificates.
    #[error("issuing a certificate: no CA is available")]
    NoAuthority,
    /// Invalid address for the API server.
    #[error(
        "{0:?} is not an address for the API server; accepted are url=https://HOST[:PORT] and service=NAMESPACE/NAME[:PORT]"
    )]
    Address(String),
    /// The API server rejected the registration.
    #[error(transparent)]
    Register(#[from] runtime::Error),
}
