//! HTTP transport: connections, timeouts, redirects, bodies.

use std::collections::HashMap;
use std::error::Error as _;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use egress::Connector;
use http::header::{AUTHORIZATION, CONTENT_LENGTH, LOCATION, PROXY_AUTHORIZATION};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri, response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use parking_lot::{Mutex, RwLock};
use platform::ForbiddenAddress;
use rustls::{CertificateError, InvalidMessage};
use tokio::time::timeout;
use tower::{BoxError, Service};
use url::Url;

use crate::auth::{check_literal, origin};
use crate::counts::Counts;
use crate::error::{Cause, Operation, TimeoutStage};
use crate::network::Network;
use crate::settings::Settings;
use crate::trust::Tls;

/// The maximum chunk size of a body: readers hold a small number of chunks in memory.
const MAX_CHUNK_BYTES: usize = 128 * 1024;

/// Idle connections kept per host.
const IDLE_CONNECTIONS: usize = 4;

/// Upper bound of TLS configurations whose connections are kept: one per endpoint with certificates of
/// its own.
// Beyond it all pools are dropped and rebuilt: connections are lost, nothing else. Only an administrator adds
// certificates, so this guards against configuration errors, not against users.
const MAX_CLIENTS: usize = 256;

/// One request.
pub(crate) struct Call<'a> {
    pub(crate) operation: Operation,
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) tls: &'a Tls,
    pub(crate) verify: bool,
    /// The check of redirect targets besides the general rules.
    pub(crate) check: &'a (dyn Fn(&Url) -> Result<(), Cause> + Sync),
}

type Pool = Client<Timed, Full<Bytes>>;

/// All connections.
pub(crate) struct Transport {
    settings: Arc<Settings>,
    network: RwLock<Arc<Network>>,
    counts: Arc<Counts>,
    clients: Mutex<HashMap<(Tls, bool), Pool>>,
}

impl Transport {
    pub(crate) fn new(settings: Arc<Settings>, network: Network, counts: Arc<Counts>) -> Self {
        Self {
            network: RwLock::new(Arc::new(network)),
            settings,
            counts,
            clients: Mutex::new(HashMap::new()),
        }
    }

    pub(crate) fn network(&self) -> Arc<Network> {
        Arc::clone(&self.network.read())
    }

    pub(crate) fn set_network(&self, network: Network) {
        *self.network.write() = Arc::new(network);
        // Connections lead through the old proxies, to servers that the old certificates made trusted.
        self.clients.lock().clear();
    }

    /// The certificates for a host.
    pub(crate) fn tls(&self, host: &str) -> Tls {
        let network = self.network();
        network
            .authorities
            .and(self.settings.tls.get(host))
            .and(network.tls.get(host))
    }

    /// Sends a request and follows redirects. Any final status is returned.
    pub(crate) async fn send(&self, call: &Call<'_>) -> Result<Answer, Cause> {
        let mut url = call.url.clone();
        let mut headers = call.headers.clone();
        let (mut tls, mut verify) = (call.tls.clone(), call.verify);
        for _ in 0..=self.settings.redirects {
            let answer = self.once(call, &url, headers.clone(), &tls, verify).await?;
            let code = answer.parts.status.as_u16();
            let is_redirect = matches!(code, 301 | 302 | 303 | 307 | 308);
            if !is_redirect || !matches!(call.method, Method::GET | Method::HEAD) {
                return Ok(answer);
            }
            let next = next_hop(&url, &answer.parts.headers)?;
            (call.check)(&next)?;
            if origin(&next) != origin(&url) || next.scheme() != url.scheme() {
                // Credentials and client certificates must not go to another host.
                headers.remove(AUTHORIZATION);
                // An allow-list: `X-Api-Key` and whatever else a user configured may be a credential, and a list of
                // known secrets would always be incomplete.
                for name in private_headers(&headers) {
                    headers.remove(name);
                }
                tls = self.tls(&origin(&next));
                // A host whose certificate is not verified may redirect to itself without verification,
                // not to others.
                verify = true;
            }
            url = next;
        }
        Err(Cause::Refused(format!(
            "more than {} redirects",
            self.settings.redirects
        )))
    }

