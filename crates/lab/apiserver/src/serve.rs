//! The server on a socket: TLS with optional client certificates, HTTP/1.1 and HTTP/2.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::RootCertStore;
pub use rustls::ServerConfig;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::server::WebPkiClientVerifier;
use serving::Limits;
use tokio::net::TcpListener;

use crate::pki::Identity;
use crate::server::ApiServer;

/// Authenticated clients are not limited per connection: API priority and fairness applies to
/// requests, not to connections.
const LIMITS: Limits = Limits {
    clients: usize::MAX,
    per_address: usize::MAX,
    // kube-apiserver's default is 100 (`apiserver/pkg/server/secure_serving.go`). Clients multiplex
    // their watches over one connection, each occupies a stream, and an informer that waits for one
    // appears to hang.
    streams: Some(1000),
    drain: Duration::from_secs(2),
};

/// Errors of the listener.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address cannot be used.
    #[error("listening on {address}")]
    Listen {
        /// The address.
        address: String,
        /// The I/O error.
        #[source]
        source: std::io::Error,
    },
    /// The certificates cannot be used.
    #[error("setting up TLS: {0}")]
    Tls(String),
}

/// TLS configuration: the server's identity and the authorities of client certificates.
pub fn tls_config(
    identity: &Identity,
    client_authorities: &[String],
) -> Result<ServerConfig, ServeError> {
    let wrong =
        |error: &dyn std::fmt::Display| ServeError::Tls(format!("client authority: {error}"));
    let mut roots = RootCertStore::empty();
    for pem in client_authorities {
        for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
            let certificate = certificate.map_err(|error| wrong(&error))?;
            roots.add(certificate).map_err(|error| wrong(&error))?;
        }
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
        // As with `--client-ca-file`: a certificate is one of several ways to authenticate, and a
        // connection without one may carry a bearer token.
        .allow_unauthenticated()
        .build()
        .map_err(|error| wrong(&error))?;
    let (certificate, key) = (identity.certificate.as_bytes(), identity.key.as_bytes());
    serving::tls_settings(certificate, key, verifier)
        .map_err(|error| ServeError::Tls(format!("server {error}")))
}

/// A listening socket.
pub async fn listen(address: SocketAddr) -> Result<TcpListener, ServeError> {
    TcpListener::bind(address)
        .await
        .map_err(|source| ServeError::Listen {
            address: address.to_string(),
            source,
        })
}

/// Serves until `stop` is ready, then lets running requests finish.
pub async fn serve(
    server: ApiServer,
    listener: TcpListener,
    tls: ServerConfig,
    stop: impl Future<Output = ()> + Send,
) {
    let tls = Arc::new(tls);
    let stopping = server.clone();
    let stop = async move {
        stop.await;
        // Ends watches too, so that their connections can close.
        stopping.stop();
    };
    let answer = move |request| {
        let server = server.clone();
        async move { server.handle(request).await }
    };
    let tls: serving::Tls = Box::new(move || Arc::clone(&tls));
    serving::serve(listener, Some(tls), LIMITS, answer, stop).await;
}
