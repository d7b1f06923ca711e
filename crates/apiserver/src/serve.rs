//! The server on a socket: TLS with optional client certificates, HTTP/1.1 and HTTP/2.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use rustls::RootCertStore;
pub use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::auth::PeerCertificate;
use crate::pki::Identity;
use crate::server::{ApiServer, stopped};

/// How long a client may take to shake hands or to send its headers.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long running requests get when the server stops.
const DRAIN: Duration = Duration::from_secs(2);

/// Why a server cannot be reached.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address cannot be used.
    #[error("listening on {address}")]
    Listen {
        /// The address.
        address: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The certificates cannot be used.
    #[error("setting up TLS: {0}")]
    Tls(String),
}

/// TLS settings: the server's identity and the authorities of client certificates.
pub fn tls_config(
    identity: &Identity,
    client_authorities: &[String],
) -> Result<ServerConfig, ServeError> {
    let wrong =
        |what: &str, error: &dyn std::fmt::Display| ServeError::Tls(format!("{what}: {error}"));
    let mut roots = RootCertStore::empty();
    for pem in client_authorities {
        for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
            let certificate = certificate.map_err(|error| wrong("client authority", &error))?;
            roots
                .add(certificate)
                .map_err(|error| wrong("client authority", &error))?;
        }
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let verifier =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
            .allow_unauthenticated()
            .build()
            .map_err(|error| wrong("client authority", &error))?;
    let chain = CertificateDer::pem_slice_iter(identity.certificate.as_bytes())
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| wrong("server certificate", &error))?;
    let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes())
        .map_err(|error| wrong("server key", &error))?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong("protocol versions", &error))?
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain, key)
        .map_err(|error| wrong("server certificate", &error))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
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

/// Serves until `stop` is ready, then lets running requests end.
pub async fn serve(
    server: ApiServer,
    listener: TcpListener,
    tls: ServerConfig,
    stop: impl Future<Output = ()>,
) {
    let acceptor = TlsAcceptor::from(Arc::new(tls));
    let mut connections = JoinSet::new();
    tokio::pin!(stop);
    loop {
        let stream = tokio::select! {
            () = &mut stop => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    // Out of file handles, most likely; they come back.
                    tracing::warn!(%error, "accepting a connection failed");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            },
            Some(_) = connections.join_next(), if !connections.is_empty() => continue,
        };
        connections.spawn(connection(server.clone(), acceptor.clone(), stream));
    }
    drop(listener);
    // Watches end here too: their connections are told to finish what they have.
    server.stop();
    let _ = tokio::time::timeout(DRAIN, async {
        while connections.join_next().await.is_some() {}
    })
    .await;
}

async fn connection(server: ApiServer, acceptor: TlsAcceptor, stream: TcpStream) {
    let mut stopping = server.state().stopping.subscribe();
    // Requests and watch events are small and someone waits for each.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "setting TCP_NODELAY failed");
    }
    let Ok(Ok(stream)) = tokio::time::timeout(PATIENCE, acceptor.accept(stream)).await else {
        return;
    };
    let peer = stream
        .get_ref()
        .1
        .peer_certificates()
        .and_then(|chain| chain.first())
        .map(|certificate| PeerCertificate(certificate.to_vec()));
    let service = service_fn(move |mut request: Request<Incoming>| {
        let server = server.clone();
        if let Some(peer) = peer.clone() {
            request.extensions_mut().insert(peer);
        }
        async move { Ok::<_, std::convert::Infallible>(server.handle(request).await) }
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(1000)
        .keep_alive_interval(Some(Duration::from_secs(30)));
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let outcome = tokio::select! {
        outcome = connection.as_mut() => outcome,
        () = stopped(&mut stopping) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = outcome {
        tracing::debug!(%error, "a connection ended early");
    }
}
