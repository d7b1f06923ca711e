//! The client of an API server: proxies, TLS and credentials as kubectl has them.
//!
//! It is built here rather than by kube because of two differences from kubectl. kube compares `NO_PROXY` with the proxy
//! instead of the API server, and fails on entries that Go ignores, such as an empty one after a trailing comma. And
//! rustls refuses client certificates of X.509 version 1, which `openssl x509 -req` writes by default.

mod identity;
mod kubeconfig;
mod overrides;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use egress::{Connector, ProxyError, ProxySettings};
use http::Request;
use http::header::PROXY_AUTHORIZATION;
use hyper::body::Incoming;
use hyper_rustls::{FixedServerNameResolver, HttpsConnectorBuilder};
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use kube::Config;
use kube::client::retry::RetryPolicy;
use kube::client::{Body, ClientBuilder, ConfigExt as _};
use platform::AddressPolicy;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tower::retry::RetryLayer;
use tower::util::{BoxService, MapRequestLayer, option_layer};
use tower::{BoxError, Layer as _, ServiceExt as _};

pub use self::kubeconfig::{ContextError, in_kubeconfig, in_usual_kubeconfig, usual};
pub use self::overrides::{OverrideError, Overrides, check_names};

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// A proxy setting is wrong.
    #[error(transparent)]
    Proxy(#[from] ProxyError),
    /// The credentials or certificates cannot be used.
    #[error("the credentials or certificates of the kubeconfig cannot be used")]
    Config(#[source] Box<kube::Error>),
    /// The client certificate and its key cannot be read, or do not belong together.
    #[error("the client certificate of the kubeconfig cannot be used: {0}")]
    Identity(String),
    /// `tls-server-name` is no name.
    #[error("tls-server-name {0:?} of the kubeconfig is neither a DNS name nor an IP address")]
    ServerName(String),
}

impl From<kube::Error> for ClientError {
    fn from(error: kube::Error) -> Self {
        Self::Config(Box::new(error))
    }
}

/// The transport of a client, before layers are added.
pub type Transport = BoxService<Request<Body>, http::Response<Incoming>, BoxError>;

/// Timeout of a connection if the configuration has none.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// A client for the API server of a configuration. `proxy_url` of the configuration is used for it in any case, as
/// `proxy-url` of a kubeconfig; without one, the environment decides.
pub fn builder(config: Config) -> Result<ClientBuilder<Transport>, ClientError> {
    let proxies = match &config.proxy_url {
        Some(url) => ProxySettings::always(&url.to_string())?,
        None => ProxySettings::from_env()?,
    };
    builder_with(config, proxies)
}

fn builder_with(
    config: Config,
    proxies: ProxySettings,
) -> Result<ClientBuilder<Transport>, ClientError> {
    let tls = tls(&config)?;
    let proxies = Arc::new(proxies);
    let timeout = config.connect_timeout.unwrap_or(CONNECT_TIMEOUT);
    // The user of a kubeconfig names the server, which may be anywhere.
    let connector = Connector::new(Arc::clone(&proxies), AddressPolicy::unrestricted(), timeout)
        // As in Go: one TLS configuration for the server and for a proxy before it.
        .with_proxy_tls(Arc::new(tls.clone()));
    let mut https = HttpsConnectorBuilder::new()
        .with_tls_config(tls)
        .https_or_http();
    if let Some(name) = &config.tls_server_name {
        let wrong = |_| ClientError::ServerName(name.clone());
        let name = ServerName::try_from(name.clone()).map_err(wrong)?;
        https = https.with_server_name_resolver(FixedServerNameResolver::new(name));
    }
    let mut connector = TimeoutConnector::new(https.enable_http1().wrap_connector(connector));
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_read_timeout(config.read_timeout);
    connector.set_write_timeout(config.write_timeout);
    connector.set_reset_reader_on_write(config.reset_reader_on_write);
    let client: Client<_, Body> = Client::builder(TokioExecutor::new()).build(connector);
    let client = client.map_err(|error| BoxError::from(causes(&error)));
    // The innermost layer: the URL is complete here.
    let forwarded = MapRequestLayer::new(move |mut request: Request<Body>| {
        if let Some(value) = proxies.authorization(request.uri()) {
            request.headers_mut().insert(PROXY_AUTHORIZATION, value);
        }
        request
    });
    let service = forwarded.layer(client);
    let service = config.extra_headers_layer()?.layer(service);
    let service = option_layer(config.auth_layer()?).layer(service);
    let retry = RetryLayer::new(RetryPolicy::server_retry());
    let service = option_layer(config.default_retry.then_some(retry)).layer(service);
    let service = config.base_uri_layer().layer(service);
    Ok(ClientBuilder::new(
        BoxService::new(service),
        config.default_namespace,
    ))
}

/// An error with its causes: kube displays the outermost one only, which is `client error (Connect)`.
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

/// The TLS configuration. A client certificate that rustls refuses for its version is used nevertheless: whether it is
/// accepted is the decision of the API server.
fn tls(config: &Config) -> Result<ClientConfig, ClientError> {
    // Installing fails if another provider is there, which then is used.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    match config.rustls_client_config() {
        Err(kube::Error::RustlsTls(error)) if identity::is_unsupported(&error) => {
            let mut anonymous = config.clone();
            let user = &mut anonymous.auth_info;
            (user.client_certificate, user.client_certificate_data) = (None, None);
            (user.client_key, user.client_key_data) = (None, None);
            let mut tls = anonymous.rustls_client_config()?;
            tls.client_auth_cert_resolver = identity::resolver(&config.auth_info, &tls)?;
            Ok(tls)
        }
        tls => Ok(tls?),
    }
}
