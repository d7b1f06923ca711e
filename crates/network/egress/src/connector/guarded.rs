//! The only place where clients open TCP connections.
//!
//! ```text
//! host, port --resolve--> addresses --AddressPolicy--> those allowed --connect--> TCP
//! ```
//!
//! Every request passes through here: to registries, mirrors, token servers, web servers, redirect
//! targets, and to proxies on the way. A name is resolved once, and the connection goes to an address that was checked; there is
//! no second lookup that DNS rebinding could exploit.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::{Ready, ready};
use http::Uri;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::Name;
use hyper_util::rt::TokioIo;
use platform::AddressPolicy;
use tokio::net::{TcpStream, lookup_host};
use tower::{BoxError, Service, ServiceExt as _};

/// The host passed to [`HttpConnector`]: it connects to literal addresses without consulting its
/// resolver, but always consults it for a name.
const CHECKED: &str = "checked.invalid";

/// Connects to addresses that a policy allows.
#[derive(Clone)]
pub(super) struct GuardedConnector {
    policy: Arc<AddressPolicy>,
    timeout: Duration,
}

#[derive(Debug, thiserror::Error)]
#[error("resolving {host:?}")]
struct ResolveError {
    host: String,
    source: io::Error,
}

impl GuardedConnector {
    /// `timeout` is divided among the addresses of a name, so that an unresponsive one leaves time for
    /// the others.
    pub(super) fn new(policy: AddressPolicy, timeout: Duration) -> Self {
        Self {
            policy: Arc::new(policy),
            timeout,
        }
    }

    async fn connect(self, uri: Uri) -> Result<TokioIo<TcpStream>, BoxError> {
        let host = uri.host().unwrap_or_default();
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let is_tls = uri.scheme_str() == Some("https");
        let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        // `lookup_host` also returns literal addresses as they are, so
        // `https://169.254.169.254/` passes the policy like any name.
        let resolved = lookup_host((host, port)).await;
        let resolved = resolved.map_err(|source| ResolveError {
            host: host.to_owned(),
            source,
        })?;
        let checked = self.policy.filter(resolved)?;
        let mut http = HttpConnector::new_with_resolver(Checked(checked));
        http.set_nodelay(true);
        http.set_keepalive(Some(Duration::from_mins(1)));
        http.set_connect_timeout(Some(self.timeout));
        let uri = Uri::builder()
            .scheme("http")
            .authority(format!("{CHECKED}:{port}"))
            .path_and_query("/")
            .build()?;
        Ok(http.oneshot(uri).await?)
    }
}

impl Service<Uri> for GuardedConnector {
    type Response = TokioIo<TcpStream>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        Box::pin(self.clone().connect(uri))
    }
}

/// A resolver that returns the checked addresses.
#[derive(Clone)]
struct Checked(Vec<SocketAddr>);

impl Service<Name> for Checked {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = io::Error;
    type Future = Ready<Result<Self::Response, io::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), io::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Name) -> Self::Future {
        ready(Ok(self.0.clone().into_iter()))
    }
}
