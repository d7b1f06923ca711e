//! Connections to webhooks: resolve, dial, handshake.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::{TcpStream, lookup_host};
use tokio_rustls::TlsConnector;
use url::{Host, Url};

use super::go_errors;
use super::verify::BundleVerifier;
use crate::admission::service;
use crate::pki::Identity;
use crate::server::State;

/// An established connection.
pub(super) enum Connected {
    /// HTTP/1.1: one request at a time.
    Single(http1::SendRequest<Full<Bytes>>),
    /// HTTP/2: concurrent requests.
    Multiplexed(http2::SendRequest<Full<Bytes>>),
}

impl Connected {
    pub(super) fn is_multiplexed(&self) -> bool {
        matches!(self, Self::Multiplexed(_))
    }

    /// Whether a request can be sent right now.
    pub(super) fn is_ready(&self) -> bool {
        match self {
            Self::Single(sender) => sender.is_ready(),
            Self::Multiplexed(sender) => sender.is_ready(),
        }
    }

    /// Another handle of an HTTP/2 connection.
    pub(super) fn share(&self) -> Option<Self> {
        match self {
            Self::Single(_) => None,
            Self::Multiplexed(sender) => Some(Self::Multiplexed(sender.clone())),
        }
    }

    pub(super) async fn send(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, hyper::Error> {
        match self {
            Self::Single(sender) => sender.send_request(request).await,
            Self::Multiplexed(sender) => sender.send_request(request).await,
        }
    }
}

/// Whether a URL points to the loopback address.
pub(super) fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name.eq_ignore_ascii_case("localhost"),
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

/// TLS configuration: certificate authorities in PEM, or those of the system, and the client
/// certificate.
pub(super) fn tls(
    authorities: &[u8],
    multiplexed: bool,
    identity: Option<&Identity>,
) -> Result<ClientConfig, String> {
    let config = ClientConfig::builder();
    let config = if authorities.is_empty() {
        config.with_root_certificates(system_roots().clone())
    } else {
        config
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(bundle_verifier(authorities)?))
    };
    let mut config = match identity {
        None => config.with_no_client_auth(),
        Some(identity) => {
            let (chain, key) = client_certificate(identity)?;
            config
                .with_client_auth_cert(chain, key)
                .map_err(|error| unusable(&error))?
        }
    };
    config.alpn_protocols = if multiplexed {
        vec![b"h2".to_vec(), b"http/1.1".to_vec()]
    } else {
        vec![b"http/1.1".to_vec()]
    };
    Ok(config)
}

fn bundle_verifier(authorities: &[u8]) -> Result<BundleVerifier, String> {
    let unusable =
        || "unable to load root certificates: unable to parse bytes as PEM block".to_owned();
    let bundle = CertificateDer::pem_slice_iter(authorities).collect::<Result<Vec<_>, _>>();
    BundleVerifier::new(bundle.map_err(|_| unusable())?).map_err(|_| unusable())
}

/// A client certificate chain and its key.
pub(super) fn client_certificate(
    identity: &Identity,
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), String> {
    let chain = CertificateDer::pem_slice_iter(identity.certificate.as_bytes());
    let chain = chain.collect::<Result<Vec<_>, _>>();
    let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes());
    Ok((
        chain.map_err(|error| unusable(&error))?,
        key.map_err(|error| unusable(&error))?,
    ))
}

fn unusable(error: &dyn std::fmt::Display) -> String {
    format!("using the client certificate: {error}")
}

/// The certificate authorities of the system, read once.
fn system_roots() -> &'static RootCertStore {
    static ROOTS: OnceLock<RootCertStore> = OnceLock::new();
    ROOTS.get_or_init(|| {
        let found = rustls_native_certs::load_native_certs();
        for error in &found.errors {
            tracing::warn!(%error, "a trusted certificate of the system cannot be read");
        }
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(found.certs);
        roots
    })
}

/// Opens connections.
pub(super) struct Dialer<'a> {
    pub(super) state: &'a State,
    pub(super) tls: &'a Arc<ClientConfig>,
    /// Namespace, name and port of the Service behind the URL.
    pub(super) service: Option<&'a (String, String, u16)>,
}

impl Dialer<'_> {
    pub(super) async fn connect(&self, url: &Url) -> Result<Connected, String> {
        let host = url.host_str().unwrap_or_default();
        let port = url.port_or_known_default().unwrap_or(443);
        let (to, to_port) = match self.service {
            Some((namespace, name, port)) => service::resolve(self.state, namespace, name, *port)?,
            None => (host.to_owned(), port),
        };
        let stream = dial(to.trim_matches(['[', ']']), to_port).await?;
        // The certificate is verified for the name in the URL, `<service>.<namespace>.svc`,
        // although the connection goes to the address of an endpoint.
        let name = ServerName::try_from(host.trim_matches(['[', ']']).to_owned())
            .map_err(|error| error.to_string())?;
        let stream = TlsConnector::from(Arc::clone(self.tls))
            .connect(name, stream)
            .await
            .map_err(|error| go_errors::of_handshake(&error, host))?;
        let multiplexed = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        let io = TokioIo::new(stream);
        let broken = |error: hyper::Error| go_errors::of_transport(&error);
        if multiplexed {
            let (sender, connection) = http2::handshake(TokioExecutor::new(), io)
                .await
                .map_err(broken)?;
            tokio::spawn(async move {
                // Errors reach the waiting request as well.
                let _ = connection.await;
            });
            return Ok(Connected::Multiplexed(sender));
        }
        let (sender, connection) = http1::handshake(io).await.map_err(broken)?;
        tokio::spawn(async move {
            let _ = connection.await;
        });
        Ok(Connected::Single(sender))
    }
}

/// Connects to the first address of a host that accepts.
async fn dial(host: &str, port: u16) -> Result<TcpStream, String> {
    let addresses: Vec<SocketAddr> = match host.parse::<IpAddr>() {
        Ok(address) => vec![(address, port).into()],
        Err(_) => lookup_host((host, port))
            .await
            .map(Iterator::collect)
            .map_err(|_| format!("dial tcp: lookup {host}: no such host"))?,
    };
    let mut last = format!("dial tcp: lookup {host}: no such host");
    for address in addresses {
        match TcpStream::connect(address).await {
            Ok(stream) => {
                // Requests are small and latency matters.
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Err(error) => last = go_errors::of_dial(address, &error),
        }
    }
    Err(last)
}