    async fn once(
        &self,
        call: &Call<'_>,
        url: &Url,
        headers: HeaderMap,
        tls: &Tls,
        verify: bool,
    ) -> Result<Answer, Cause> {
        let mut request = Request::new(Full::new(call.body.clone()));
        *request.method_mut() = call.method.clone();
        *request.uri_mut() = url
            .as_str()
            .parse::<Uri>()
            .map_err(|_| Cause::Invalid("the URL cannot be requested".to_owned()))?;
        *request.headers_mut() = headers;
        let network = self.network();
        if let Some(value) = network.proxies.authorization(request.uri()) {
            request.headers_mut().insert(PROXY_AUTHORIZATION, value);
        }
        let client = if url.scheme() == "https" {
            self.client(&network, tls, verify)?
        } else {
            // Plain HTTP needs no CA certificates, and there may be none.
            self.client(&network, &Tls::default(), false)?
        };
        self.counts.add(&origin(url), call.operation);
        let wait = self.settings.header_timeout;
        // Headers have their own timeout and bodies a stall timeout; one for the whole request would either fail
        // large layers or let a silent server hold a permit for hours.
        let response = timeout(wait, client.request(request))
            .await
            .map_err(|_| Cause::Timeout {
                step: TimeoutStage::Headers,
                after: wait,
            })?
            .map_err(|error| self.explain(&error))?;
        let (parts, body) = response.into_parts();
        let header = |name: &str| {
            parts
                .headers
                .get(name)
                .and_then(|value| value.to_str().ok())
        };
        if let Some(left) = header("ratelimit-remaining") {
            self.counts.record_rate_limit(&origin(url), left);
        }
        // Registries announce deprecations with code 299; log it only.
        if let Some(warning) = header("warning").filter(|warning| warning.starts_with("299")) {
            let warning = crate::error::clean(warning, &[]);
            tracing::warn!(host = origin(url), warning, "registry warning");
        }
        let length = parts
            .headers
            .get(CONTENT_LENGTH)
            .and_then(|value| value.to_str().ok()?.parse().ok());
        Ok(Answer {
            parts,
            body,
            length,
            taken: 0,
            waiting: None,
            stall: self.settings.stall_timeout,
            url: url.clone(),
        })
    }

    fn explain(&self, error: &hyper_util::client::legacy::Error) -> Cause {
        let mut text = String::new();
        let mut source = error.source();
        while let Some(inner) = source {
            if inner.is::<ConnectTimeout>() {
                let after = self.settings.connect_timeout;
                return Cause::Timeout {
                    step: TimeoutStage::Connect,
                    after,
                };
            }
            if let Some(forbidden) = inner.downcast_ref::<ForbiddenAddress>() {
                return Cause::Refused(forbidden.to_string());
            }
            let described = of_tls(inner).unwrap_or_else(|| inner.to_string());
            if !text.ends_with(&described) {
                if !text.is_empty() {
                    text.push_str(": ");
                }
                text.push_str(&described);
            }
            source = inner.source();
        }
        if text.is_empty() {
            text = error.to_string();
        }
        Cause::Unreachable(crate::error::clean(&text, &[]))
    }

    fn client(&self, network: &Arc<Network>, tls: &Tls, verify: bool) -> Result<Pool, Cause> {
        let mut clients = self.clients.lock();
        let key = (tls.clone(), verify);
        if let Some(client) = clients.get(&key) {
            return Ok(client.clone());
        }
        let configuration = |tls: &Tls, verify| {
            let configuration = self.settings.roots.configuration(tls, verify);
            configuration.map_err(|why| Cause::Unreachable(format!("setting up TLS: {why}")))
        };
        let limit = self.settings.connect_timeout;
        let proxies = Arc::new(network.proxies.clone());
        let mut connector = Connector::new(proxies, self.settings.addresses.clone(), limit);
        if network.proxies.has_tls() {
            let tls = configuration(&network.authorities, true)?;
            connector = connector.with_proxy_tls(Arc::new(tls));
        }
        // HTTP/1.1 only: each blob then has a connection of its own and does not block other requests.
        let https = HttpsConnectorBuilder::new()
            .with_tls_config(configuration(tls, verify)?)
            .https_or_http()
            .enable_http1()
            .wrap_connector(connector);
        let client: Pool = Client::builder(TokioExecutor::new())
            .pool_idle_timeout(Duration::from_secs(30))
            .pool_max_idle_per_host(IDLE_CONNECTIONS)
            .http1_max_buf_size(MAX_CHUNK_BYTES)
            .build(Timed {
                inner: https,
                limit,
            });
        if clients.len() >= MAX_CLIENTS {
            clients.clear();
        }
        // The network may have been replaced in the meantime: this request still uses the old one, the next does not.
        if Arc::ptr_eq(&self.network.read(), network) {
            clients.insert(key, client.clone());
        }
        Ok(client)
    }
}

/// A description of a TLS error, with what would be accepted; `None` for other errors.
fn of_tls(error: &(dyn std::error::Error + 'static)) -> Option<String> {
    // The error may be wrapped several times.
    if let Some(wrapped) = error.downcast_ref::<io::Error>() {
        return of_tls(wrapped.get_ref()?);
    }
    match error.downcast_ref::<rustls::Error>()? {
        // Typical of a server that speaks plain HTTP on this port.
        rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType) => {
            Some("it answers without TLS; configure it as insecure to allow that".to_owned())
        }
        error @ rustls::Error::InvalidCertificate(
            CertificateError::UnknownIssuer | CertificateError::BadSignature,
        ) => Some(format!(
            "{error}; configure its CA certificate, or the server as insecure"
        )),
        _ => None,
    }
}

