//! The connector of HTTP clients: a direct connection, or one through a proxy.

mod guarded;
mod stream;
#[cfg(test)]
mod tests;
mod tunnel;

use std::net::{IpAddr, Ipv4Addr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use http::uri::Scheme;
use hyper_util::client::legacy::connect::proxy::SocksV5;
use hyper_util::rt::TokioIo;
use platform::{AddressPolicy, ForbiddenAddress};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio_rustls::TlsConnector;
use tower::{BoxError, Service, ServiceExt as _};

use self::guarded::GuardedConnector;
pub use self::stream::EgressStream;
use crate::settings::{Proxy, ProxyScheme, ProxySettings, literal};

/// Why a URL could not be reached through its proxy.
#[derive(Debug, thiserror::Error)]
pub enum EgressError {
    /// No connection to the proxy.
    #[error("connecting to the proxy {proxy}")]
    Proxy {
        /// The proxy, without its credentials.
        proxy: String,
        /// The reason.
        source: BoxError,
    },
    /// The proxy answered, but does not connect to the target.
    #[error("the proxy {proxy} does not connect to {target}: {why}")]
    Refused {
        /// The proxy, without its credentials.
        proxy: String,
        /// `host:port` of the target.
        target: String,
        /// Its answer.
        why: String,
    },
    /// The URL has an address that the policy forbids.
    #[error(transparent)]
    Forbidden(#[from] ForbiddenAddress),
    /// The URL has no host, or no port that is known.
    #[error("{0} cannot be connected to: expected http://HOST or https://HOST")]
    Target(Uri),
}

/// Connects to hosts, directly or through a proxy.
///
/// Addresses of direct connections pass the address policy, and so do literal addresses in URLs of proxied ones. A name
/// is resolved by the proxy, which applies the rules of its administrator. The proxy itself is configured by the
/// administrator of this process and may be at any address.
#[derive(Clone)]
pub struct Connector {
    proxies: Arc<ProxySettings>,
    policy: AddressPolicy,
    direct: GuardedConnector,
    to_proxy: GuardedConnector,
    /// For proxies that are reached over TLS.
    tls: Option<Arc<ClientConfig>>,
}

impl Connector {
    /// A connector. `timeout` is divided among the addresses of a name, so that an unresponsive one leaves time for the
    /// others.
    pub fn new(proxies: Arc<ProxySettings>, policy: AddressPolicy, timeout: Duration) -> Self {
        Self {
            proxies,
            direct: GuardedConnector::new(policy.clone(), timeout),
            to_proxy: GuardedConnector::new(AddressPolicy::unrestricted(), timeout),
            policy,
            tls: None,
        }
    }

    /// Sets the TLS configuration for proxies that are reached over TLS
    /// ([`ProxySettings::has_tls`]).
    #[must_use]
    pub fn with_proxy_tls(mut self, tls: Arc<ClientConfig>) -> Self {
        self.tls = Some(tls);
        self
    }

    async fn connect(self, url: Uri) -> Result<EgressStream, BoxError> {
        let Some(proxy) = self.proxies.proxy_for(&url) else {
            return Ok(EgressStream::direct(self.direct.oneshot(url).await?));
        };
        let target = Target::of(&url)?;
        if let Some(address) = known_address(&target.host) {
            self.policy
                .check((address, target.port).into())
                .map_err(EgressError::Forbidden)?;
        }
        if proxy.scheme() == ProxyScheme::Socks5 {
            return Ok(EgressStream::direct(
                self.through_socks(proxy, &target).await?,
            ));
        }
        let unreachable = |source| EgressError::Proxy {
            proxy: proxy.to_string(),
            source,
        };
        let mut stream = self.open(proxy).await.map_err(unreachable)?;
        if proxy.forwards(&url) {
            return Ok(stream.forwarding());
        }
        tunnel::open(&mut stream, proxy, &target.to_string())
            .await
            .map_err(|why| EgressError::Refused {
                proxy: proxy.to_string(),
                target: target.to_string(),
                why,
            })?;
        Ok(stream)
    }

    /// A connection to the proxy itself.
    async fn open(&self, proxy: &Proxy) -> Result<EgressStream, BoxError> {
        let tcp = self.to_proxy.clone().oneshot(proxy.uri()?).await?;
        if proxy.scheme() != ProxyScheme::Https {
            return Ok(EgressStream::direct(tcp));
        }
        let tls = self
            .tls
            .clone()
            .ok_or("TLS is not configured for proxies")?;
        let name = ServerName::try_from(proxy.host().to_owned())?;
        let tls = TlsConnector::from(tls).connect(name, tcp.into_inner());
        Ok(EgressStream::tls(TokioIo::new(tls.await?)))
    }

    async fn through_socks(
        &self,
        proxy: &Proxy,
        target: &Target,
    ) -> Result<TokioIo<tokio::net::TcpStream>, EgressError> {
        let failed = |source: BoxError| EgressError::Proxy {
            proxy: proxy.to_string(),
            source,
        };
        let uri = proxy.uri().map_err(|error| failed(error.into()))?;
        let mut socks = SocksV5::new(uri, self.to_proxy.clone());
        if let Some((name, password)) = proxy.credentials() {
            socks = socks.with_auth(name.to_owned(), password.to_owned());
        }
        let url = target.url().map_err(|error| failed(error.into()))?;
        socks
            .oneshot(url)
            .await
            .map_err(|error| EgressError::Refused {
                proxy: proxy.to_string(),
                target: target.to_string(),
                why: error.to_string(),
            })
    }
}

impl Service<Uri> for Connector {
    type Response = EgressStream;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, url: Uri) -> Self::Future {
        Box::pin(self.clone().connect(url))
    }
}

/// The address of a host that needs no resolver: a literal one, and the names that every resolver maps to loopback. Those
/// would be the host of the proxy.
fn known_address(host: &str) -> Option<IpAddr> {
    let name = host.trim_end_matches('.').to_ascii_lowercase();
    let is_local = name == "localhost" || name.ends_with(".localhost");
    literal(host).or_else(|| is_local.then_some(IpAddr::V4(Ipv4Addr::LOCALHOST)))
}

/// The host and port of a URL.
struct Target {
    /// As in the URL: an IPv6 address is in brackets.
    host: String,
    port: u16,
}

impl Target {
    fn of(url: &Uri) -> Result<Self, EgressError> {
        let usual = match url.scheme() {
            Some(scheme) if *scheme == Scheme::HTTPS => Some(443),
            Some(scheme) if *scheme == Scheme::HTTP => Some(80),
            _ => None,
        };
        let port = url.port_u16().or(usual);
        match (url.host(), port) {
            (Some(host), Some(port)) if !host.is_empty() => Ok(Self {
                host: host.to_owned(),
                port,
            }),
            _ => Err(EgressError::Target(url.clone())),
        }
    }

    /// A URL with an explicit port.
    fn url(&self) -> Result<Uri, http::Error> {
        Uri::builder()
            .scheme(Scheme::HTTP)
            .authority(self.to_string())
            .path_and_query("/")
            .build()
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}