/// Headers bound to the host they were set for, besides `Authorization`: all but those that describe
/// the request.
fn private_headers(headers: &HeaderMap) -> Vec<HeaderName> {
    let public = [
        "accept",
        "accept-encoding",
        "if-modified-since",
        "if-none-match",
        "if-range",
        "range",
        "user-agent",
    ];
    headers
        .keys()
        .filter(|name| !public.contains(&name.as_str()))
        .cloned()
        .collect()
}

/// The target of a redirect.
fn next_hop(from: &Url, headers: &HeaderMap) -> Result<Url, Cause> {
    let next = headers
        .get(LOCATION)
        .and_then(|location| location.to_str().ok())
        .and_then(|location| from.join(location).ok())
        .ok_or_else(|| Cause::Invalid("a redirect without a valid Location".to_owned()))?;
    let refuse = |why: &str| {
        Err(Cause::Refused(format!(
            "a redirect from {} to {}: {why}",
            origin(from),
            crate::error::clean(&format!("{}://{}", next.scheme(), origin(&next)), &[])
        )))
    };
    if !matches!(next.scheme(), "http" | "https") || next.host().is_none() {
        return refuse("only http and https are followed");
    }
    if from.scheme() == "https" && next.scheme() != "https" {
        return refuse("it leads from https to http");
    }
    if !next.username().is_empty() || next.password().is_some() {
        return refuse("its address has a name or password");
    }
    check_literal(from, &next)?;
    Ok(next)
}

/// A response whose body has not been read.
pub(crate) struct Answer {
    pub(crate) parts: response::Parts,
    body: Incoming,
    pub(crate) length: Option<u64>,
    taken: u64,
    /// A chunk that was put back.
    waiting: Option<Bytes>,
    stall: Duration,
    pub(crate) url: Url,
}

impl Answer {
    /// A header that is text.
    pub(crate) fn header(&self, name: impl http::header::AsHeaderName) -> Option<&str> {
        self.parts
            .headers
            .get(name)
            .and_then(|value| value.to_str().ok())
    }

    /// Puts back a chunk; it is returned next.
    pub(crate) fn put_back(&mut self, piece: Bytes) {
        self.waiting = Some(piece);
    }

    /// The next chunk of the body.
    pub(crate) async fn piece(&mut self) -> Result<Option<Bytes>, Cause> {
        if let Some(piece) = self.waiting.take() {
            return Ok(Some(piece));
        }
        loop {
            let frame =
                timeout(self.stall, self.body.frame())
                    .await
                    .map_err(|_| Cause::Timeout {
                        step: TimeoutStage::Body,
                        after: self.stall,
                    })?;
            match frame {
                None => return Ok(None),
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data()
                        && !data.is_empty()
                    {
                        self.taken = self.taken.saturating_add(data.len() as u64);
                        return Ok(Some(data));
                    }
                }
                Some(Err(error)) => return Err(self.broken(&error)),
            }
        }
    }

    /// The cause of an interrupted body.
    fn broken(&self, error: &hyper::Error) -> Cause {
        let source = error.source();
        let ended = error.is_incomplete_message()
            || source
                .and_then(|source| source.downcast_ref::<io::Error>())
                .is_some_and(|source| source.kind() == io::ErrorKind::UnexpectedEof);
        match self.length {
            Some(expected) if ended => Cause::Truncated {
                expected,
                found: self.taken,
            },
            _ => {
                let text = source.map_or_else(|| error.to_string(), ToString::to_string);
                Cause::Unreachable(crate::error::clean(&text, &[]))
            }
        }
    }

    /// The whole body, up to a limit.
    pub(crate) async fn read(mut self, limit: u64) -> Result<Bytes, Cause> {
        if let Some(found) = self.length.filter(|length| *length > limit) {
            return Err(Cause::TooLarge {
                limit,
                found: Some(found),
            });
        }
        let mut whole = BytesMut::new();
        while let Some(piece) = self.piece().await? {
            if whole.len() as u64 + piece.len() as u64 > limit {
                return Err(Cause::TooLarge { limit, found: None });
            }
            whole.extend_from_slice(&piece);
        }
        Ok(whole.freeze())
    }
}

/// A header value marked as sensitive.
pub(crate) fn sensitive(text: &str) -> Result<HeaderValue, Cause> {
    let mut value = HeaderValue::from_str(text).map_err(|_| {
        Cause::Invalid("credentials have characters that are invalid in a header".to_owned())
    })?;
    value.set_sensitive(true);
    Ok(value)
}

/// Connects within a timeout, TLS included.
#[derive(Clone)]
struct Timed {
    inner: HttpsConnector<Connector>,
    limit: Duration,
}

#[derive(Debug, thiserror::Error)]
#[error("connecting took too long")]
struct ConnectTimeout;

impl Service<Uri> for Timed {
    type Response = <HttpsConnector<Connector> as Service<Uri>>::Response;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connecting = self.inner.call(uri);
        let limit = self.limit;
        Box::pin(async move {
            match timeout(limit, connecting).await {
                Ok(connected) => connected,
                Err(_) => Err(ConnectTimeout.into()),
            }
        })
    }
}
